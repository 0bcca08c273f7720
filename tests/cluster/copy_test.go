package cluster

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A killed node leaves its admin socket behind. The copy of its directory is complete without it.
func TestCopyWithoutSockets(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(filepath.Join(from, "instance"), []byte("n1~a"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(from, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.CopyFS(to, withoutSockets{os.DirFS(from)}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(to)
	if err != nil || len(left) != 1 || left[0].Name() != "instance" {
		t.Fatalf("the copy has %v, %v", left, err)
	}
}
