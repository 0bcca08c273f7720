package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// owners knows whose a socket of this machine is.
type owners struct {
	mu   sync.RWMutex // held for writing while a process starts: it cannot dial before it is known
	pids map[int]string
}

// start starts a process and keeps its name.
func (o *owners) start(name string, cmd *exec.Cmd) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	o.pids[cmd.Process.Pid] = name
	return nil
}

// dialer returns the name of the process at the other end of a connection, Client if the
// process is not known, and false if the connection is closed.
func (o *owners) dialer(c net.Conn) (string, bool) {
	inode, ok := peerInode(c)
	if !ok {
		return "", false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	for pid, name := range o.pids {
		if holds(pid, inode) {
			return name, true
		}
	}
	return Client, true
}

// The table of sockets is read in steps, so a row can be missed while others come
// and go.
const (
	tableLooks = 5
	tablePause = 2 * time.Millisecond
)

// peerInode returns the inode of the socket at the other end of a connection.
func peerInode(c net.Conn) (uint64, bool) {
	from, okFrom := c.RemoteAddr().(*net.TCPAddr)
	to, okTo := c.LocalAddr().(*net.TCPAddr)
	if !okFrom || !okTo {
		return 0, false
	}
	row := fmt.Appendf(nil, ": %s %s ", procAddr(from), procAddr(to))
	for range tableLooks {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return 0, false
		}
		if _, rest, found := bytes.Cut(table, row); found {
			return rowInode(rest)
		}
		time.Sleep(tablePause)
	}
	return 0, false
}

// rowInode parses the inode from the part of a row after the addresses. A closed socket has
// none.
func rowInode(rest []byte) (uint64, bool) {
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // st queues timer retransmits uid timeout inode
	if len(fields) < 7 {
		return 0, false
	}
	inode, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return inode, err == nil && inode != 0
}

// procAddr writes an address as /proc/net/tcp does: the four bytes as a number of
// this machine.
func procAddr(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return "-"
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip), a.Port)
}

// holds reports whether a process has a socket open.
func holds(pid int, inode uint64) bool {
	want := fmt.Sprintf("socket:[%d]", inode)
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if got, err := os.Readlink(dir + fd.Name()); err == nil && got == want {
			return true
		}
	}
	return false
}
