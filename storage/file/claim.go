package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// notice is the content of the file in the place of the lock directory.
const notice = "This directory is written without locks. A release of osqueue that needs them must not write here;\n" +
	"its error names this file (\"not a directory\"). Upgrade it, or stop all newer processes and remove .osqueue.\n"

// lockStripes is how many lock files an older release has.
const lockStripes = 64

// lockPoll is the time between two attempts to take an older release's locks.
const lockPoll = 5 * time.Millisecond

// claim shuts processes of older releases out. Every write calls it first.
// They hold a lock file below .osqueue/lock from before they read an object
// until they have replaced it. claim takes all of these locks, so that none of
// them is at work, and puts a file in the place of the directory: from then on
// their writes fail, and so does their start, with "not a directory".
func (b *Bucket) claim(ctx context.Context) error {
	for {
		info, err := os.Lstat(b.lock)
		switch {
		case err == nil && info.Mode().IsRegular():
			return nil
		case err == nil && info.IsDir():
			err = b.retireLocks(ctx)
		case absent(err):
			err = b.placeNotice()
		case err == nil:
			err = fmt.Errorf("%s is neither a file nor a directory", b.lock)
		}
		if err != nil {
			return err
		}
	}
}

// placeNotice makes the file whose presence says that the directory is claimed.
func (b *Bucket) placeNotice() error {
	staged := filepath.Join(b.temp, rand.Text())
	if err := b.stage(staged, []byte(notice)); err != nil {
		return err
	}
	defer os.Remove(staged)
	if err := os.Link(staged, b.lock); err != nil && !errors.Is(err, fs.ErrExist) {
		return linkHelp(err)
	}
	return b.syncDir(filepath.Dir(b.lock))
}

// retireLocks takes all locks of an older release and then moves them away.
func (b *Bucket) retireLocks(ctx context.Context) error {
	held := make([]*os.File, 0, lockStripes)
	defer func() {
		for _, f := range held {
			f.Close() // releases the lock; the file was not written to
		}
	}()
	for i := range lockStripes {
		f, err := waitLock(ctx, filepath.Join(b.lock, fmt.Sprintf("%02x", i)))
		if absent(err) {
			return nil // another process has moved them away
		}
		if err != nil {
			return err
		}
		held = append(held, f)
	}
	if err := os.Rename(b.lock, filepath.Join(b.temp, rand.Text())); err != nil && !absent(err) {
		return err
	}
	return nil
}

// waitLock locks path through a descriptor of its own, polling until ctx ends.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return nil, err
		}
		if err = flock(f); err == nil {
			return f, nil
		}
		f.Close() // nothing was written to it
		if !errors.Is(err, errLockHeld) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf(
				"a process of an older release holds the lock %s: stop or continue it (fuser %s names it): %w", path, path, ctx.Err())
		}
	}
}

var errLockHeld = errors.New("lock is held")
