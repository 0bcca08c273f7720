//go:build unix && !solaris && !aix

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes the exclusive lock on f's open file description, or returns
// errLockHeld at once.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLockHeld
		default:
			return err
		}
	}
}
