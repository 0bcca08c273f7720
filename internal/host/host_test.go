package host

import (
	"runtime"
	"testing"
)

func TestNetworkStack(t *testing.T) {
	if here := NetworkStack(); runtime.GOOS == "linux" && len(here) < 36 || here != NetworkStack() {
		t.Errorf("the network stack is %q, then %q", here, NetworkStack())
	}
}

func TestMemory(t *testing.T) {
	size := Memory()
	if runtime.GOOS == "linux" && size < 64<<20 {
		t.Errorf("this machine has %d bytes of memory", size)
	}
	if limit := groupLimit(); limit > 0 && size > limit {
		t.Errorf("%d bytes, more than the limit %d of the control group", size, limit)
	}
}
