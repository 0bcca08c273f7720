package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// DiskCopy is a copy of the data directory of a node.
type DiskCopy struct{ dir string }

// CopyDisk copies the data directory of a node that has ended or is paused.
func (n *Node) CopyDisk() DiskCopy {
	n.cluster.tb.Helper()
	c := DiskCopy{dir: filepath.Join(n.cluster.tb.TempDir(), "data")}
	if err := os.CopyFS(c.dir, withoutSockets{os.DirFS(n.data()).(fs.ReadLinkFS)}); err != nil {
		n.cluster.tb.Fatal(err)
	}
	return c
}

// RestoreDisk replaces the data directory of a node that does not run by a copy.
func (n *Node) RestoreDisk(c DiskCopy) {
	n.cluster.tb.Helper()
	n.Wipe()
	if err := os.CopyFS(n.data(), os.DirFS(c.dir)); err != nil {
		n.cluster.tb.Fatal(err)
	}
}

// withoutSockets hides the sockets of a directory, which cannot be copied: the admin socket
// stays in the data directory of a node that was killed.
type withoutSockets struct{ fs.ReadLinkFS }

// ReadDir implements fs.ReadDirFS.
func (w withoutSockets) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.ReadLinkFS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Type()&fs.ModeSocket != 0 }), err
}
