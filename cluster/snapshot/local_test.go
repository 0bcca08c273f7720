package snapshot

import (
	"testing"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

func mustList(t *testing.T, s *Store) []*raft.SnapshotMeta {
	t.Helper()
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return metas
}

// TestSnapshotsThatEndTogether checks that two concurrent snapshots tolerate the removals
// of each other.
func TestSnapshotsThatEndTogether(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	for index := uint64(10); index < 200; index += 10 {
		var both errgroup.Group
		for i := range uint64(2) {
			sink := begin(t, s, 1, index+i)
			_, _ = sink.Write(content(index + i))
			both.Go(sink.Close)
		}
		if err := both.Wait(); err != nil {
			t.Fatal(err)
		}
		if newest := mustList(t, s)[0]; newest.Index != index+1 {
			t.Fatalf("the newest one is at %d after %d", newest.Index, index+1)
		}
	}
}
