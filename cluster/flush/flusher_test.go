package flush

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage/document"
)

func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the tests encode many states, beside a small heap
	}
	goleak.VerifyTestMain(m)
}

// desk is a flusher in a synctest bubble with fakes for everything around it.
type desk struct {
	t *testing.T
	*Flusher
	start  time.Time
	ended  chan error
	cancel context.CancelFunc // ends Run

	mu        sync.Mutex
	lsn       fsm.LSN
	flushed   fsm.LSN
	size      int
	writes    []time.Duration // start times of the writes
	answers   []error         // of the next writes; nil when empty
	adopted   int
	refuse    error // result of Edited
	takes     time.Duration
	stretched time.Duration // least interval of the budget
	steps     int           // drafts until the content is up to date
	stuck     bool          // there is no newer content for now
	broken    error         // error of Draft
	pieces    int           // objects that a draft writes

	acquired time.Time
	standbys []string // of the next document
}

// run starts a flusher in the bubble of the caller, and lets its interval pass.
func run(t *testing.T, cfg Config) *desk {
	d := &desk{t: t, start: time.Now().Add(cfg.Interval), ended: make(chan error, 1), size: 100}
	d.Flusher = New(cfg, d, d, Effects{
		LSN:   d.current,
		NowMs: d.sinceStartMs,
		Interval: func(least time.Duration) time.Duration {
			d.mu.Lock()
			defer d.mu.Unlock()
			return max(least, d.stretched)
		},
		Edited: d.adopt,
		Fence:  func() document.Fence { d.mu.Lock(); defer d.mu.Unlock(); return document.Fence{Standbys: d.standbys} },
		Wrote:  func(Written) {},
	}, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { d.ended <- d.Run(ctx) }()
	t.Cleanup(cancel)
	d.cancel = cancel
	d.pass(cfg.Interval) // since the write that acquired the document
	return d
}

func (d *desk) sinceStartMs() int64 { return time.Since(d.start).Milliseconds() }

func (d *desk) current() fsm.LSN {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lsn
}

func (d *desk) adopt(context.Context, *election.ExternalEditError) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adopted++
	return d.refuse
}

// Draft implements Draft.
func (d *desk) Draft(context.Context, bool) (c *document.Content, behind bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return nil, false, d.broken
	}
	if d.stuck {
		return d.lastLocked(), false, nil
	}
	if d.steps > 0 {
		d.steps--
		return d.lastLocked(), true, nil
	}
	return &document.Content{Meta: fsm.Meta{LSN: d.lsn}}, false, nil
}

// Last implements Draft.
func (d *desk) Last() *document.Content {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastLocked()
}

func (d *desk) lastLocked() *document.Content {
	return &document.Content{Meta: fsm.Meta{LSN: d.flushed}}
}

// Wrote implements Draft.
func (d *desk) Wrote(c *document.Content) fsm.LSN { return c.LSN() }

// Objects implements Draft.
func (d *desk) Objects() int { return d.pieces }

// Notify implements Draft.
func (d *desk) Notify(func()) {}

// Viewed implements Document.
func (d *desk) Viewed() bool { return false }

// OnFailure implements Document.
func (d *desk) OnFailure(func(error)) {}

// Acquired implements Document.
func (d *desk) Acquired() (time.Time, bool) { return d.acquired, false }

// Announce implements Document.
func (d *desk) Announce(document.Fence) {}

// Write implements Document.
func (d *desk) Write(ctx context.Context, c *document.Content, _ int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes = append(d.writes, time.Since(d.start))
	lsn := c.LSN()
	if d.takes > 0 {
		d.mu.Unlock()
		sleep.For(ctx, d.takes)
		d.mu.Lock()
	}
	if len(d.answers) > 0 {
		err := d.answers[0]
		d.answers = d.answers[1:]
		if err != nil {
			return err
		}
	}
	d.flushed = lsn
	return nil
}

// Flushed implements Document.
func (d *desk) Flushed() fsm.LSN {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flushed
}

// Size implements Document.
func (d *desk) Size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.size
}

// change applies an entry.
func (d *desk) change() {
	d.mu.Lock()
	d.lsn.Term = 1
	d.lsn.Index++
	d.mu.Unlock()
	d.Changed()
	synctest.Wait()
}

// answer sets the errors of the next writes.
func (d *desk) answer(errs ...error) { d.script(func() { d.answers = errs }) }

func (d *desk) script(set func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set()
}

// pass lets time pass.
func (d *desk) pass(t time.Duration) {
	time.Sleep(t)
	synctest.Wait()
}

// wrote checks the start times of the writes since the last call.
func (d *desk) wrote(want ...time.Duration) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.writes, want) {
		d.t.Fatalf("writes began at %v, want %v", d.writes, want)
	}
	d.writes = nil
}

const ms = time.Millisecond

func TestFirstChangeIsWrittenAtOnceTheNextTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.pass(time.Second)
		d.change()
		d.wrote(1000 * ms)
		d.change()
		d.pass(20 * ms)
		d.change()
		d.wrote()
		d.pass(30 * ms)
		d.wrote(1050 * ms)
		if d.Flusher.Flushed() != d.current() {
			t.Fatalf("flushed %s of %s", d.Flusher.Flushed(), d.current())
		}
		d.pass(time.Second)
		d.wrote() // nothing changed
	})
}

// TestARequestThatWaitsForTheBucketEndsThePause: the next write begins a tenth of the
// last one's time after its end, or after UrgentInterval; changes that nobody waits for still wait out the interval. A
// budget stretches both.
func TestARequestThatWaitsForTheBucketEndsThePause(t *testing.T) {
	for name, c := range map[string]struct {
		urgent, stretched time.Duration
		before            time.Duration // passes after the first write began, which takes 150 ms
		want              time.Duration
	}{
		"while it writes": {before: 20 * ms, want: 1165 * ms},
		"between writes":  {before: 350 * ms, want: 1350 * ms},
		"on GCS":          {urgent: 600 * ms, before: 350 * ms, want: 1600 * ms},
		"with a budget":   {stretched: 800 * ms, before: 350 * ms, want: 1800 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Interval, cfg.UrgentInterval = time.Second, c.urgent
				d := run(t, cfg)
				d.script(func() { d.takes, d.stretched = 150*ms, c.stretched })
				d.pass(time.Second)
				wait := func() {
					d.change()
					lsn := d.current()
					go func() { _ = d.WaitFlushed(t.Context(), lsn) }()
					synctest.Wait()
				}
				wait()
				d.wrote(1000 * ms)
				d.pass(c.before)
				d.change()
				d.wrote() // nobody waits
				wait()
				d.pass(time.Second)
				d.wrote(c.want)
				d.change()
				d.pass(time.Second)
				d.wrote(c.want + time.Second)
			})
		})
	}
}

// A write that took long does not delay the next one for long.
func TestThePauseAfterALongWriteIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.takes = 4 * time.Second })
		d.pass(time.Second)
		d.change()
		d.pass(time.Second)
		d.change()
		d.pass(4 * time.Second)
		d.wrote(1000*ms, 5050*ms)
	})
}

// TestObjectsCountAsWrites checks that a segment counts as a write where requests are
// charged: the document waits for another interval. It never waits beyond the heartbeat; the
// next documents wait for the other objects.
func TestObjectsCountAsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Interval = time.Second
		cfg.SaveRequests()
		d := run(t, cfg)
		busy := func(objects int, times ...time.Duration) {
			t.Helper()
			for _, at := range times {
				d.script(func() { d.pieces = objects })
				d.change()
				d.pass(at - time.Since(d.start))
				d.wrote(at)
			}
		}
		d.pass(time.Second)
		busy(0, 1000*ms, 2000*ms)
		busy(1, 3000*ms)
		busy(5, 5000*ms)
		busy(0, 8000*ms, 11000*ms, 13000*ms, 14000*ms)
		busy(1000, 15000*ms)
		busy(0, 18000*ms, 21000*ms, 24000*ms, 27000*ms, 30000*ms, 33000*ms, 36000*ms, 39000*ms, 40000*ms)
	})
}

func TestHeartbeatWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.pass(7 * time.Second)
		d.wrote(2950*ms, 5950*ms)
		d.change()
		d.pass(3 * time.Second)
		d.wrote(7*time.Second, 10*time.Second)
	})
}

func TestLargeDocumentsAreHeldBack(t *testing.T) {
	for size, want := range map[int]time.Duration{1 << 18: 50 * ms, 8 << 20: time.Second, 1 << 40: 3 * time.Second} {
		cfg := DefaultConfig()
		if got := cfg.pause(cfg.Interval, size); got != want {
			t.Errorf("%d bytes: %v, want %v", size, got, want)
		}
		cfg.Bandwidth = 0
		if got := cfg.pause(cfg.Interval, size); got != cfg.Interval {
			t.Errorf("%d bytes, no limit: %v", size, got)
		}
	}
}

// TestTroubleIsTriedAgain checks that Failing shows a failure of the bucket, that the
// flusher tries again with growing pauses, and that the recovery clears it.
func TestTroubleIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		away := errors.New("away")
		d.answer(away, away, away)
		d.pass(time.Second)
		d.change()
		d.pass(10 * ms)
		if d.Failing() != "away" {
			t.Fatalf("failing %q", d.Failing())
		}
		d.change()
		d.pass(time.Second)
		d.wrote(1000*ms, 1050*ms, 1150*ms, 1300*ms)
		if d.Failing() != "" || d.Flusher.Flushed() != d.current() {
			t.Fatalf("failing %q, flushed %s of %s", d.Failing(), d.Flusher.Flushed(), d.current())
		}
	})
}

func TestPausesInTroubleAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.answer(slices.Repeat([]error{errors.New("away")}, 100)...)
		d.change()
		d.pass(5 * time.Minute)
		d.mu.Lock()
		defer d.mu.Unlock()
		last := d.writes[len(d.writes)-2:]
		if pause := last[1] - last[0]; pause != 3*time.Second || len(d.answers) > 0 {
			t.Fatalf("the pause grew to %v after %d writes", pause, len(d.writes))
		}
	})
}

func TestFencedEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.answer(&election.FencedError{Epoch: 9})
		d.change()
		var fenced *election.FencedError
		if err := <-d.ended; !errors.As(err, &fenced) || fenced.Epoch != 9 {
			t.Fatalf("ended with %v", err)
		}
		if d.Flusher.Flushed() == d.current() {
			t.Fatal("what was refused counts as flushed")
		}
	})
}

// TestEndlessEdits checks that repeated edits cannot keep the loop in one round, and that
// nothing counts as flushed.
func TestEndlessEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		d := run(t, cfg)
		d.answer(slices.Repeat([]error{&election.ExternalEditError{}}, cfg.ConflictRetries+1)...)
		d.change()
		d.pass(790 * ms)
		d.wrote(0, 50*ms, 150*ms, 300*ms, 500*ms, 750*ms)
		if d.adopted != cfg.ConflictRetries || !strings.Contains(d.Failing(), "keeps changing") {
			t.Fatalf("adopted %d, failing %q", d.adopted, d.Failing())
		}
		d.pass(20 * ms)
		d.wrote(800 * ms)
		if d.Failing() != "" {
			t.Fatalf("failing %q", d.Failing())
		}
	})
}

func TestEditThatCannotBeAdoptedIsNotWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.refuse = errors.New("no copy could be kept") })
		d.answer(&election.ExternalEditError{})
		d.pass(time.Second)
		d.change()
		d.wrote(time.Second)
		if !strings.Contains(d.Failing(), "no copy could be kept") {
			t.Fatalf("failing %q", d.Failing())
		}
	})
}

func TestFinalWritesOnlyWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.change()
		d.wrote(0)
		if err := d.Final(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.wrote()
		d.change() // the loop waits out its interval
		if err := d.Final(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.wrote(0)
		if d.Flusher.Flushed() != d.current() {
			t.Fatalf("flushed %s of %s", d.Flusher.Flushed(), d.current())
		}
	})
}

// TestBacklogIsCaughtUpInSteps checks that a backlog is written step by step without a
// pause, and that the document follows at the end, or is renewed when the backlog takes
// longer than a heartbeat.
func TestBacklogIsCaughtUpInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.steps = 5 })
		d.pass(time.Second)
		d.change()
		d.wrote(1000 * ms)
		if d.steps != 0 || d.Flusher.Flushed() != d.current() {
			t.Fatalf("%d steps left, flushed %s of %s", d.steps, d.Flusher.Flushed(), d.current())
		}
	})
}

// TestNothingIsWrittenInVain checks that while the next content waits for an event, the
// document is renewed when its heartbeat is due, and not at each change.
func TestNothingIsWrittenInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.stuck = true })
		for range 63 {
			d.change()
			d.pass(100 * ms)
		}
		d.wrote(2900*ms, 5900*ms)
		d.pass(3 * time.Second)
		d.wrote(8900 * ms) // nothing changes any more
		d.script(func() { d.stuck = false })
		d.change()
		d.wrote(9300 * ms)
	})
}

// TestHeartbeatWhileDraftsFail checks that failing drafts keep the document unchanged, but
// not its heartbeat from being renewed.
func TestHeartbeatWhileDraftsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.broken = errors.New("no segment") })
		d.change()
		d.pass(10 * time.Second)
		d.mu.Lock()
		writes := slices.Clone(d.writes)
		d.mu.Unlock()
		if len(writes) < 3 || d.Flusher.Flushed() == d.current() || !strings.Contains(d.Failing(), "no segment") {
			t.Fatalf("writes at %v, flushed %s, failing %q", writes, d.Flusher.Flushed(), d.Failing())
		}
		for i, at := range writes {
			if last := max(i-1, 0); i > 0 && at-writes[last] > 4*time.Second {
				t.Fatalf("the heartbeat was late: %v", writes)
			}
		}
	})
}

func TestWaitFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.script(func() { d.takes = 100 * ms })
		d.change()
		first := d.current()
		waited := make(chan error, 3)
		for _, lsn := range []fsm.LSN{{}, first, {Term: 9}} {
			go func() { waited <- d.WaitFlushed(t.Context(), lsn) }()
		}
		synctest.Wait()
		if err := <-waited; err != nil || len(waited) > 0 {
			t.Fatalf("%v, and %d more came back before the write", err, len(waited))
		}
		d.pass(100 * ms)
		if err := <-waited; err != nil || len(waited) > 0 {
			t.Fatalf("%v, and %d more came back after the write", err, len(waited))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.WaitFlushed(ctx, fsm.LSN{Term: 8}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waited with %v", err)
		}
		d.Close()
		if err := <-waited; !errors.Is(err, ErrOver) {
			t.Fatalf("waited with %v for what never comes", err)
		}
		if err := d.WaitFlushed(t.Context(), first); err != nil {
			t.Fatalf("what is flushed stays so: %v", err)
		}
	})
}

// TestLostAnswerThatNamesAStandby: a write that names a standby, and that may have succeeded
// though it failed, counts until a later write has succeeded.
func TestLostAnswerThatNamesAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.change()
		before, named := d.Renewed()
		if named {
			t.Fatal("the first document names a standby")
		}
		d.script(func() { d.standbys = []string{"b"} })
		d.answer(slices.Repeat([]error{errors.New("the answer is lost")}, 20)...)
		d.Rewrite()
		d.pass(time.Second)
		if began, named := d.Renewed(); !named || !began.Equal(before) {
			t.Errorf("named %v, since %v, want a standby since %v", named, began, before)
		}
		d.script(func() { d.standbys = nil })
		d.pass(time.Second)
		if _, named := d.Renewed(); !named {
			t.Error("a write that failed has made the leader forget the standby")
		}
		d.pass(time.Minute)
		if began, named := d.Renewed(); named || !began.After(before) {
			t.Errorf("named %v since %v, after a write that names none", named, began)
		}
	})
}

// TestAcquiredCounts: the heartbeat counts from the start of the write that acquired the document.
func TestAcquiredCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := run(t, DefaultConfig())
		d.acquired = time.Now().Add(-8 * time.Second)
		f := New(DefaultConfig(), d, d, Effects{LSN: d.current, NowMs: d.sinceStartMs}, hclog.NewNullLogger())
		if began, _ := f.Renewed(); !began.Equal(d.acquired) {
			t.Errorf("renewed at %v, want %v", began, d.acquired)
		}
	})
}
