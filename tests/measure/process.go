package measure

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat, which is the same on every Linux that Go supports.
const tick = 10 * time.Millisecond

// The fields of /proc/PID/stat after the name of the program.
const (
	statUser   = 11 // processor time in user mode; that in kernel mode follows
	statFields = 13
)

// ProcessorTime returns the processor time that a process has used.
func ProcessorTime(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return sum(fields[statUser : statUser+2])
}

// stat returns the fields of /proc/PID/stat after the name of the program.
func stat(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may have any characters.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < statFields {
		return nil, fmt.Errorf("process %d: /proc/%d/stat has %d fields after the name, want at least %d", pid, pid, len(fields), statFields)
	}
	return fields, nil
}

// sum adds up fields that count ticks.
func sum(fields []string) (time.Duration, error) {
	var total time.Duration
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// PSS returns the proportional set size of a process in bytes: a page that n processes share
// counts as the n-th part of a page.
func PSS(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "Pss:")
		if !ok {
			continue
		}
		kB, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return kB * 1024, err
	}
	return 0, fmt.Errorf("process %d: /proc/%d/smaps_rollup has no line Pss", pid, pid)
}
