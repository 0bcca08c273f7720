package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer returns an error for a connection of a process that is neither this user's nor
// root's. The mode of the socket refuses these as well, but it is set after the socket is made.
func checkPeer(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the connection is not a Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return checkUser(int(cred.Uid), os.Geteuid())
}

func checkUser(uid, own int) error {
	if uid != own && uid != 0 {
		return fmt.Errorf("user %d may not use the admin socket of user %d", uid, own)
	}
	return nil
}
