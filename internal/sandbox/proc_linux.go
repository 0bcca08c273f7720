package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// proc describes a process by its entry in /proc.
type proc struct {
	pid, ppid, sid, uid int
	zombie, stopped     bool
}

// processes returns all processes that /proc shows.
func processes() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	list := make([]proc, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// readProc reads a process. It returns false if the process is gone. The real user id
// comes from status, because /proc shows root as the owner of an undumpable process. The
// state is that of the first thread: if only that thread has ended, the process is no
// zombie.
func readProc(pid int) (proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return proc{}, false
	}
	p := proc{pid: pid}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		field, _, _ := strings.Cut(strings.TrimSpace(rest), "\t")
		number, _ := strconv.Atoi(field) // 0 for a field that is no number; its value is not used
		switch name {
		case "State":
			p.zombie = strings.HasPrefix(field, "Z") || strings.HasPrefix(field, "X")
			p.stopped = strings.HasPrefix(field, "T") || strings.HasPrefix(field, "t") // by a signal or a tracer
		case "Threads":
			p.zombie = p.zombie && number <= 1 // the line with the state comes before
		case "PPid":
			p.ppid = number
		case "Uid":
			p.uid = number
		case "NSsid":
			p.sid = number
		}
	}
	return p, true
}

// ending reports whether a process has begun to end, or is gone.
func ending(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	const (
		flags   = 6   // the index of the field after the name, which may contain spaces and brackets
		exiting = 0x4 // PF_EXITING of the kernel
	)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(fields[flags], 10, 64)
	return err == nil && n&exiting != 0
}

func taskDir(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/task" }
