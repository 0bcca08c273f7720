package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory that the users of commands cannot reach is an error at the start,
// which names what is in the way and what to do.
func TestDirectoryOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("commands run as the worker's own user")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	dir := filepath.Join(closed, "in")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(filepath.Dir(closed)), filepath.Dir(closed)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: dir, UIDs: UIDRange{First: 1_910_000_000, Count: 64}})
	if err == nil {
		t.Fatal(b.Close(), "it works")
	}
	for _, want := range []string{"cannot pass " + closed + " (", "--sandbox-dir", "chmod o+x " + closed} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
}
