package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockDir has a file for each user id in use, so that two workers never have
// the same. It is for root alone.
const lockDir = "/run/osqueue-sandbox"

// uidPool lends user ids to commands. It is safe for concurrent use.
type uidPool struct {
	dir    string
	within UIDRange
	next   atomic.Int64
}

// uidLoan is a user id that nobody else has while its file is locked. The file
// is not empty while the id is in use: so the next one learns of processes that
// a killed worker has left.
type uidLoan struct {
	uid  int
	file *os.File
}

func newUIDPool(dir string, within UIDRange) (*uidPool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of user ids in use: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of user ids in use: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || st.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s must be a directory that only root can write to", dir)
	}
	p := &uidPool{dir: dir, within: within}
	p.next.Store(rand.Int64N(int64(within.Count))) // so that workers seldom try the same
	return p, nil
}

var errNoUID = errors.New("all user ids of the range are in use; give a larger one")

func (p *uidPool) take() (*uidLoan, error) {
	for range p.within.Count {
		uid := p.within.First + int(p.next.Add(1)%int64(p.within.Count))
		loan, err := p.tryTake(uid)
		if err != nil || loan != nil {
			return loan, err
		}
	}
	return nil, errNoUID
}

func (p *uidPool) tryTake(uid int) (*uidLoan, error) {
	file, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(uid)), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock a user id: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock a user id: %w", err)
	}
	loan := &uidLoan{uid: uid, file: file}
	if err := loan.begin(); err != nil {
		file.Close()
		return nil, err
	}
	return loan, nil
}

// begin clears what a killed worker has left, and notes the use.
func (l *uidLoan) begin() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("lock a user id: %w", err)
	}
	if info.Size() > 0 {
		(&crowd{uid: l.uid, running: everyRunning}).kill()
		removeOwned(l.uid)
	}
	if _, err := l.file.WriteAt([]byte("in use\n"), 0); err != nil {
		return fmt.Errorf("lock a user id: %w", err)
	}
	return nil
}

// end gives the id back. All its processes have ended.
func (l *uidLoan) end() error {
	removeOwned(l.uid)
	err := l.file.Truncate(0)
	l.file.Close()
	return err
}

// sharedDirs are those that all may write to, on most machines.
var sharedDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// removeOwned removes what a user id owns directly in the shared directories.
func removeOwned(uid int) {
	for _, dir := range sharedDirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is not there
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // somebody else removed it
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
				os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}
