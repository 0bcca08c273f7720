package inbox

import (
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/fault"
)

// A file that cannot be removed is taken once, also by later leaders, and when the machine
// has forgotten its request; and that is said. Its mark goes with it.
func TestAFileThatCannotBeRemovedIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.RequestCount, s.RetainCompletedCount = 0, 0 })
		held := w.bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpDelete}, KeyPrefix: Prefix})
		w.drop("a")
		for range 3 {
			b := w.leader().box()
			run(b, 5*time.Minute)
			if n := w.enqueued("a"); n != 1 {
				t.Fatalf("the job is enqueued %d times", n)
			}
			if w.job("a") != nil {
				w.complete("a")
			}
		}
		if len(w.files()) != 1 || len(w.keys(takenPrefix)) != 1 {
			t.Errorf("files %v, marks %v", w.files(), w.keys(takenPrefix))
		}
		// Others come in without delay.
		w.drop("b")
		b := w.leader().box()
		run(b, 3*time.Second)
		if w.job("b") == nil {
			t.Error("another file waits")
		}
		held.Stop()
		run(b, 5*time.Minute)
		if len(w.files()) > 0 || len(w.keys(takenPrefix)) > 0 {
			t.Errorf("files %v, marks %v", w.files(), w.keys(takenPrefix))
		}
	})
}

// What an earlier version has rejected leaves the listing of the box.
func TestOldRejectedFilesLeaveTheBox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("rejected/x.json", "[")
		w.put("rejected/x.reason.json", "{}")
		w.put("rejected/y.json", "{")
		w.rejected("y.json", "another one")
		run(w.leader().box(), time.Minute)
		if len(w.keys(Prefix)) > 0 || len(w.keys(RejectedPrefix)) != 4 || w.read(RejectedPrefix+"x.json") != "[" {
			t.Errorf("%v, %v", w.keys(Prefix), w.keys(RejectedPrefix))
		}
	})
}
