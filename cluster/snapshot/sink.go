package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"

	"github.com/hashicorp/raft"
)

// sink writes one snapshot to the disk, together with its record. Like raft's own sink it
// is for one goroutine.
type sink struct {
	local *local
	inner raft.SnapshotSink
	meta  raft.SnapshotMeta
	sum   hash.Hash
	size  int64
	made  func(raft.SnapshotMeta) // called after success; may be nil

	ended bool
	err   error
}

var _ raft.SnapshotSink = (*sink)(nil)

// create starts a snapshot. Close calls made if it succeeds.
func (l *local) create(m raft.SnapshotMeta, trans raft.Transport, made func(raft.SnapshotMeta)) (*sink, error) {
	inner, err := l.files.Create(m.Version, m.Index, m.Term, m.Configuration, m.ConfigurationIndex, trans)
	if err != nil {
		return nil, fmt.Errorf("create a snapshot in %s: %w", l.path(), err)
	}
	m.ID = inner.ID()
	l.begun(m.ID)
	return &sink{local: l, inner: inner, meta: m, sum: sha256.New(), made: made}, nil
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.inner.ID() }

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	n, err := s.inner.Write(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	return n, err
}

// Close makes the snapshot durable and the newest one of the node, and returns nil only
// after that. Raft may call it again; further calls return the same error.
func (s *sink) Close() error {
	if s.ended {
		return s.err
	}
	s.ended = true
	s.err = s.finish()
	return s.err
}

func (s *sink) finish() error {
	s.meta.Size = s.size
	r := newRecord(&s.meta, s.size, [sha256.Size]byte(s.sum.Sum(nil)))
	// The record becomes visible with the directory, when that gets its final name.
	if err := writeFileSync(s.local.path(s.ID()+tmpSuffix, recordFile), r.encode()); err != nil {
		return errors.Join(fmt.Errorf("write the checksum of a snapshot: %w", err), s.discard())
	}
	if err := s.inner.Close(); err != nil {
		return errors.Join(err, s.discard())
	}
	s.local.judge(s.ID(), nil) // before settle, which forgets a snapshot that it removes
	if err := s.local.settle(s.ID()); err != nil {
		return err
	}
	if s.made != nil {
		s.made(s.meta)
	}
	return nil
}

// Cancel discards the written bytes. After Close it does nothing.
func (s *sink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended, s.err = true, errors.New("the snapshot was cancelled")
	return s.discard()
}

// discard cancels raft's sink, and also removes the directory that raft's sink leaves after
// a failure.
func (s *sink) discard() error {
	s.local.forget(s.ID())
	return errors.Join(s.inner.Cancel(), os.RemoveAll(s.local.path(s.ID()+tmpSuffix)))
}
