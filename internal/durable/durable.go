// Package durable writes small files that survive a crash.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path by one with the given content. When it returns
// nil the content is durable; a crash leaves the old file or the new one.
func WriteFile(path, content string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Sync(), f.Close())
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
