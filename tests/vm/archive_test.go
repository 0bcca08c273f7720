//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cavaliergopher/cpio"
)

func TestArchiveHoldsATree(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"bin", "doc/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, "root", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "empty": 0o600, "doc/deep/page": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, "root", name), []byte(name)[:len(name)%5], mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("bin/tool", filepath.Join(dir, "root/link")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a.cpio")
	if err := writeArchive(file, func(a *archive) error { return a.tree(filepath.Join(dir, "root"), []string{"doc"}) }); err != nil {
		t.Fatal(err)
	}
	want := []string{"bin 40755 ", "bin/tool 100755 bin", "empty 100600 ", "link 120777 bin/tool"}
	if got := read(t, file); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func read(t *testing.T, file string) (list []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := cpio.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %o %s", h.Name, h.Mode, string(content)+h.Linkname))
	}
}

// An unreadable file is an error, and does not result in an archive without it.
func TestArchiveOfWhatIsNotThere(t *testing.T) {
	err := writeArchive(filepath.Join(t.TempDir(), "a.cpio"), func(a *archive) error { return a.file("/nowhere/to/be/found", "x") })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
