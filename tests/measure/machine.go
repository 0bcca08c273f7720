package measure

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes the conditions, other than the program, on which the figures depend.
type Machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	// Load is the load average at the start of the run, over 1, 5 and 15 minutes. If it is
	// above the number of CPUs, other programs were active. Empty if the system does not report
	// it.
	Load string `json:"load,omitempty"`
}

// ThisMachine describes this machine at this time.
func ThisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 3 {
			m.Load = strings.Join(f[:3], " ")
		}
	}
	return m
}

// String formats the description on one line.
func (m Machine) String() string {
	s := fmt.Sprintf("%d CPUs, %s", m.CPUs, m.OS)
	if m.Load != "" {
		s += ", load before " + m.Load
	}
	return s
}
