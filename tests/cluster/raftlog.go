package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/tests/model"
)

// RaftLog reads the commands in a stopped node's raft log, as far back as it goes: to the
// beginning of the cluster, or to the oldest of the node's snapshots from which the log
// continues without a gap. The log of a node that joined late, or adopted a document, is
// shorter.
func (n *Node) RaftLog() (log model.Log, err error) {
	db, err := n.openLog()
	if err != nil {
		return log, fmt.Errorf("open the raft log of %s: %w", n.Name, err)
	}
	defer db.Close()
	last, err := db.LastIndex()
	if err != nil {
		return log, err
	}
	first := last + 1 // of the entries without a gap
	for ; first > 1; first-- {
		var l raft.Log
		if err := db.GetLog(first-1, &l); errors.Is(err, raft.ErrLogNotFound) {
			break
		} else if err != nil {
			return log, fmt.Errorf("entry %d of %s: %w", first-1, n.Name, err)
		}
		if l.Type == raft.LogCommand {
			log.Entries = append(log.Entries, model.Entry{Index: l.Index, Term: l.Term, Data: l.Data})
		}
	}
	slices.Reverse(log.Entries)
	if first > 1 {
		err = n.base(&log, first)
	}
	return log, err
}

// base lets a log begin with the oldest snapshot from which its entries, from first on,
// continue.
func (n *Node) base(log *model.Log, first uint64) error {
	all, err := n.snapshots() // the newest first
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s snapshot) bool { return s.index+1 < first })
	if len(all) == 0 {
		return fmt.Errorf("the raft log of %s begins at %d, behind every snapshot: raise --raft-trailing-logs", n.Name, first)
	}
	oldest := all[len(all)-1]
	log.Entries = slices.DeleteFunc(log.Entries, func(e model.Entry) bool { return e.Index <= oldest.index })
	log.Snapshot, err = os.ReadFile(oldest.path)
	return err
}

// openLog opens the raft log of a stopped node.
func (n *Node) openLog() (*raftlog.Log, error) {
	if n.Running() {
		return nil, fmt.Errorf("%s is running", n.Name)
	}
	return raftlog.OpenDir(n.data(), raftlog.Options{})
}

// logDir returns the path of the raft log in the data directory.
func (n *Node) logDir() string { return filepath.Join(n.data(), "raft") }

// RemoveLog removes the raft log of a stopped node. Its identity stays.
func (n *Node) RemoveLog() error {
	if n.Running() {
		return fmt.Errorf("%s is running", n.Name)
	}
	return os.RemoveAll(n.logDir())
}

// EmptyLog truncates the files of the raft log of a stopped node.
func (n *Node) EmptyLog() error {
	if n.Running() {
		return fmt.Errorf("%s is running", n.Name)
	}
	return filepath.WalkDir(n.logDir(), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			err = os.Truncate(path, 0)
		}
		return err
	})
}

// RestoreLog replaces the raft log of a stopped node by the one of a copy of its disk.
func (n *Node) RestoreLog(c DiskCopy) error {
	if err := n.RemoveLog(); err != nil {
		return err
	}
	return os.CopyFS(n.logDir(), os.DirFS(filepath.Join(c.dir, "raft")))
}
