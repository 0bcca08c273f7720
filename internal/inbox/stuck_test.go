package inbox

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// TestAFileThatCannotBeRemovedIsTakenOnce checks that a file that cannot be removed is
// taken once, even by later leaders and after the machine has forgotten its request, and
// that Stats and the log report it. The mark is removed with the file.
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
		// Other files are taken without delay.
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

// TestTooManyFilesThatCannotBeRemoved checks that files that cannot be removed do not use
// the capacity for files that are refused for now, and that the inbox takes no more files,
// and reports it, if there are too many to remember.
func TestTooManyFilesThatCannotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpDelete}, KeyPrefix: Prefix})
		b := w.leader().box()
		b.bounds.stuck, b.bounds.held = 3, 2
		w.drop("a", "b")
		run(b, time.Minute)
		w.drop("c")
		b2 := w.leader().box()
		b2.bounds = b.bounds
		run(b2, time.Minute)
		if w.job("c") == nil {
			t.Error("a file waits while there is room")
		}
		w.drop("d")
		b3 := w.leader().box()
		b3.bounds = b.bounds
		go run(b3, time.Minute)
		time.Sleep(50 * time.Second)
		if w.job("d") != nil || !strings.Contains(b3.Stats().Failing, "cannot remove 3 files") {
			t.Errorf("job %v, %q", w.job("d"), b3.Stats().Failing)
		}
		time.Sleep(time.Minute)
	})
}
