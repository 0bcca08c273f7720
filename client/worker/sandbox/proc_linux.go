package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// proc is what /proc says of a process.
type proc struct {
	pid, ppid, sid, uid int
	zombie, stopped     bool
	noPrivs             bool // has no_new_privs
}

// processes are all that /proc shows.
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

// readProc reads a process; false: it is gone. The real user id is taken from
// status: the owner of the directory is root for a process that has made itself
// undumpable.
func readProc(pid int) (proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return proc{}, false
	}
	p := proc{pid: pid}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		field, _, _ := strings.Cut(strings.TrimSpace(rest), "\t")
		number, _ := strconv.Atoi(field) // 0 for what is no number, and is not asked for
		switch name {
		case "State":
			p.zombie = strings.HasPrefix(field, "Z") || strings.HasPrefix(field, "X")
			p.stopped = strings.HasPrefix(field, "T")
		case "PPid":
			p.ppid = number
		case "Uid":
			p.uid = number
		case "NSsid":
			p.sid = number
		case "NoNewPrivs":
			p.noPrivs = number == 1
		}
	}
	return p, true
}

// markVariable tells the processes of commands apart.
const markVariable = "OSQUEUE_SANDBOX"

// markOf is the mark in a process's environment, if there is one to be read.
func markOf(pid int) string {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for _, v := range bytes.Split(env, []byte{0}) {
		if mark, ok := bytes.CutPrefix(v, []byte(markVariable+"=")); ok {
			return string(mark)
		}
	}
	return ""
}
