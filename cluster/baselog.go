package cluster

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// After a node has restored a snapshot, its log begins behind the snapshot's entry. Raft
// reads that entry from the log when a leader repeats a request that continues it, for
// example because the first answer was lost, and refuses the request if the log does not
// have it. The leader then goes back by one entry at a time to the first one that it has.
// If that is not in the follower's log either, the leader sends it again and again, and the
// follower never gets a newer one.

// base is the newest entry that a snapshot of this node has replaced.
type base struct{ index, term uint64 }

// withBase returns a log and a snapshot store for raft, such that the log has the base.
func withBase(logs raft.LogStore, snapshots raft.SnapshotStore) (raft.LogStore, raft.SnapshotStore) {
	newest := new(atomic.Pointer[base])
	return baseLog{logs, newest}, baseSnapshots{snapshots, newest}
}

// baseLog is a raft log that also knows the term of the base.
type baseLog struct {
	raft.LogStore
	newest *atomic.Pointer[base]
}

// IsMonotonic implements raft.MonotonicLogStore.
func (b baseLog) IsMonotonic() bool {
	m, ok := b.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore. If the log begins behind the base, GetLog returns an entry
// that has only the index and term of the base. Followers compare the term. A leader must not
// send that entry: raft leaves the index of a restored state without an entry, so that its
// leader sends the snapshot. Therefore a log with entries before the base does not have it,
// and its type is one that no node accepts, in case raft removes those entries while it
// collects a request. The first entry of a log has none before it, so it is not a base.
func (b baseLog) GetLog(index uint64, l *raft.Log) error {
	err := b.LogStore.GetLog(index, l)
	if !errors.Is(err, raft.ErrLogNotFound) || index == 1 {
		return err
	}
	at := b.newest.Load()
	if at == nil || at.index != index {
		return err
	}
	if first, firstErr := b.FirstIndex(); firstErr != nil || first != 0 && first < index {
		return err
	}
	*l = raft.Log{Index: index, Term: at.term, Type: baseType}
	return nil
}

// baseType is the type of a base. No entry of a log has it.
const baseType raft.LogType = 0xff

// baseSnapshots records the entries of the snapshots that raft opens. Raft opens a snapshot
// before it restores it.
type baseSnapshots struct {
	raft.SnapshotStore
	newest *atomic.Pointer[base]
}

// Open implements raft.SnapshotStore. Raft's main goroutine opens snapshots, and so do the
// goroutines that send them to followers.
func (s baseSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, rc, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	for {
		old := s.newest.Load()
		if old != nil && old.index >= m.Index || s.newest.CompareAndSwap(old, &base{m.Index, m.Term}) {
			return m, rc, nil
		}
	}
}
