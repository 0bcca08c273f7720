package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat, which is the same on every Linux that Go supports.
const tick = 10 * time.Millisecond

// The fields of /proc/PID/stat after the name of the program.
const (
	statParent   = 1
	statUser     = 11 // processor time in user mode; three more follow
	statFields   = 15
	statChildren = 13 // user mode time of the children that have ended; one more follows
)

// ProcessorTime returns the processor time that a process has used.
func ProcessorTime(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return sum(fields[statUser : statUser+2])
}

// FamilyTime returns the processor time that a process and all its descendants have used,
// including the descendants that have ended.
func FamilyTime(pid int) (time.Duration, error) {
	var total time.Duration
	for _, p := range Family(pid) {
		fields, err := stat(p)
		if errors.Is(err, os.ErrNotExist) && p != pid {
			continue // it has just ended: its parent has its time
		}
		if err != nil {
			return 0, err
		}
		own, err := sum(fields[statUser : statChildren+2])
		if err != nil {
			return 0, err
		}
		total += own
	}
	return total, nil
}

// PSS returns the proportional set size of a process and of all its descendants, in bytes: a
// page that n processes share counts as the n-th part of a page for each.
func PSS(pid int) (int64, error) {
	var total int64
	for _, p := range Family(pid) {
		own, err := pss(p)
		if errors.Is(err, os.ErrNotExist) && p != pid {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += own
	}
	return total, nil
}

// Family returns a process and its descendants.
func Family(pid int) []int {
	children := make(map[int][]int)
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, name := range names {
		p, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		fields, err := stat(p)
		if err != nil {
			continue // it has ended
		}
		if parent, err := strconv.Atoi(fields[statParent]); err == nil {
			children[parent] = append(children[parent], p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
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

// pss returns the proportional set size of one process.
func pss(pid int) (int64, error) {
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
