package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// Other users of the machine read no file of a node and none of its bucket, although the umask and
// the data directory, which an operator has made, let them in.
func TestFilesOfANodeAreForItsUserOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	c := cluster.New(t, cluster.Options{Nodes: 1})
	n := c.Nodes[0]
	data := filepath.Join(n.Dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	n.Start()
	c.WaitLeader()
	if _, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "t", Payload: []byte(`"secret"`)}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range []string{data, strings.TrimPrefix(c.Bucket(), "file://")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && path != dir: // the node has removed it
				return nil
			case err != nil:
				return err
			case path == data || d.Type() == fs.ModeSymlink: // which has no mode of its own
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return nil // the node has removed it
			}
			seen++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if seen < 10 {
		t.Errorf("only %d files", seen)
	}
}
