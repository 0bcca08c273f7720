package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// newDir makes a directory for a command; uid 0 leaves it to the worker.
func newDir(parent string, uid int) (string, error) {
	dir, err := os.MkdirTemp(parent, "osqueue-job-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the command: %w", err)
	}
	if uid != 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			os.RemoveAll(dir)
			return "", fmt.Errorf("give the command its directory: %w", err)
		}
	}
	return dir, nil
}

// removeDir removes a directory whatever modes its entries have.
func removeDir(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err == nil {
		_ = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
			if e != nil && e.IsDir() && err == nil {
				_ = root.Chmod(path, 0o700) // what cannot be changed fails to be removed below
			}
			return nil
		})
		_ = root.Close() // it was only read
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the command's directory: %w", err)
	}
	return nil
}

// entryCost is what a file counts at least, in bytes: many empty ones fill a
// disk too.
const entryCost = 1 << 10

// overFull says whether a directory takes more than limit bytes. It never
// leaves the directory, whatever the command makes of its entries meanwhile.
func overFull(dir string, limit int64) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false // the command has taken its rights, and can fill it no more
	}
	defer func() { _ = root.Close() }() // it was only read
	var sum int64
	_ = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if e == nil {
			return err
		}
		sum += entryCost
		if info, gone := e.Info(); gone == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		if sum > limit {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir // it has just been removed, or cannot be read
		}
		return nil
	})
	return sum > limit
}
