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

// Raft also remembers the end of a log that it has cleared behind a snapshot. It reads the
// entries up to there from the empty log when the leader sends the ones that follow the
// snapshot, and refuses those because there are none. The leader would send the snapshot
// again, and so on. So the empty log has an entry of term 0 at each of these indexes, which
// raft replaces.

// base is the newest entry that a snapshot of this node has replaced.
type base struct{ index, term uint64 }

// withBase returns a log and a snapshot store for raft, such that the log has the base.
func withBase(logs raft.LogStore, snapshots raft.SnapshotStore) (baseLog, raft.SnapshotStore) {
	b := baseSnapshots{snapshots, new(atomic.Pointer[base])}
	return baseLog{logs, b}, b
}

// baseLog is a raft log that also knows the term of the base.
type baseLog struct {
	raft.LogStore
	snapshots baseSnapshots
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
	at := b.snapshots.newest.Load()
	if at == nil || at.index > index {
		return err
	}
	first, firstErr := b.FirstIndex()
	switch {
	case firstErr != nil:
	case at.index == index && (first == 0 || first > index):
		*l = raft.Log{Index: index, Term: at.term, Type: baseType}
		return nil
	case at.index < index && first == 0:
		*l = raft.Log{Index: index, Type: baseType}
		return nil
	}
	return err
}

// TermAt implements transport.Position.
func (b baseLog) TermAt(index uint64) (term uint64, ok bool) {
	var l raft.Log
	if err := b.LogStore.GetLog(index, &l); err == nil {
		return l.Term, true
	}
	at := b.snapshots.base()
	return at.term, at.index == index && index > 0
}

// Oldest implements transport.Position.
func (b baseLog) Oldest() (index, term uint64) {
	at := b.snapshots.base()
	first, err := b.FirstIndex()
	if err != nil || first == 0 || first == at.index+1 {
		return at.index, at.term
	}
	term, _ = b.TermAt(first)
	return first, term
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
	s.note(m)
	return m, rc, nil
}

// note records the entry of a snapshot.
func (s baseSnapshots) note(m *raft.SnapshotMeta) {
	for {
		old := s.newest.Load()
		if old != nil && old.index >= m.Index || s.newest.CompareAndSwap(old, &base{m.Index, m.Term}) {
			return
		}
	}
}

// base returns the newest entry that a snapshot has; index 0: there is no snapshot. It also
// looks for snapshots that this node has taken, and raft has not opened.
func (s baseSnapshots) base() base {
	if all, err := s.List(); err == nil {
		for _, m := range all {
			s.note(m)
		}
	}
	if at := s.newest.Load(); at != nil {
		return *at
	}
	return base{}
}
