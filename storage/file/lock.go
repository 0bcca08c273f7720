package file

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// lockStripes is how many lock files a bucket has. A fixed number, because a
// lock file must never be removed and keys come and go.
const lockStripes = 64

// Between two attempts to take a lock that another process holds.
const (
	minLockPoll = 100 * time.Microsecond
	maxLockPoll = 5 * time.Millisecond
)

// locks takes the locks of one bucket. Goroutines of this process queue on a
// channel first, in order, so that only one a stripe polls.
type locks struct {
	dir     string
	stripes [lockStripes]chan struct{}
}

func newLocks(dir string) *locks {
	l := &locks{dir: dir}
	for i := range l.stripes {
		l.stripes[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits until this caller alone holds key's stripe, in this process and
// among all others, and returns the function that lets it go.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := fnv.New32a()
	h.Write([]byte(key))
	n := h.Sum32() % lockStripes
	select {
	case l.stripes[n] <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a lock within the process: %w", ctx.Err())
	}
	f, err := lockFile(ctx, filepath.Join(l.dir, fmt.Sprintf("%02x", n)))
	if err != nil {
		<-l.stripes[n]
		return nil, err
	}
	return func() {
		f.Close() // releases the flock; the file was not written to
		<-l.stripes[n]
	}, nil
}

// lockFile locks path through a descriptor of its own, polling until ctx ends.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for wait := minLockPoll; ; wait = min(2*wait, maxLockPoll) {
		f, err := tryLockFile(path)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errLockHeld) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("another process holds the lock %s: %w", path, ctx.Err())
		}
	}
}

var errLockHeld = errors.New("lock is held")

// tryLockFile returns errLockHeld when another descriptor holds the lock, and
// also when somebody removed or replaced the lock file in the meantime: two
// processes that hold different files of the same name exclude nobody.
func tryLockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if err == nil && !isStill(f, path) {
		err = errLockHeld
	}
	if err != nil {
		f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}

func isStill(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}
