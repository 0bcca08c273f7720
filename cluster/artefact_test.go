package cluster

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// The leader deletes the object of an artefact when no state that can be restored needs it, and once more an hour later, for an
// upload that came late. Those that a job has stay.
func TestObjectsOfArtefactsAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var ahead time.Duration
	adjust := func(c *Config) {
		c.Flush.Interval, c.Flush.Window, c.CollectInterval = time.Millisecond, 30*time.Minute, 10*time.Millisecond
		c.Clock = func(ahead time.Duration) func() time.Time {
			return func() time.Time { return time.Now().Add(ahead) }
		}(ahead)
	}
	n := l.leader(l.start("n", 1, adjust)...)
	put := func(id string) {
		t.Helper()
		if w := l.bucket.PutIfAbsent(t.Context(), "artefact/"+id, []byte(id)); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
	}
	there := func(id string) bool {
		_, err := l.bucket.Get(t.Context(), "artefact/"+id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	reserve := func(id string, valid time.Duration) *fsmpb.Mutation {
		put(id)
		sum := sha256.Sum256([]byte(id))
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
			Id: id, Size: int64(len(id)), Sum: sum[:], UntilMs: n.Now() + valid.Milliseconds(),
		}}}
	}
	with := func(job, id string) *fsmpb.NewJob {
		return &fsmpb.NewJob{Id: job, Type: "t", Artefacts: []*fsmpb.NamedArtefact{{Name: "payload", Id: id}}}
	}
	results, _ := l.commit(
		n, reserve("unused", time.Millisecond), reserve("waits", time.Hour), reserve("deleted", time.Hour), reserve("lives", time.Hour),
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{with("a", "deleted"), with("b", "lives")}}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{"a"}}}},
	)
	for i, r := range results {
		if r.Code != fsm.OK {
			t.Fatal(i, r.Code)
		}
	}
	l.eventually("the object of an ended reservation to be deleted", func() bool { return !there("unused") })
	record := func(id string) bool { return n.View().Artefact(id) != nil }
	if !record("unused") || !there("deleted") || !there("lives") || !there("waits") {
		t.Fatal("the leader deletes too much")
	}
	put("unused") // an upload that began before
	n.stop()

	ahead = 59 * time.Minute
	n = l.leader(l.again(n, n.cfg.DataDir, adjust))
	l.eventually("the object of a deleted job to be deleted", func() bool { return !there("deleted") })
	l.eventually("the next leader to delete again what its predecessor has deleted", func() bool { return !there("unused") })
	if !record("unused") || !record("deleted") || !there("lives") || !there("waits") {
		t.Fatal("the leader deletes too much within the hour")
	}
	put("unused")
	put("deleted")
	n.stop()

	ahead = 2*time.Hour + time.Minute
	n = l.leader(l.again(n, n.cfg.DataDir, adjust))
	l.eventually("the records to be dropped", func() bool { return !record("unused") && !record("deleted") })
	l.eventually("the reservation to end", func() bool { return !there("waits") })
	if there("unused") || there("deleted") || !record("waits") {
		t.Fatal("what was dropped has an object")
	}
	if !there("lives") || n.View().ArtefactOf("b", "payload") == nil {
		t.Fatal("the artefact of a living job is gone")
	}
	n.stop()
}
