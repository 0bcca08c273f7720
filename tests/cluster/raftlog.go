package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"osqueue/tests/model"
)

// RaftLog reads the commands in a stopped node's raft log, and the state that they
// go on from, which is that of its newest snapshot: a cluster that has adopted a
// document begins with one. It must not have cut its log since.
func (n *Node) RaftLog() (model.Log, error) {
	log, from, err := n.newestSnapshot()
	if err != nil {
		return log, err
	}
	db, err := raftboltdb.NewBoltStore(n.RaftDB())
	if err != nil {
		return log, fmt.Errorf("open the raft log of %s: %w", n.Name, err)
	}
	defer db.Close()
	first, err := db.FirstIndex()
	if err != nil {
		return log, err
	}
	if first > from+1 {
		return log, fmt.Errorf("the raft log of %s begins at %d, behind %d: raise --raft-snapshot-threshold", n.Name, first, from)
	}
	last, err := db.LastIndex()
	if err != nil {
		return log, err
	}
	for i := max(first, from+1); i <= last; i++ {
		var l raft.Log
		if err := db.GetLog(i, &l); err != nil {
			return log, fmt.Errorf("entry %d of %s: %w", i, n.Name, err)
		}
		if l.Type == raft.LogCommand {
			log.Entries = append(log.Entries, model.Entry{Index: l.Index, Term: l.Term, Data: l.Data})
		}
	}
	return log, nil
}

// newestSnapshot reads the state of the node's newest snapshot, and raft's index of
// it. There may be none.
func (n *Node) newestSnapshot() (log model.Log, index uint64, err error) {
	names, err := filepath.Glob(filepath.Join(n.Dir, "data", "snapshots", "*", "state.bin"))
	if err != nil {
		return log, 0, err
	}
	newest := ""
	for _, name := range names {
		var term, at, ms uint64
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(name)), "%d-%d-%d", &term, &at, &ms); err != nil {
			return log, 0, fmt.Errorf("snapshot %s of %s: %w", name, n.Name, err)
		}
		if at > index && filepath.Ext(filepath.Dir(name)) == "" {
			newest, index = name, at
		}
	}
	if newest == "" {
		return log, 0, nil
	}
	log.Snapshot, err = os.ReadFile(newest)
	return log, index, err
}
