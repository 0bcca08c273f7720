package link

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
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

// peerInode returns the inode of the socket at the other end of a connection, and false if it
// is closed. It asks the kernel for that one socket, see sock_diag(7): the table in
// /proc/net/tcp also has the thousands of sockets that wait for their end.
func peerInode(c net.Conn) (uint64, bool) {
	from, okFrom := c.RemoteAddr().(*net.TCPAddr)
	to, okTo := c.LocalAddr().(*net.TCPAddr)
	if !okFrom || !okTo {
		return 0, false
	}
	answer, err := askKernel(socketQuery(from, to))
	if err != nil || len(answer) < diagInode+4 || binary.NativeEndian.Uint16(answer[4:]) != diagByFamily {
		return 0, false
	}
	inode := binary.NativeEndian.Uint32(answer[diagInode:]) // 0: closed
	return uint64(inode), inode != 0
}

// Places and values of linux/inet_diag.h, which package unix lacks.
const (
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	diagQuerySize = unix.SizeofNlMsghdr + 56
	diagInode     = unix.SizeofNlMsghdr + 68 // idiag_inode
)

// socketQuery asks for the TCP socket with that local and that remote address.
func socketQuery(local, remote *net.TCPAddr) []byte {
	q := make([]byte, diagQuerySize)
	binary.NativeEndian.PutUint32(q[0:], diagQuerySize)
	binary.NativeEndian.PutUint16(q[4:], diagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST)
	body := q[unix.SizeofNlMsghdr:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(body[8:], uint16(local.Port))
	binary.BigEndian.PutUint16(body[10:], uint16(remote.Port))
	copy(body[12:], local.IP.To4())
	copy(body[28:], remote.IP.To4())
	binary.NativeEndian.PutUint64(body[48:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return q
}

// askKernel sends one question about sockets and returns the answer.
func askKernel(query []byte) ([]byte, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, query, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(s, answer, 0)
	return answer[:max(n, 0)], err
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
