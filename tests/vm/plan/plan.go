// Package plan defines the input of the virtual machine of tests/vm and the form of its
// results.
package plan

import (
	"fmt"
	"strings"
	"time"
)

// File is where the plan is in the machine, as JSON.
const File = "/plan.json"

// Booted is the line that the machine prints first.
const Booted = "vm: booted"

// Plan are programs that run one after the other.
type Plan struct {
	Runs []Run `json:"runs"`
}

// Run is one program.
type Run struct {
	Name string   `json:"name"`
	Args []string `json:"args"` // the first is its path
	Env  []string `json:"env"`  // NAME=value
	// Group is the control group in which it runs, below the root, with all
	// controllers at hand; "" is the root itself.
	Group string `json:"group"`
	// Limit is after how long it is killed, and has failed.
	Limit time.Duration `json:"limit"`
}

const exitPrefix = "vm: exit "

// ExitLine says with which status the whole plan has ended.
func ExitLine(status int) string { return exitPrefix + fmt.Sprint(status) }

// ParseExit reads a line of ExitLine; false: it is another line.
func ParseExit(line string) (status int, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), exitPrefix)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &status)
	return status, err == nil
}
