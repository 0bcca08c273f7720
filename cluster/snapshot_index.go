package cluster

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
)

// A snapshot replaces all entries up to its raft index, but raft does not check that the
// state in it belongs to that index. The machine's index is that of the last command that
// it applied. It is at most raft's index, because the entries in between are raft's own.

// indexedSnapshots passes the raft index of a snapshot to the code that writes or reads
// its state.
type indexedSnapshots struct{ raft.SnapshotStore }

// Create implements raft.SnapshotStore.
func (s indexedSnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, c, cIndex, trans)
	if err != nil {
		return nil, err
	}
	return indexedSink{sink, index}, nil
}

// Open implements raft.SnapshotStore.
func (s indexedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, rc, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return m, indexedReader{rc, m.Index}, nil
}

type indexedSink struct {
	raft.SnapshotSink
	index uint64
}

type indexedReader struct {
	io.ReadCloser
	index uint64
}

// checkPersisted returns an error if a state is newer than the index of its snapshot.
func checkPersisted(sink raft.SnapshotSink, lsn fsm.LSN) error {
	if s, ok := sink.(indexedSink); ok && lsn.Index > s.index {
		return snapshotIndexError(s.index, lsn)
	}
	return nil
}

// checkRestored is checkPersisted for a snapshot that is read.
func checkRestored(rc io.Reader, lsn fsm.LSN) error {
	if w, ok := rc.(raft.ReadCloserWrapper); ok {
		rc = w.WrappedReadCloser() // the wrapper counts the bytes for raft
	}
	if r, ok := rc.(indexedReader); ok && lsn.Index > r.index {
		return snapshotIndexError(r.index, lsn)
	}
	return nil
}

func snapshotIndexError(index uint64, lsn fsm.LSN) error {
	return fmt.Errorf("the snapshot of entry %d has the state of LSN %s: it is not a snapshot of this log", index, lsn)
}
