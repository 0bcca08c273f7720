package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine is what the figures depend on, beside the program.
type machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	// Load is the load average when the run began, 1, 5 and 15 minutes: above
	// the number of CPUs, others were at work. Empty where nobody tells.
	Load string `json:"load,omitempty"`
}

func thisMachine() machine {
	m := machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 3 {
			m.Load = strings.Join(f[:3], " ")
		}
	}
	return m
}

// String says it on one line.
func (m machine) String() string {
	s := fmt.Sprintf("%d CPUs, %s", m.CPUs, m.OS)
	if m.Load != "" {
		s += ", load before " + m.Load
	}
	return s
}
