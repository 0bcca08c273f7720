package machine

import (
	"os"
	"strings"
)

// NetworkStack returns the identity of the network stack in which a loopback address of this
// process is valid: the boot of the machine and the network namespace. Machines and containers
// with networks of their own have different ones. It returns "" if the identity is unknown.
func NetworkStack() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) == 0 {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}
