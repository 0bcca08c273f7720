package file

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Modes of new directories and files: the payloads of all jobs are in the bucket, and jobs
// may run as other users of the machine. Existing ones keep their modes, so that an
// operator can share a bucket.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// stale is the age from which a file in tmp has no writer. Writers touch
// theirs within seconds; one that was stopped for longer finds its file gone
// and fails without harm.
const stale = time.Hour

// hashChunk is how much is hashed at a time. Go cannot interrupt the hash of one
// slice, and all goroutines wait for it whenever the garbage collector wants to
// begin: 100 MB in one go are a tenth of a second without heartbeats.
const hashChunk = 256 << 10

func hash(data []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for part := range slices.Chunk(data, hashChunk) {
		h.Write(part) // never fails
	}
	h.Sum(sum[:0])
	return sum
}

// stage writes data to a new file and syncs it. It creates the private directories of
// the bucket if they were removed.
func (v *visit) stage(path string, data io.Reader) error {
	err := v.writeNew(path, data)
	if absent(err) && filepath.Dir(path) == tempDir {
		if err := v.makePrivate(); err != nil {
			return err
		}
		err = v.writeNew(path, data)
	}
	return err
}

// makePrivate makes the private directories of the bucket.
func (v *visit) makePrivate() error {
	return errors.Join(v.root.MkdirAll(tempDir, dirMode), v.root.MkdirAll(chainsDir, dirMode))
}

// writeNew writes data to a new file and syncs it; nothing is left of a failure.
func (v *visit) writeNew(path string, data io.Reader) error {
	f, err := v.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, v.root.Remove(path))
	}
	return nil
}

// inDirs makes the directories of path below root and calls place. It tries
// again when a Delete removed a directory that had become empty.
func (v *visit) inDirs(root, path string, place func() error) error {
	const attempts = 10
	var err error
	for range attempts {
		if err = v.makeDirs(root, filepath.Dir(path)); err != nil {
			return err
		}
		if err = place(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// makeDirs makes dir and its parents below root, each one durable before it
// is used.
func (v *visit) makeDirs(root, dir string) error {
	if dir == root {
		if dir == "." {
			return nil
		}
		return v.root.MkdirAll(dir, dirMode)
	}
	parent := filepath.Dir(dir)
	if err := v.makeDirs(root, parent); err != nil {
		return err
	}
	err := v.root.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return v.resync(parent) // the fsync after an earlier Mkdir may have failed
	}
	if err != nil {
		return err
	}
	return v.syncDir(parent)
}

// pruneDirs removes dir and its parents below root as long as they are empty.
func (v *visit) pruneDirs(root, dir string) {
	for dir != root && v.root.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}

// syncDir makes the names in dir durable. If that fails, it remembers the
// directory: see resync.
func (v *visit) syncDir(dir string) error {
	err := v.sync(v.root, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.unsynced[dir] = true
	}
	return err
}

// resync makes directories durable whose last fsync failed, and fails as long
// as that does not succeed: what a failed write left there must not be read and
// then taken for durable. It changes the directory first, because a second
// fsync alone would report success for names that the kernel has given up.
func (v *visit) resync(dirs ...string) error {
	for _, dir := range dirs {
		v.mu.Lock()
		unsynced := v.unsynced[dir]
		v.mu.Unlock()
		if !unsynced {
			continue
		}
		probe := filepath.Join(dir, ".sync-"+rand.Text())
		err := v.writeNew(probe, strings.NewReader(""))
		if err == nil {
			err = errors.Join(v.sync(v.root, dir), v.root.Remove(probe))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("an earlier write to %s is not yet durable: %w", dir, err)
		}
		v.mu.Lock()
		delete(v.unsynced, dir)
		v.mu.Unlock()
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (v *visit) readDir(dir string) ([]fs.DirEntry, error) {
	d, err := v.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

// prepare makes the private directories, and removes what killed writers left there.
func (v *visit) prepare() error {
	if err := v.makePrivate(); err != nil {
		return err
	}
	return errors.Join(syncDir(v.root, privateDir), syncDir(v.root, "."), v.removeStale(time.Now()))
}

// removeStale removes what killed writers left in tempDir.
func (v *visit) removeStale(now time.Time) error {
	entries, err := v.readDir(tempDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(tempDir, e.Name())
		info, err := v.root.Lstat(path)
		if err != nil || now.Sub(info.ModTime()) < stale {
			continue
		}
		if err := v.root.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// absent reports whether err means that no object has that name: nothing is
// there, or a directory is, or one of its parents is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// linkHelp adds the requirements of a bucket to the error of a file system that refuses
// a link.
func linkHelp(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: a directory bucket needs a file system with hard links and symbolic links", err)
	}
	return err
}
