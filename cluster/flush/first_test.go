package flush

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestAddedJobsOutliveATakeover checks that jobs that were added to a large document by
// hand stay in it during a takeover: the new leader may fail before they are in the queue.
// The next flush removes them.
func TestAddedJobsOutliveATakeover(t *testing.T) {
	for _, next := range []string{"the same cluster", "another one"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testAddedJobs(t, next == "another one") })
		})
	}
}

func testAddedJobs(t *testing.T, another bool) {
	o := newOutage(t)
	o.leader.stop(true)
	o.waits.Wait()
	obj, err := o.store.Get(t.Context(), docKey)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(obj.Data), `"counts":`,
		`"jobs":[{"id":"by-hand","status":"unclaimed","payload":{"a":1},"priority":3},{"id":"over","status":"completed"}],"counts":`, 1)
	if w := o.store.PutIfMatch(t.Context(), docKey, []byte(edited), obj.Version); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	c := o.ensemble
	if another {
		time.Sleep(2 * brokerTimeout)
		c = newEnsemble(o.world, o.cfg, "D", o.r)
	}
	c.elect()
	seen, err := election.Read(t.Context(), o.store, docKey)
	if err != nil {
		t.Fatal(err)
	}
	me := c.candidate(c.members[0])
	if another {
		if err := c.adopt(t.Context(), c.members[0], seen); err != nil {
			t.Fatal(err)
		}
		me = c.candidate(c.members[0])
	}
	before := len(o.record.History(docKey))
	r, err := c.takeOver(t.Context(), c.members[0], seen, me)
	if err != nil {
		t.Fatal(err)
	}
	first, err := document.Decode(o.record.History(docKey)[before].Data)
	if err != nil {
		t.Fatal(err)
	}
	if jobs := first.Jobs; first.Header.Epoch != seen.Doc.Header.Epoch+1 || len(jobs) != 1 || jobs[0].ID != "by-hand" || string(jobs[0].Payload()) != `{"a":1}` || jobs[0].Priority != 3 {
		t.Errorf("of the jobs that were added, the document has %+v", jobs)
	}
	r.change(1)
	time.Sleep(time.Minute)
	if seen, err = election.Read(t.Context(), o.store, docKey); err != nil || len(seen.Doc.Jobs) > 0 && seen.Doc.Large {
		t.Errorf("%v, and after a flush it still has %+v", err, seen.Doc.Jobs)
	}
	r.stop(false)
	c.waits.Wait()
	o.inspect(o.r)
}
