package inbox

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

func TestFilesBecomeJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("b.json", `{"type":"mail","payload":{"to": "you"}}`)
		w.drop("a", "c")
		b := w.leader().box()
		run(b, time.Second)
		w.wantOnce("a", "b", "c")
		if j := w.job("b"); j.Type != "mail" || string(j.Payload()) != `{"to": "you"}` {
			t.Errorf("job %+v", j)
		}
		if got := b.Stats(); got != (Stats{Taken: 3}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestFilesThatComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.leader().box()
		go run(b, time.Hour)
		time.Sleep(25 * time.Second)
		w.drop("a")
		time.Sleep(4 * time.Second)
		if w.job("a") != nil || w.lists.Load() != 3 {
			t.Errorf("looked %d times, before the interval is over", w.lists.Load())
		}
		time.Sleep(2 * time.Second)
		w.wantOnce("a")
		time.Sleep(time.Hour)
	})
}

// TestAnIdleBoxIsListedRarely counts the listings of an inbox without new files, and checks
// that one file restores the interval.
func TestAnIdleBoxIsListedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.leader().box()
		b.cfg.IdleInterval = 5 * time.Minute
		go run(b, 25*time.Hour)
		time.Sleep(24 * time.Hour)
		if n := w.lists.Load(); n > 24*12+30 {
			t.Errorf("%d listings in a day without a file", n)
		}
		w.drop("a")
		for range 5*60 + 1 {
			if time.Sleep(time.Second); w.job("a") != nil {
				break
			}
		}
		w.wantOnce("a")
		w.drop("b")
		time.Sleep(interval + time.Second)
		w.wantOnce("b")
		before := w.lists.Load()
		time.Sleep(time.Minute)
		if n := w.lists.Load() - before; n != 6 {
			t.Errorf("%d listings in the minute after a file", n)
		}
		time.Sleep(24 * time.Hour)
	})
}

func TestIntervalOfZeroIsOff(t *testing.T) {
	w := newWorld(t)
	w.drop("a")
	b := w.leader().box()
	b.cfg.Interval = 0
	b.Run(t.Context())
	if len(w.files()) != 1 || w.lists.Load() != 0 {
		t.Errorf("looked %d times", w.lists.Load())
	}
}

// TestRemovedAfterTheFlushOnly delays the flush and checks that the removal waits. In
// addition, the watched bucket checks every removal.
func TestRemovedAfterTheFlushOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.autoOff = true
		w.drop("a", "b")
		b := w.leader().box()
		go run(b, time.Hour)
		time.Sleep(5 * time.Minute)
		if w.job("a") == nil || len(w.files()) != 2 || b.Stats() != (Stats{Taken: 2, Waiting: 2}) {
			t.Errorf("job %v, files %v, %+v", w.job("a"), w.files(), b.Stats())
		}
		w.flush()
		time.Sleep(time.Second)
		w.wantOnce("a", "b")
		if got := b.Stats(); got != (Stats{Taken: 2}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour)
	})
}

// TestFullBoxIsDrained takes more files than a round takes, without rest between rounds,
// and reads each file once.
func TestFullBoxIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ids []string
		for i := range 2500 {
			ids = append(ids, fmt.Sprintf("%04d", i))
		}
		w.drop(ids...)
		b := w.leader().box()
		run(b, 5*time.Second)
		if b.Stats().Taken != 2500 || len(w.files()) > 0 || w.lists.Load() != 3 || w.gets.Load() != 2500 {
			t.Errorf("%+v; left %d; %d listings, %d reads", b.Stats(), len(w.files()), w.lists.Load(), w.gets.Load())
		}
		for _, batch := range w.log[1:] {
			if len(batch.Mutations) > 100 {
				t.Errorf("%d jobs in one entry", len(batch.Mutations))
			}
		}
	})
}

func TestEntriesAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 9 {
			w.put(fmt.Sprintf("%d.json", i), fmt.Sprintf(`{"payload":"%0*d"}`, 200<<10, i))
		}
		w.put("5x.json", fmt.Sprintf(`{"payload":"%0*d"}`, 900<<10, 1))
		run(w.leader().box(), time.Second)
		var sizes []int
		for _, batch := range w.log[1:] {
			sizes = append(sizes, len(batch.Mutations))
		}
		if want := []int{2, 2, 2, 1, 2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("entries of %v jobs, want %v", sizes, want)
		}
	})
}

// TestFullQueueKeepsFiles checks that files that a full queue refuses stay, cost little,
// and are taken when there is capacity.
func TestFullQueueKeepsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.MaxJobs = 30 })
		var ids []string
		for i := range 300 {
			ids = append(ids, fmt.Sprintf("%03d", i))
		}
		w.drop(ids...)
		b := w.leader().box()
		go run(b, 24*time.Hour)
		time.Sleep(time.Second)
		if got := b.Stats(); got != (Stats{Taken: 30, Waiting: 270}) || len(w.files()) != 270 || len(w.keys(RejectedPrefix)) > 0 {
			t.Errorf("%+v, %d files", got, len(w.files()))
		}
		before := w.gets.Load()
		time.Sleep(10 * interval)
		if got := w.gets.Load() - before; got != int64(10*b.bounds.probe) {
			t.Errorf("%d reads in ten rounds with a full queue", got)
		}
		lists := w.lists.Load()
		raiseQuota(w, 300)
		time.Sleep(interval + time.Second)
		w.wantOnce(ids...)
		if got := w.lists.Load() - lists; got > 8 {
			t.Errorf("%d listings to take 270 files in", got)
		}
		time.Sleep(24 * time.Hour)
	})
}

func raiseQuota(w *world, most int64) {
	s := fsm.DefaultSettings()
	s.MaxJobs = most
	w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n", Address: "h:1", Epoch: 2, Cluster: "c", Lineage: "l", Settings: s,
	}}})
}

// TestHeldFilesAreBounded checks that a queue that stays full does not fill the leader's
// memory.
func TestHeldFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.MaxJobs = 1 })
		for i := range 50 {
			w.drop(fmt.Sprintf("%03d", i))
		}
		b := w.leader().box()
		b.bounds.held, b.bounds.files, b.bounds.probe = 20, 5, 2
		r := b.newTerm()
		for range 30 {
			if _, err := r.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(r.held) > 20 || len(r.retry) != len(r.held) {
				t.Fatalf("%d files are held, %d in the queue", len(r.held), len(r.retry))
			}
		}
		if len(r.held) != 20 {
			t.Errorf("%d files are held", len(r.held))
		}
		raiseQuota(w, 1000)
		run(b, time.Hour)
		if left := len(w.files()); left > 0 {
			t.Errorf("%d files are left", left)
		}
	})
}

// TestOneFullTypeKeepsOthersIn checks that files of a full type do not block other files.
func TestOneFullTypeKeepsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := int64(1)
		w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "full", MaxJobs: &one}}})
		for i := range 50 {
			w.put(fmt.Sprintf("a%02d.json", i), `{"type":"full"}`)
		}
		w.drop("z1", "z2")
		run(w.leader().box(), time.Second)
		if w.enqueued("z1") != 1 || w.enqueued("z2") != 1 || len(w.files()) != 49 {
			t.Errorf("z1 %v, z2 %v, %d files", w.job("z1"), w.job("z2"), len(w.files()))
		}
	})
}

// TestJobsThatWaitForEachOther puts dependent jobs in the wrong order.
func TestJobsThatWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("a.json", `{"after":["b"]}`)
		w.put("c.json", `{"after":["never"]}`)
		go run(w.leader().box(), time.Hour)
		time.Sleep(45 * time.Second)
		if w.job("a") != nil || len(w.keys(RejectedPrefix)) > 0 {
			t.Errorf("a is %v; rejected %v", w.job("a"), w.keys(RejectedPrefix))
		}
		w.drop("b")
		time.Sleep(30 * time.Second)
		w.wantOnce("a", "b")
		w.wantRejected("c", `{"after":["never"]}`, "a job named in after does not exist")
		time.Sleep(time.Hour)
	})
}

func TestOverloadKeepsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.drop("a", "b")
		w.refuse = fmt.Errorf("too many writes are waiting")
		b := w.leader().box()
		go run(b, 10*time.Hour)
		time.Sleep(time.Hour)
		if got := b.Stats(); len(w.files()) != 2 || got.Failing == "" || got.Rejected > 0 || got.Waiting != 2 {
			t.Errorf("%v, %+v", w.files(), got)
		}
		if w.lists.Load() > 65 || w.gets.Load() > 130 {
			t.Errorf("%d listings, %d reads in an hour of trouble", w.lists.Load(), w.gets.Load())
		}
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		time.Sleep(2 * time.Minute)
		w.wantOnce("a", "b")
		if got := b.Stats(); got != (Stats{Taken: 2}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(10 * time.Hour)
	})
}

// TestUniqueKeyIsHeld checks that a file with a reserved unique key adds nothing, as in
// POST /v1/jobs.
func TestUniqueKeyIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("a.json", `{"unique":"k"}`)
		w.put("b.json", `{"unique":"k"}`)
		b := w.leader().box()
		run(b, time.Second)
		w.wantOnce("a")
		if got := b.Stats(); w.job("b") != nil || got != (Stats{Taken: 1, Repeated: 1}) {
			t.Errorf("b is %v; %+v", w.job("b"), got)
		}
	})
}

// TestStrangeNamesAreLeftAlone checks that other names are ignored and do not make the
// listings more expensive.
func TestStrangeNamesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		strange := []string{"README", "a/b.json", "notes.txt", "x.JSON"}
		for _, name := range strange {
			w.put(name, "what")
		}
		for i := range 120 {
			w.put(fmt.Sprintf("s%d", i), "what")
		}
		w.drop("a")
		l := w.leader()
		b := l.box()
		b.bounds.page = 50 // so that the names fill three pages
		logged := &lines{}
		b.cfg.Log = logged.logger()
		go run(b, 6*interval)
		time.Sleep(interval)
		if w.job("a") == nil || w.lists.Load() != 1 {
			t.Errorf("a is %v; %d listings of three pages within the rest of the first", w.job("a"), w.lists.Load())
		}
		time.Sleep(4 * interval)
		if w.lists.Load() != 2 || len(w.keys(Prefix)) != 124 || w.gets.Load() != 1 {
			t.Errorf("%d listings, %d reads; %d names", w.lists.Load(), w.gets.Load(), len(w.keys(Prefix)))
		}
		if n := logged.count("ignoring a file"); n != alienMax {
			t.Errorf("logged %d times", n)
		}
		time.Sleep(2 * interval)
	})
}

// TestHugeFilesAreNotRead checks that a file that would not fit into memory stays.
func TestHugeFilesAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("huge.json", `{"payload":"0123456789"}`)
		w.drop("a")
		b := w.leader().box()
		b.bounds.moved = 20
		run(b, time.Minute)
		if w.job("a") == nil || w.job("huge") != nil || len(w.files()) != 1 || w.gets.Load() != 1 || b.Stats().Waiting != 0 {
			t.Errorf("files %v, %d reads, %+v", w.files(), w.gets.Load(), b.Stats())
		}
	})
}

// TestOneBadObjectDoesNotKeepOthersOut checks that a file that cannot be read is tried
// again, and that the others are taken.
func TestOneBadObjectDoesNotKeepOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.drop("a", "b", "c")
		rule := w.bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}, KeyPrefix: "inbox/a"})
		b := w.leader().box()
		go run(b, time.Hour)
		time.Sleep(time.Second)
		if w.job("b") == nil || w.job("c") == nil || w.job("a") != nil || b.Stats().Failing == "" {
			t.Errorf("a %v, b %v, c %v, %+v", w.job("a"), w.job("b"), w.job("c"), b.Stats())
		}
		time.Sleep(10 * time.Minute)
		if rule.Hits() > 15 {
			t.Errorf("read %d times in ten minutes", rule.Hits())
		}
		rule.Stop()
		time.Sleep(2 * time.Minute)
		w.wantOnce("a", "b", "c")
		time.Sleep(time.Hour)
	})
}

// TestBucketThatReadsNothing checks that a round ends after a few files if no file can be
// read.
func TestBucketThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 500 {
			w.drop(fmt.Sprint(i))
		}
		rule := w.bucket.Inject(fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpGet}})
		b := w.leader().box()
		r := b.newTerm()
		if _, err := r.round(t.Context()); err == nil || rule.Hits() > failuresMax+r.bounds.parallel {
			t.Errorf("%v after %d reads", err, rule.Hits())
		}
		rule.Stop()
		run(b, time.Minute)
		if left := w.files(); len(left) > 0 {
			t.Errorf("%d files are left", len(left))
		}
	})
}
