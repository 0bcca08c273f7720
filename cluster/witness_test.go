package cluster

import (
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/cluster/raftlog"
)

// removeLog removes the raft log of a data directory.
func removeLog(dir string) error { return os.RemoveAll(filepath.Join(dir, "raft")) }

// emptyLog truncates the files of the raft log of a data directory.
func emptyLog(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "raft"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			return os.Truncate(path, 0)
		}
		return err
	})
}

func (l *lab) witnessOf(m *member) *raftlog.Witnessed {
	l.t.Helper()
	w, err := raftlog.ReadWitness(m.cfg.DataDir)
	if err != nil || w == nil {
		l.t.Fatalf("the witness is %v: %v", w, err)
	}
	return w
}
