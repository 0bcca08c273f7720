package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

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
	pool *uidPool
}

func newUIDPool(dir string, within UIDRange) (*uidPool, error) {
	if err := canCount(); err != nil {
		return nil, err
	}
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

var (
	errNoUID   = errors.New("all user ids of the range are in use; give a larger one")
	errForeign = errors.New("all user ids of the range have processes that are no worker's, or that cannot be ended; give another one")
)

// take lends an id that has no processes. While all are in use it waits: commands that
// wait do no harm, and one that has to be ended takes a second id for a moment.
func (p *uidPool) take(ctx context.Context) (*uidLoan, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		loan, err := p.tryTake()
		if !errors.Is(err, errNoUID) {
			return loan, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", errNoUID, context.Cause(ctx))
		}
	}
}

func (p *uidPool) tryTake() (*uidLoan, error) {
	none := errForeign
	for range p.within.Count {
		loan, err := p.lockNext()
		if err != nil {
			return nil, err
		}
		if loan == nil {
			none = errNoUID
			continue
		}
		if ok, err := loan.begin(); ok {
			return loan, nil
		} else if loan.file.Close(); err != nil {
			return nil, err
		}
	}
	return nil, none
}

// spare locks an id that has no processes, and will have none until its file is closed.
func (p *uidPool) spare() (*uidLoan, error) {
	for range p.within.Count {
		loan, err := p.lockNext()
		if err != nil {
			return nil, err
		}
		if loan == nil {
			continue
		}
		if !hasProcesses(loan.uid) {
			return loan, nil
		}
		loan.file.Close()
	}
	return nil, errNoUID
}

// lockNext locks the next id of the range; nil: it is in use.
func (p *uidPool) lockNext() (*uidLoan, error) {
	uid := p.within.First + int(p.next.Add(1)%int64(p.within.Count))
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
	return &uidLoan{uid: uid, file: file, pool: p}, nil
}

// begin clears what a killed worker has left, and notes the use. It is not ok while the
// id has processes: some cannot be ended, and if no worker has noted it they are of
// somebody who has the id, too.
func (l *uidLoan) begin() (ok bool, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("lock a user id: %w", err)
	}
	if info.Size() > 0 {
		(&crowd{loan: l, running: everyRunning}).kill()
		removeOwned(l.uid)
	}
	if hasProcesses(l.uid) {
		return false, nil
	}
	if _, err := l.file.WriteAt([]byte("in use\n"), 0); err != nil {
		return false, fmt.Errorf("lock a user id: %w", err)
	}
	return true, nil
}

var errNotEnded = errors.New("a process of the command could not be ended")

// end gives the id back. If it has processes yet, it stays noted, and the next one who
// takes it tries to end them.
func (l *uidLoan) end() error {
	defer l.file.Close()
	removeOwned(l.uid)
	if hasProcesses(l.uid) {
		return errNotEnded
	}
	return l.file.Truncate(0)
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
				_ = removeDir(filepath.Join(dir, e.Name())) // what it may not remove is not ours
			}
		}
	}
}
