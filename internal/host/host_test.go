package host

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestNetworkStack(t *testing.T) {
	here := NetworkStack()
	if runtime.GOOS == "linux" && len(here) != 32 || here != NetworkStack() {
		t.Errorf("the network stack is %q, then %q", here, NetworkStack())
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && strings.Contains(here, string(boot[:8])) {
		t.Errorf("the network stack %q shows the boot id", here)
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
