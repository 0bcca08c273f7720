package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// Place is what the leader knows about an entry that its log has committed.
type Place struct {
	Term uint64 `json:"term"` // raft's term of the entry
	// Configuration has the members of the cluster at the entry, and ConfigurationIndex is the
	// entry that made them members.
	Configuration      raft.Configuration `json:"configuration"`
	ConfigurationIndex uint64             `json:"configurationIndex"`
}

// SeedOptions are the options of Seed.
type SeedOptions struct {
	Bucket  storage.Bucket
	Key     string // of the document
	Dir     string // data directory of the new node
	Cluster string // id of the cluster that the node joins
	// Confirm asks the leader of the cluster for the place of an entry. It returns an error
	// if the leader's log does not have the entry, or does not continue behind it.
	Confirm func(context.Context, fsm.LSN) (Place, error)
	Logger  hclog.Logger
}

// Seed writes the state in the bucket as the first snapshot of a new node, which joins a
// cluster that runs. Raft then starts from it, and the leader sends the log behind it. The
// node's raft must not have started, and its log must be empty. If Seed fails, or the process
// ends before it returns, the directory has no snapshot, and the leader sends everything. Seed
// keeps the state in memory. ctx bounds the whole call.
func Seed(ctx context.Context, o SeedOptions) (raft.SnapshotMeta, error) {
	s, err := New(Options{Dir: o.Dir, Logger: o.Logger})
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	present, err := s.list()
	if err == nil && len(present) > 0 {
		err = fmt.Errorf("the data directory %s has snapshots already", o.Dir)
	}
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	object, err := o.Bucket.Get(ctx, o.Key)
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("read %q: %w", o.Key, err)
	}
	doc, err := document.Decode(object.Data)
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("read %q: %w", o.Key, err)
	}
	if err := fits(doc, o.Cluster); err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("%q: %w", o.Key, err)
	}
	at, err := o.Confirm(ctx, doc.Archive.LSN()) // before the state is read, which may take long
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	m, err := archive.Machine(ctx, o.Bucket, doc)
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("read the state of %q: %w", o.Key, err)
	}
	meta := m.Meta()
	if meta.Cluster != o.Cluster || meta.LSN().Term-meta.TermBase != at.Term || meta.LSN().Index < at.ConfigurationIndex {
		return raft.SnapshotMeta{}, fmt.Errorf("the state of %q at %s is not the one that the leader has at entry %d-%d",
			o.Key, meta.LSN(), at.Term, meta.LSN().Index)
	}
	return s.write(raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, Term: at.Term, Index: meta.LSN().Index,
		Configuration: at.Configuration, ConfigurationIndex: at.ConfigurationIndex,
	}, m.View())
}

// fits returns an error if the state of a document is not that behind an entry of a cluster's
// log. A state without log behind its checkpoint may be one that the cluster has adopted: its
// LSN is then not the place of an entry.
func fits(doc *document.File, cluster string) error {
	switch {
	case doc.Header == nil || doc.Archive == nil || doc.Header.Cluster != cluster:
		return errors.New("another cluster wrote the document")
	case len(doc.Archive.Log) == 0 && doc.Archive.Tail.Entries == 0:
		return errors.New("the document has no log entry after its checkpoint")
	}
	return nil
}

// write writes a state as a snapshot.
func (s *Store) write(m raft.SnapshotMeta, v *fsm.View) (raft.SnapshotMeta, error) {
	to, err := s.create(m, addresses{})
	if err != nil {
		return m, err
	}
	if err := v.Encode(to); err != nil {
		return m, errors.Join(err, to.Cancel())
	}
	err = to.Close()
	return to.meta, err
}

// addresses encodes peers as raft's transports do. Raft's snapshot store only uses this
// method of its transport.
type addresses struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (addresses) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// Agrees reports whether an entry belongs to the history of this log, whose entries up to
// committed are committed. It returns false for an entry that the log has compacted: in that
// case the leader would send a snapshot of its own anyway.
func Agrees(logs raft.LogStore, committed, term, index uint64) bool {
	return index <= committed && holds(logs, point{term, index})
}
