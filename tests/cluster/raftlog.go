package cluster

import (
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"osqueue/tests/model"
)

// RaftLog reads the commands in a stopped node's raft log, up to an index.
func (n *Node) RaftLog(upTo uint64) ([]model.Entry, error) {
	db, err := raftboltdb.NewBoltStore(n.RaftDB())
	if err != nil {
		return nil, fmt.Errorf("open the raft log of %s: %w", n.Name, err)
	}
	defer db.Close()
	first, err := db.FirstIndex()
	if err != nil {
		return nil, err
	}
	if first > 1 {
		return nil, fmt.Errorf("the raft log of %s begins at %d: raise --raft-snapshot-threshold", n.Name, first)
	}
	last, err := db.LastIndex()
	if err != nil {
		return nil, err
	}
	var entries []model.Entry
	for i := first; i <= min(last, upTo); i++ {
		var l raft.Log
		if err := db.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("entry %d of %s: %w", i, n.Name, err)
		}
		if l.Type == raft.LogCommand {
			entries = append(entries, model.Entry{Index: l.Index, Term: l.Term, Data: l.Data})
		}
	}
	return entries, nil
}
