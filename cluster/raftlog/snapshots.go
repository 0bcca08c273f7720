package raftlog

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
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

// base is the newest entry that a snapshot of this node has replaced. Index 0: there is no snapshot.
type base struct{ index, term uint64 }

// baseType is the type of a base. No entry of a log has it.
const baseType raft.LogType = 0xff

// baseLocked sets e to the entry at an index that the log does not have, if the log begins behind
// the base: an entry that has only the index and term of the base. Followers compare the term. A
// leader must not send that entry: raft leaves the index of a restored state without an entry, so
// that its leader sends the snapshot. Therefore a log with entries before the base does not have it,
// and its type is one that no node accepts, in case raft removes those entries while it
// collects a request. The first entry of a log has none before it, so it is not a base.
func (l *Log) baseLocked(index uint64, e *raft.Log) bool {
	at := l.base
	if index == 1 || at.index == 0 || at.index > index {
		return false
	}
	first, err := l.firstLocked()
	switch {
	case err != nil:
	case at.index == index && (first == 0 || first > index):
		*e = raft.Log{Index: index, Term: at.term, Type: baseType}
		return true
	case at.index < index && first == 0:
		*e = raft.Log{Index: index, Type: baseType}
		return true
	}
	return false
}

// TermAt implements transport.Position.
func (l *Log) TermAt(index uint64) (term uint64, ok bool) {
	var e raft.Log
	l.mu.Lock()
	err := l.getLocked(index, &e)
	l.mu.Unlock()
	if err == nil {
		return e.Term, true
	}
	at := l.newestBase()
	return at.term, at.index == index && index > 0
}

// Oldest implements transport.Position.
func (l *Log) Oldest() (index, term uint64) {
	at := l.newestBase()
	first, err := l.FirstIndex()
	if err != nil || first == 0 || first == at.index+1 {
		return at.index, at.term
	}
	term, _ = l.TermAt(first)
	return first, term
}

// newestBase returns the base. It also looks for snapshots that this node has taken, and raft has
// not opened.
func (l *Log) newestBase() base {
	l.note(l.newestSnapshot())
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base
}

// note records the entry of a snapshot.
func (l *Log) note(b base) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.index > l.base.index {
		l.base = b
	}
}

// newestSnapshot returns the newest entry in a snapshot on the disk. Snapshots that cannot be read
// do not count.
func (l *Log) newestSnapshot() (newest base) {
	if l.snapshots == nil {
		return base{}
	}
	all, err := l.snapshots.List()
	if err != nil {
		return base{}
	}
	for _, m := range all {
		if m.Index > newest.index {
			newest = base{m.Index, m.Term}
		}
	}
	return newest
}

// Snapshots returns a store for raft in front of the snapshots beside the log. Call it before Witness and
// before raft starts. The store records the base, and watches writes: a follower installs a snapshot in raft's
// main goroutine. A write that fails is raft's affair, which tries again. s itself watches its
// reads (snapshot.Options.Watch), because it reads more of the disk than raft reads of it.
func (l *Log) Snapshots(s raft.SnapshotStore) raft.SnapshotStore {
	l.snapshots = s
	return snapshots{s, l}
}

type snapshots struct {
	raft.SnapshotStore
	log *Log
}

// Open implements raft.SnapshotStore. Raft opens a snapshot before it restores it. Its main
// goroutine opens snapshots, and so do the goroutines that send them to followers.
func (s snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, rc, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	s.log.note(base{m.Index, m.Term})
	return m, indexedReader{rc, m.Index}, nil
}

// CheckIndex returns an error if the state of an LSN is newer than the snapshot that of, a sink or a reader of
// the store for raft, writes or reads. A snapshot replaces all entries up to its raft index, but raft does not check
// that the state in it belongs to that index. The machine's index is that of the last command that
// it applied. It is at most raft's index, because the entries in between are raft's own.
func CheckIndex(of any, lsn fsm.LSN) error {
	if w, ok := of.(raft.ReadCloserWrapper); ok {
		of = w.WrappedReadCloser() // the wrapper counts the bytes for raft
	}
	if s, ok := of.(interface{ raftIndex() uint64 }); ok && lsn.Index > s.raftIndex() {
		return fmt.Errorf("the snapshot of entry %d has the state of LSN %s: it is not a snapshot of this log", s.raftIndex(), lsn)
	}
	return nil
}

type indexedReader struct {
	io.ReadCloser
	index uint64
}

func (r indexedReader) raftIndex() uint64 { return r.index }

// Create implements raft.SnapshotStore.
func (s snapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, trans raft.Transport,
) (sink raft.SnapshotSink, err error) {
	err = s.log.Watch("begin a snapshot", 0, func() (err error) {
		sink, err = s.SnapshotStore.Create(version, index, term, c, cIndex, trans)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedSink{SnapshotSink: sink, log: s.log, index: index}, nil
}

type watchedSink struct {
	raft.SnapshotSink
	log   *Log
	index uint64
	size  int // bytes so far, which Close makes durable
}

func (w *watchedSink) raftIndex() uint64 { return w.index }

// Write implements io.Writer.
func (w *watchedSink) Write(p []byte) (n int, err error) {
	w.size += len(p)
	err = w.log.Watch("write a snapshot", len(p), func() (err error) {
		n, err = w.SnapshotSink.Write(p)
		return err
	})
	return n, err
}

// Close implements io.Closer.
func (w *watchedSink) Close() error {
	return w.log.Watch("finish a snapshot", w.size, w.SnapshotSink.Close)
}
