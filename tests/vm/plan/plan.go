// Package plan defines the input of the virtual machine of tests/vm and the form of its
// results.
package plan

import (
	"fmt"
	"strings"
	"time"
)

// File is the path of the plan in the machine, as JSON.
const File = "/plan.json"

// Booted is the line that the machine prints first.
const Booted = "vm: booted"

// Plan lists programs that run one after the other.
type Plan struct {
	Runs []Run `json:"runs"`
}

// Run is one program.
type Run struct {
	Name string   `json:"name"`
	Args []string `json:"args"` // the first is its path
	Env  []string `json:"env"`  // NAME=value
	// Group is the control group of the program, below the root, with all controllers enabled;
	// "" is the root itself.
	Group string `json:"group"`
	// Limit is the time after which the program is killed and has failed.
	Limit time.Duration `json:"limit"`
}

const exitPrefix = "vm: exit "

// ExitLine returns the line that reports the status of the whole plan.
func ExitLine(status int) string { return exitPrefix + fmt.Sprint(status) }

// ParseExit parses a line of ExitLine; ok is false for any other line.
func ParseExit(line string) (status int, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), exitPrefix)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &status)
	return status, err == nil
}
