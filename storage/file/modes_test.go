package file

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

// Only the user of the node reads a bucket that it has made, whatever the umask.
func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	root := filepath.Join(t.TempDir(), "above", "bucket")
	b := open(t, root)
	defer b.Close()
	if w := b.PutIfAbsent(t.Context(), "history/one", []byte("x")); w.Err != nil {
		t.Fatal(w.Err)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
