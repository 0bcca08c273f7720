package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"osqueue/internal/sleep"
)

// notice is the content of the file in the place of the lock directory.
const notice = "This directory is written without locks. A release of osqueue that needs them must not write here;\n" +
	"its error names this file (\"not a directory\"). Upgrade it, or stop all newer processes and remove .osqueue.\n"

// lockStripes is how many lock files an older release has.
const lockStripes = 64

// lockPoll is the time between two attempts to take an older release's locks.
const lockPoll = 5 * time.Millisecond

// claim shuts processes of older releases out. Every write that replaces an object of
// another Bucket calls it first: the first write of an active leader. Objects that only
// this Bucket writes do not need it (see beside), so that the start of a node stops no
// other process.
//
// Older processes hold a lock file below .osqueue/lock from before they read an object
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

// claimed reports whether older releases are shut out.
func (b *Bucket) claimed() bool {
	info, err := os.Lstat(b.lock)
	return err == nil && info.Mode().IsRegular()
}

// beside calls write, which creates, deletes, or replaces an object that this Bucket has
// created. If older releases are not shut out yet, it holds their lock of the key.
func (b *Bucket) beside(ctx context.Context, key string, write func() error) error {
	for {
		info, err := os.Lstat(b.lock)
		if err != nil || !info.IsDir() {
			return write()
		}
		h := fnv.New32a()
		h.Write([]byte(key)) // never fails
		f, err := waitLock(ctx, filepath.Join(b.lock, lockName(int(h.Sum32()%lockStripes))))
		if absent(err) {
			continue // the directory has been moved away
		}
		if err != nil {
			return err
		}
		err = write()
		f.Close() // releases the lock; the file was not written to
		return err
	}
}

// lockName is the name of an older release's lock file.
func lockName(stripe int) string { return fmt.Sprintf("%02x", stripe) }

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
	held, err := takeLocks(ctx, b.lock)
	defer release(held)
	if absent(err) {
		return nil // another process has moved them away
	}
	if err != nil {
		return err
	}
	return b.moveLocks(ctx, held)
}

// moveLocks moves the directory of the locks away, all of which are held.
func (b *Bucket) moveLocks(ctx context.Context, held []*os.File) error {
	// With the slash, rename moves a directory only: not the file that another process has
	// put there.
	moved := filepath.Join(b.temp, rand.Text())
	err := os.Rename(b.lock+string(filepath.Separator), moved)
	if absent(err) {
		return nil
	}
	if err != nil || isStill(held[0], filepath.Join(moved, lockName(0))) {
		return err
	}
	// Another process was first, and a process of an older release has made this directory
	// after that: its locks are others.
	more, err := takeLocks(ctx, moved)
	release(more)
	return err
}

// takeLocks takes all locks in dir, and returns those that it has also with an error.
func takeLocks(ctx context.Context, dir string) (held []*os.File, err error) {
	for i := range lockStripes {
		f, err := waitLock(ctx, filepath.Join(dir, lockName(i)))
		if err != nil {
			return held, err
		}
		held = append(held, f)
	}
	return held, nil
}

// release releases locks; their files were not written to.
func release(held []*os.File) {
	for _, f := range held {
		f.Close()
	}
}

// waitLock locks path through a descriptor of its own, polling until ctx ends.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return nil, err
		}
		if err = flock(f); err == nil && isStill(f, path) {
			return f, nil
		}
		f.Close() // nothing was written to it
		if err != nil && !errors.Is(err, errLockHeld) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !sleep.For(ctx, lockPoll) {
			return nil, fmt.Errorf(
				"a process of an older release holds the lock %s: stop or continue it (fuser %s names it): %w", path, path, ctx.Err())
		}
	}
}

// isStill reports whether path names the file f: two processes that hold different files
// of the same name do not exclude each other.
func isStill(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}

var errLockHeld = errors.New("lock is held")
