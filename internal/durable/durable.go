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

// Replace does what WriteFile does, with the given permissions.
func Replace(path string, content []byte, mode os.FileMode) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
