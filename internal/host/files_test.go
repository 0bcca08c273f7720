package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// read returns the content and the mode of a file.
func read(t *testing.T, path string) (string, fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), info.Mode().Perm()
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []string{"first", "second", ""} {
		if err := ReplaceFile(path, []byte(want), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, mode := read(t, path); got != want || mode != 0o640 {
			t.Errorf("%q with the mode %v, want %q", got, mode, want)
		}
	}
	if err := WriteFile(filepath.Join(path, "x"), ""); err == nil {
		t.Error("a file was written below a file")
	}
}

// Another user of a shared directory cannot guess the name of the file that is written first, and so
// neither have the content written to another file, nor read it.
func TestFilesThatWaitForASecret(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "token"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path+".tmp"); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, "secret"); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(t, victim); got != "untouched" {
		t.Errorf("a file behind a symbolic link has %q", got)
	}
	if err := os.Remove(path + ".tmp"); err != nil {
		t.Fatal(err)
	}
	waiting, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := WriteFile(path, "secret"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(waiting); err != nil || len(got) > 0 {
		t.Errorf("a file that was open before has %q (%v)", got, err)
	}
	if got, mode := read(t, path); got != "secret" || mode != 0o600 {
		t.Errorf("%q with the mode %v", got, mode)
	}
}

// Writers at the same time leave the content of one of them, and nothing else.
func TestReplaceAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var wg sync.WaitGroup
	for _, letter := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			for range 10 {
				if err := WriteFile(path, strings.Repeat(letter, 10_000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, _ := read(t, path); got != strings.Repeat(got[:1], 10_000) {
		t.Errorf("%d bytes of several writers", len(got))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestReplaceLeavesNothingAfterAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, "x"); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
