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

	"osqueue/internal/sleep"
)

// lockDir contains a file for each user id in use, so that two workers never take the
// same id. Only root may write to it.
const lockDir = "/run/osqueue-sandbox"

// uidPool lends user ids to commands. It is safe for concurrent use.
type uidPool struct {
	dir    string
	within UIDRange
	next   atomic.Int64
}

// uidLoan is a user id that no other worker takes while its file is locked. The file is
// not empty while the id is in use. If a killed worker leaves processes behind, the next
// worker that takes the id learns it from the file.
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
	if hasProcesses(p.nobody()) {
		return nil, errForeign
	}
	p.next.Store(rand.Int64N(int64(within.Count))) // so that workers seldom try the same ids
	return p, nil
}

// nobody returns the first id of the range, which no command gets; see killAll.
func (p *uidPool) nobody() int { return p.within.First }

var (
	errNoUID   = errors.New("all user ids of the range are in use; use a larger range")
	errForeign = errors.New("user ids of the range have processes of other programs, or processes that cannot be ended; use another range")
)

// take lends an id without processes. While all ids are in use it waits until ctx ends.
func (p *uidPool) take(ctx context.Context) (*uidLoan, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		loan, err := p.tryTake()
		if !errors.Is(err, errNoUID) {
			return loan, err
		}
		if !sleep.For(ctx, pause) {
			return nil, fmt.Errorf("%w: %w", errNoUID, context.Cause(ctx))
		}
	}
}

func (p *uidPool) tryTake() (*uidLoan, error) {
	none := errForeign
	for range p.within.Count - 1 {
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

// lockNext locks the next id of the range. It returns nil if the id is in use.
func (p *uidPool) lockNext() (*uidLoan, error) {
	uid := p.within.First + 1 + int(p.next.Add(1)%int64(p.within.Count-1))
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

// begin ends the processes that a killed worker has left, and marks the id as in use. It
// returns false while the id has processes: some cannot be ended, and if no worker has
// marked the id, they belong to another user of the id.
func (l *uidLoan) begin() (ok bool, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("lock a user id: %w", err)
	}
	if info.Size() > 0 {
		(&family{loan: l, running: everyRunning}).kill()
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

// end returns the id to the pool. If the id still has processes, it stays marked, and
// the next worker that takes it tries to end them.
func (l *uidLoan) end() error {
	defer l.file.Close()
	removeOwned(l.uid)
	if hasProcesses(l.uid) {
		return errNotEnded
	}
	return l.file.Truncate(0)
}

// sharedDirs lists the directories that all users may write to on most machines.
var sharedDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// removeOwned removes the entries of the shared directories that a user id owns.
func removeOwned(uid int) {
	for _, dir := range sharedDirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // the directory does not exist
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // another process has removed it
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
				_ = removeDir(filepath.Join(dir, e.Name())) // fails for entries that the worker may not remove
			}
		}
	}
}
