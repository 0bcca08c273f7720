package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// inSegments reports whether the raft log is in segments.
func (n *Node) inSegments() bool {
	info, err := os.Lstat(n.raftDB())
	return err == nil && !info.Mode().IsRegular()
}

// openLog opens the raft log of a stopped node, and leaves it as the kind that it is.
func (n *Node) openLog() (*raftlog.Log, error) {
	if n.Running() {
		return nil, fmt.Errorf("%s is running", n.Name)
	}
	if n.inSegments() {
		return raftlog.OpenSegments(n.data(), nil)
	}
	return raftlog.OpenBolt(n.data())
}

// logNames returns the paths of the raft log in the data directory.
func (n *Node) logNames() []string {
	return []string{n.raftDB(), filepath.Join(n.data(), "raft")}
}

// RemoveLog removes the raft log of a stopped node. Its identity stays.
func (n *Node) RemoveLog() error {
	if n.Running() {
		return fmt.Errorf("%s is running", n.Name)
	}
	var errs []error
	for _, path := range n.logNames() {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// EmptyLog truncates the files of the raft log of a stopped node.
func (n *Node) EmptyLog() error {
	if n.Running() {
		return fmt.Errorf("%s is running", n.Name)
	}
	if !n.inSegments() {
		return os.Truncate(n.raftDB(), 0)
	}
	return filepath.WalkDir(filepath.Join(n.data(), "raft"), func(path string, e fs.DirEntry, err error) error {
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
	for _, path := range n.logNames() {
		saved := filepath.Join(c.dir, filepath.Base(path))
		switch info, err := os.Lstat(saved); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.IsDir():
			if err := os.CopyFS(path, os.DirFS(saved)); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			data, err := os.ReadFile(saved)
			if err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
			if err != nil {
				return err
			}
		default:
			to, err := os.Readlink(saved)
			if err == nil {
				err = os.Symlink(to, path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ChangeJob gives a job another payload in the raft log of a stopped node, in the entry
// that enqueued it: replayed, the log leads to another state than the other nodes have.
func (n *Node) ChangeJob(id string, payload []byte) error {
	if n.Running() {
		return fmt.Errorf("%s is running", n.Name)
	}
	log, err := n.RaftLog()
	if err != nil {
		return err
	}
	// A node converts the log when it starts.
	converted, err := raftlog.OpenBolt(n.data())
	if err == nil {
		err = converted.Close()
	}
	if err != nil {
		return fmt.Errorf("convert the raft log of %s: %w", n.Name, err)
	}
	db, err := raftboltdb.NewBoltStore(n.raftDB())
	if err != nil {
		return fmt.Errorf("open the raft log of %s: %w", n.Name, err)
	}
	defer db.Close()
	for _, e := range log.Entries {
		batch, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			return err
		}
		for _, m := range batch.Mutations {
			for _, j := range m.GetEnqueue().GetJobs() {
				if j.Id == id {
					j.Payload = payload
					return rewrite(db, e.Index, batch)
				}
			}
		}
	}
	return fmt.Errorf("the raft log of %s has no job %q", n.Name, id)
}

// rewrite replaces the batch of an entry, without a seal, in the form of releases before seals.
func rewrite(db *raftboltdb.BoltStore, index uint64, batch *fsmpb.Batch) error {
	var l raft.Log
	err := db.GetLog(index, &l)
	if err != nil {
		return err
	}
	if l.Data, err = fsm.EncodeEntry(batch); err != nil {
		return err
	}
	l.Extensions = nil
	return db.StoreLog(&l)
}
