package cluster

import (
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestTheLogDoesNotRunBack: the log of the archive runs forward only. It does not continue
// over an entry that sets the time back: the next flush begins a new checkpoint.
func TestTheLogDoesNotRunBack(t *testing.T) {
	unflushed := flush.NewUnflushedLog(1 << 20)
	r := newReplica(unflushed, func(err error) { t.Fatal(err) })
	for i, b := range []*fsmpb.Batch{
		{NowMs: 1000},
		{NowMs: 5000},
		{NowMs: 2000, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_SetClock{SetClock: &fsmpb.SetClock{ToMs: 2000}}}}},
		{NowMs: 3000},
	} {
		data, err := fsm.EncodeEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		r.apply(&raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
	}
	at := func(index uint64) fsm.LSN { return fsm.LSN{Term: 1, Index: index} }
	if _, _, ok := unflushed.Range(at(1), at(4), 1<<20); ok {
		t.Error("the unflushed log continues over the entry")
	}
	if entries, _, ok := unflushed.Range(at(3), at(4), 1<<20); !ok || len(entries) != 1 || entries[0].At != 3000 {
		t.Errorf("after the entry: %v, %v", entries, ok)
	}
}
