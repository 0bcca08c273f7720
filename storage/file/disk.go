package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Modes before the umask: whoever runs the processes decides with it who may
// read the bucket.
const (
	dirMode  = 0o777
	fileMode = 0o666
)

// stale is the age from which a file in tmp belongs to nobody. Writers touch
// theirs within seconds; one that was stopped for longer finds its file gone
// at the rename and fails without harm.
const stale = time.Hour

// writeTemp writes data to a new file in dir, syncs it, and returns its path.
func writeTemp(dir string, data []byte) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// replace renames temp onto path, making path's directories below root. It
// tries again when a Delete removed a directory that had become empty.
func replace(root, temp, path string) error {
	const attempts = 10
	var err error
	for range attempts {
		if err = makeDirs(root, filepath.Dir(path)); err != nil {
			return err
		}
		if err = os.Rename(temp, path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// makeDirs makes dir and its parents below root, each one durable before it
// is used.
func makeDirs(root, dir string) error {
	if dir == root {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := makeDirs(root, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// pruneDirs removes dir and its parents below root as long as they are empty.
func pruneDirs(root, dir string) {
	for dir != root && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeStale removes what killed writers left in dir.
func removeStale(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < stale {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
