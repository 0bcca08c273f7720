package flush

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// scale measures every write, including failed ones.
type scale struct {
	storage.Bucket
	mu      sync.Mutex
	largest map[string]int // by kind of object
	renewed []time.Time    // times of accepted versions of the document
}

func newScale(b storage.Bucket) *scale {
	s := &scale{largest: make(map[string]int)}
	s.Bucket = storage.Decorate(b, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if c.Op.IsWrite() {
			s.weigh(c.Key, c.Bytes)
		}
		a := next(ctx)
		if c.Op == storage.OpPutIfMatch && a.Write.Outcome == storage.Committed {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.renewed = append(s.renewed, time.Now())
		}
		return a
	})
	return s
}

func (s *scale) weigh(key string, bytes int) {
	kind, _, _ := strings.Cut(key, "/")
	if archive.IsSegmentIndex(key) {
		kind = "segment index"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest[kind] = max(s.largest[kind], bytes)
}

// outage is a leader of a queue that is too large for its document, with a bucket that the
// test can make unavailable.
type outage struct {
	*ensemble
	*scale
	leader *leaderTerm
}

func newOutage(t *testing.T) *outage {
	o := newCalm(t)
	o.lead()
	for range 20 {
		o.work(300)
		time.Sleep(60 * time.Millisecond)
	}
	o.flushed(time.Minute)
	if o.viewed {
		t.Fatal("the document shows the jobs")
	}
	return o
}

// newCalm returns an outage without a leader.
func newCalm(t *testing.T) *outage {
	w := newWorld(t, storagetest.NewCounts())
	s := newScale(w.record)
	w.below = s
	cfg := simConfig()
	cfg.ViewMax = 1 << 10
	o := &outage{ensemble: newEnsemble(w, cfg, "C", rand.New(rand.NewPCG(1, 1))), scale: s}
	o.load.payloads = 600
	t.Cleanup(w.close)
	return o
}

// lead makes the first member the leader, and returns the LSN of the document.
func (o *outage) lead() (first fsm.LSN) {
	o.Helper()
	o.elect()
	first = o.frozen(o.members[0]).LSN()
	var err error
	if o.leader, err = o.campaign(o.Context(), o.members[0]); err != nil {
		o.Fatal(err)
	}
	return first
}

// work commits entries of about that many bytes.
func (o *outage) work(bytes int) {
	for n := 0; n < bytes; {
		before := len(o.entries)
		o.leader.change(1)
		n += len(o.entries[before].Data)
	}
}

// flushed waits until everything is in the bucket.
func (o *outage) flushed(most time.Duration) fsm.LSN {
	o.Helper()
	lsn := o.frozen(o.leader.mb).LSN()
	ctx, cancel := context.WithTimeout(o.Context(), most)
	defer cancel()
	if err := o.leader.WaitFlushed(ctx, lsn); err != nil {
		o.Fatalf("%s is not flushed after %v: %v, %s", lsn, most, err, o.leader.Failing())
	}
	return lsn
}

// during blocks operations on keys with the prefix for some seconds while the queue commits
// entries at that rate, bytes per second.
func (o *outage) during(prefix string, bytes, seconds int) {
	i := o.faults.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: prefix})
	for range seconds {
		o.work(bytes)
		time.Sleep(time.Second)
	}
	i.Stop()
}

// bounded checks that no object exceeded its bound.
func (o *outage) bounded() {
	o.Helper()
	const slack = 2 << 10 // an entry can be longer than a step, and every object has a header
	tail := o.cfg.TailMax + o.cfg.SegmentRaw + slack
	refs := 400 * (3*o.cfg.RefsMax + simUnflushedLog/o.cfg.SegmentRaw)
	for kind, most := range map[string]int{
		"log":           tail,
		"segment index": 500 * o.cfg.CompactAt,
		docKey:          o.cfg.ViewMax + tail*4/3 + refs + slack,
	} {
		if got := o.largest[kind]; got > most {
			o.Errorf("the largest %s that was to be written had %d bytes; at most %d are bounded", kind, got, most)
		}
	}
}

func (o *outage) end() {
	o.leader.stop(false)
	o.waits.Wait()
	o.inspect(o.r)
	o.bounded()
}

// holes returns the LSNs that cannot be restored.
func (o *outage) holes() (holes []fsm.LSN, spans []archive.Span) {
	o.Helper()
	h, err := archive.Open(o.Context(), o.store, docKey)
	if err != nil {
		o.Fatal(err)
	}
	for _, lsn := range o.chain(h.Document().LSN()) {
		m, err := h.At(o.Context(), archive.Target{LSN: lsn})
		switch {
		case lsn.IsZero():
		case errors.Is(err, archive.ErrNotKept):
			holes = append(holes, lsn)
		case err != nil || m.View().Hash() != o.known[lsn].sum:
			o.Errorf("at %s: %v, or another state", lsn, err)
		}
	}
	return holes, h.Spans()
}

// TestHistoryBeginsWithTheDocument checks that all states since the first document can be
// restored, although the first checkpoint comes late.
func TestHistoryBeginsWithTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCalm(t)
		away := o.faults.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: "checkpoint/"})
		first := o.lead()
		for range 20 {
			o.work(300)
			time.Sleep(time.Second)
		}
		if away.Hits() < 2 {
			t.Fatalf("%d checkpoints were tried", away.Hits())
		}
		away.Stop()
		o.flushed(20 * time.Second)
		time.Sleep(2 * checkpointRetry)
		o.work(300)
		o.flushed(20 * time.Second)
		holes, spans := o.holes()
		for _, lsn := range holes {
			if lsn.Compare(first) >= 0 {
				t.Errorf("%s cannot be restored; the first document was of %s, the spans are %v", lsn, first, spans)
			}
		}
		if len(spans) != 1 {
			t.Errorf("the spans are %v", spans)
		}
		o.end()
	})
}

// TestOutageWithinTheUnflushedLog checks that a backlog that fits into the unflushed log is written
// step by step, and that no state of the outage is lost.
func TestOutageWithinTheUnflushedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		before, _ := o.holes()
		o.during("", 200, 40)
		if lag := o.leader.mb.unflushed.Lag(); lag.Bytes < int64(o.cfg.StepBytes) {
			t.Fatalf("only %d bytes of backlog", lag.Bytes)
		}
		o.flushed(20 * time.Second)
		if after, _ := o.holes(); len(after) != len(before) {
			t.Errorf("%d states cannot be restored, and it were %d", len(after), len(before))
		}
		o.end()
		o.Demand(t, "step of a backlog", "restored")
	})
}

// TestOutageBeyondTheUnflushedLog checks that a checkpoint bridges a backlog that does not fit
// into the unflushed log, and that the lost part of the past is reported.
func TestOutageBeyondTheUnflushedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		before := o.flushed(time.Second)
		o.during("", 1000, 100)
		first := o.flushed(30 * time.Second)
		o.work(5000)
		last := o.flushed(time.Minute)
		holes, spans := o.holes()
		for _, lsn := range holes {
			if lsn.Compare(first) > 0 || lsn.Compare(before) <= 0 && lsn.Compare(spans[0].From) > 0 {
				t.Errorf("%s cannot be restored; before the outage it was %s, after it %s", lsn, before, first)
			}
		}
		n := len(spans)
		if n < 2 || spans[n-2].To.Compare(before) < 0 || spans[n-1].From.Compare(before) <= 0 || spans[n-1].To != last {
			t.Errorf("the spans are %v; before the outage it was %s, at the end %s", spans, before, last)
		}
		o.end()
		o.Demand(t, "checkpoint over a gap", "not kept")
	})
}

// TestHeartbeatWithoutSegments checks that the document is renewed in time if only the log
// cannot be written: other nodes must not take the broker for dead.
func TestHeartbeatWithoutSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		from := len(o.renewed)
		o.during("log/", 600, 60)
		o.flushed(20 * time.Second)
		for i := from; i < len(o.renewed); i++ {
			if pause := o.renewed[i].Sub(o.renewed[i-1]); pause > brokerTimeout-time.Second {
				t.Errorf("no heartbeat for %v", pause)
			}
		}
		o.end()
	})
}

// TestFlushesWithoutCheckpoints checks that flushes continue and stay bounded if only checkpoints
// cannot be written.
func TestFlushesWithoutCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		i := o.faults.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: "checkpoint/"})
		for range 60 {
			o.work(600)
			o.flushed(10 * time.Second)
		}
		i.Stop()
		time.Sleep(20 * time.Second)
		o.work(5000)
		o.flushed(20 * time.Second)
		time.Sleep(20 * time.Second)
		o.work(100)
		o.flushed(20 * time.Second)
		if n := len(o.root.Log); n > o.cfg.RefsMax {
			t.Errorf("the document still names %d objects of the log", n)
		}
		o.end()
	})
}

// TestSuccessorWithoutAnUnflushedLog checks that a leader whose unflushed log does not reach back needs
// a checkpoint before the document can change. The document names the checkpoint as soon as
// it is written, and nothing is written in vain until then.
func TestSuccessorWithoutAnUnflushedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.leader.stop(false)
		o.commit(o.load.enqueue(now()))
		next := o.members[1]
		next.unflushed.Reset(o.frozen(next).LSN())
		o.elect()
		slow := o.faults.Inject(fault.Rule{Kind: fault.Slow, KeyPrefix: "checkpoint/", Delay: 400 * time.Millisecond})
		var err error
		if o.leader, err = o.campaign(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		from := len(o.renewed)
		for range 4 {
			o.leader.change(1)
			time.Sleep(100 * time.Millisecond)
		}
		o.flushed(600 * time.Millisecond) // for two objects, one after the other
		if n := len(o.renewed) - from; n != 1 || slow.Hits() == 0 {
			t.Errorf("the document was written %d times", n)
		}
		o.end()
	})
}

// TestFirstFailureIsShown lets every write of the document fail at once, as on a full or read-only
// bucket, whose reads succeed. Failing has the reason with the first attempt, and not only when
// the write has been given up.
func TestFirstFailureIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.flushed(time.Minute)
		if since, reason := o.leader.Stalled(); !since.IsZero() {
			t.Fatalf("with a healthy bucket: stalled since %v, %q", since, reason)
		}
		began := time.Now()
		i := o.faults.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: docKey, Ops: []storage.Op{storage.OpPutIfMatch}})
		o.work(1)
		time.Sleep(200 * time.Millisecond)
		if o.leader.Failing() == "" {
			t.Error("200 ms after the first failure there is no reason")
		}
		time.Sleep(10 * time.Second)
		if since, reason := o.leader.Stalled(); reason == "" || since.Sub(began) > 200*time.Millisecond {
			t.Errorf("stalled since %v after the fault, %q", since.Sub(began), reason)
		}
		i.Stop()
		o.flushed(3 * time.Second)
		if since, reason := o.leader.Stalled(); !since.IsZero() && reason != "" {
			t.Errorf("after the fault: stalled since %v, %q", since, reason)
		}
		o.end()
	})
}
