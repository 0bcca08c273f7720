package inbox

import (
	"crypto/sha256"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
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

// TestOldRejectedFilesLeaveTheBox checks that files that an earlier version has rejected
// leave the listing of the inbox.
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

// TestAFileOfAnOlderReleaseIsTakenOnce checks that a file that a release of level 6 has
// taken and could not remove is not taken again after an upgrade: the machine remembers its
// request under another key.
func TestAFileOfAnOlderReleaseIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.RetainCompletedCount = 0 })
		w.drop("a")
		data := []byte(w.read(file{id: "a"}.key()))
		sum := sha256.Sum256(data)
		m, err := parse("a", data)
		if err != nil {
			t.Fatal(err)
		}
		m.Request = &fsmpb.Request{Key: "inbox:a", Fingerprint: sum[:]}
		w.do(m)
		w.complete("a")
		// A client of the API has used such a key for another request.
		other, err := parse("x", []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		other.Request = &fsmpb.Request{Key: "inbox:b"}
		w.do(other)
		w.drop("b")

		run(w.leader().box(), time.Minute)
		if n := w.enqueued("a"); n != 1 || w.job("a") != nil {
			t.Errorf("the job of the older release is enqueued %d times", n)
		}
		if w.job("b") == nil || len(w.files()) > 0 {
			t.Errorf("job %v, files %v", w.job("b"), w.files())
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
