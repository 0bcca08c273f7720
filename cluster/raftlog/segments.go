package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog/segment"
)

// segmentStore has the entries in segments, and votes and terms in a raft-boltdb.
type segmentStore struct {
	*segment.Log
	raft.StableStore
	votes io.Closer // the same as StableStore
}

// openSegmentStore opens both parts in a directory. The lock on the votes keeps a second
// process out, so it is taken first.
func openSegmentStore(path string, o segment.Options) (store, error) {
	votes, err := openBolt(filepath.Join(path, votesName))
	if err != nil {
		return nil, err
	}
	entries, err := segment.Open(segment.Dir(filepath.Join(path, entriesName)), o)
	if err != nil {
		return nil, errors.Join(err, votes.Close())
	}
	return &segmentStore{Log: entries, StableStore: votes, votes: votes}, nil
}

// Close closes both parts.
func (s *segmentStore) Close() error { return errors.Join(s.Log.Close(), s.votes.Close()) }

// complete checks that neither part is missing. The directory gets its name when both are
// in it; a missing one would be created empty.
func complete(path string) error {
	for _, name := range []string{votesName, filepath.Join(entriesName, segment.MetaName)} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Size() == 0 {
			return errors.Join(fmt.Errorf("%s is missing or empty: %w", filepath.Join(path, name), ErrDamaged), err)
		}
	}
	return nil
}
