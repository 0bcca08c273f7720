package machine

import (
	"runtime"
	"testing"
)

func TestMemory(t *testing.T) {
	size := Memory()
	if runtime.GOOS == "linux" && size < 64<<20 {
		t.Errorf("this machine has %d bytes of memory", size)
	}
	if limit := groupLimit(); limit > 0 && size > limit {
		t.Errorf("%d bytes, more than the limit %d of the control group", size, limit)
	}
}
