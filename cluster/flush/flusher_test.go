package flush

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/internal/storagetest/script"
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
	return &document.Content{Meta: &fsm.Meta{Term: d.lsn.Term, Index: d.lsn.Index}}, false, nil
}

// Last implements Draft.
func (d *desk) Last() *document.Content {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastLocked()
}

func (d *desk) lastLocked() *document.Content {
	return &document.Content{Meta: &fsm.Meta{Term: d.flushed.Term, Index: d.flushed.Index}}
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

const ms = time.Millisecond

// TestSchedule plays the files of testdata/schedule in simulated time. Each begins with "run [interval=D] [urgent=D]
// [save]", which starts a flusher, and "play" takes these commands, one a line:
//
//	pass D, pass until=D      lets time pass; times count from the start
//	change [waits]            applies an entry; a request waits for it to be flushed
//	answer E… [times=N]       the errors of the next writes: away, fenced or edit
//	set [takes=D] [stretched=D] [objects=N] [steps=N] [stuck[=no]] [broken=TEXT] [refuse=TEXT]
//	                          what a write takes, the budget's interval, the objects and steps of a draft, whether
//	                          there is no newer content, and the errors of a draft and of the adoption of an edit
//	final                     writes what is missing
//	repeat times=N COMMAND    repeats a command without arguments, and 100 ms after each
//
// "wrote" prints when writes began since the last one, "state" what the flusher says, and "ended" the error of its end.
func TestSchedule(t *testing.T) {
	datadriven.Walk(t, "testdata/schedule", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			var d *desk
			datadriven.RunTest(t, path, func(t *testing.T, test *datadriven.TestData) string {
				if c := script.Of(t, test); c.Name == "run" {
					cfg := DefaultConfig()
					cfg.Interval, cfg.UrgentInterval = c.Duration("interval", cfg.Interval), c.Duration("urgent", cfg.UrgentInterval)
					if c.Has("save") {
						cfg.SaveRequests()
					}
					d = run(t, cfg)
				}
				var out strings.Builder
				for _, c := range script.Input(t, test) {
					out.WriteString(d.play(c))
				}
				return out.String()
			})
		})
	})
}

// play runs one command of a transcript.
func (d *desk) play(c script.Command) string {
	switch c.Name {
	case "pass":
		if until := c.Duration("until", 0); until > 0 {
			d.pass(until - time.Since(d.start))
		} else {
			d.pass(script.Duration(d.t, c.ID(0)))
		}
	case "change":
		d.change()
		if lsn := d.current(); c.Has("waits") {
			go func() { _ = d.WaitFlushed(d.t.Context(), lsn) }()
			synctest.Wait()
		}
	case "answer":
		known := map[string]error{"away": errors.New("away"), "fenced": &election.FencedError{Epoch: 9}, "edit": &election.ExternalEditError{}}
		var errs []error
		for _, id := range c.IDs {
			errs = append(errs, known[id])
		}
		d.answer(slices.Repeat(errs, int(c.Number("times", 1)))...)
	case "set":
		d.set(c)
	case "final":
		if err := d.Final(d.t.Context()); err != nil {
			return err.Error() + "\n"
		}
	case "repeat":
		for range c.Number("times", 1) {
			d.play(script.Command{Name: c.ID(0)})
			d.pass(100 * ms)
		}
	case "wrote":
		d.mu.Lock()
		defer d.mu.Unlock()
		out := fmt.Sprintln("wrote", d.writes)
		d.writes = nil
		return out
	case "state":
		d.mu.Lock()
		defer d.mu.Unlock()
		return fmt.Sprintf("flushed %d of %d, failing %q, %d edits adopted, %d steps and %d answers left\n",
			d.flushed.Index, d.lsn.Index, d.Failing(), d.adopted, d.steps, len(d.answers))
	case "ended":
		err := <-d.ended
		var fenced *election.FencedError
		return fmt.Sprintln(errors.As(err, &fenced), fenced.Epoch, err)
	default:
		d.t.Fatalf("command %q is not known", c.Name)
	}
	return ""
}

func (d *desk) set(c script.Command) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes, d.stretched = c.Duration("takes", d.takes), c.Duration("stretched", d.stretched)
	d.pieces, d.steps = int(c.Number("objects", int64(d.pieces))), int(c.Number("steps", int64(d.steps)))
	d.stuck = c.Has("stuck")
	if text := c.Text("broken"); text != "" {
		d.broken = errors.New(text)
	}
	if text := c.Text("refuse"); text != "" {
		d.refuse = errors.New(text)
	}
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
