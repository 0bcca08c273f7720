package cluster

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A killed node leaves its admin socket behind. The copy of its directory has everything else.
func TestCopyWithoutSockets(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(filepath.Join(from, "instance"), []byte("n1~a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(from, "raft.db")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(from, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.CopyFS(to, withoutSockets{os.DirFS(from).(fs.ReadLinkFS)}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(to)
	if err != nil || len(left) != 2 || left[0].Name() != "instance" || left[1].Name() != "raft.db" {
		t.Fatalf("the copy has %v, %v", left, err)
	}
}
