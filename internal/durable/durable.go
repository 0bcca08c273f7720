// Package durable writes small files that survive a crash.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path by one with the given content, which only its owner
// may read. When it returns nil the content is durable; a crash leaves the old file or the
// new one.
func WriteFile(path, content string) error { return Replace(path, []byte(content), 0o600) }

// Replace does what WriteFile does, with the given permissions. The name of the new file cannot be
// guessed: in a shared directory another user could make it before, and read what is written to it.
func Replace(path string, content []byte, mode os.FileMode) error {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), leftover(name)) // with the mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error above counts
		return err
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// leftover returns the pattern of the names of the new files for a file.
func leftover(name string) string { return "." + name + ".*.tmp" }

// RemoveLeftovers removes the files that a killed process left when it replaced the file at path.
// No process may replace it now.
func RemoveLeftovers(path string) error {
	dir, name := filepath.Split(path)
	names, err := filepath.Glob(filepath.Join(dir, leftover(name)))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
