package groupcommit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"osqueue/internal/groupcommit"
)

// piece is an item that knows where it comes from.
type piece struct{ caller, seq, size int }

// startLog is the effect of the property test: it checks the bounds while it
// runs and keeps the order of all starts.
type startLog struct {
	mu       sync.Mutex
	order    []piece
	inFlight int
	faults   []string

	maxItems, maxBytes, maxInFlight int
	takes                           func() time.Duration
	fails                           func() bool
}

var errLogFull = errors.New("the log is full")

func (j *startLog) start(ctx context.Context, batch []piece) groupcommit.Wait[piece] {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.order = append(j.order, batch...)
	j.inFlight++
	j.checkBounds(batch)
	takes, fails := j.takes(), j.fails()
	return func() ([]piece, error) {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.inFlight--
		if fails {
			return nil, errLogFull
		}
		return append([]piece(nil), batch...), nil
	}
}

func (j *startLog) checkBounds(batch []piece) {
	bytes := 0
	for _, p := range batch {
		bytes += p.size
	}
	if len(batch) == 0 {
		j.faults = append(j.faults, "an empty batch was started")
	}
	if len(batch) > j.maxItems || len(batch) > 1 && bytes > j.maxBytes {
		j.faults = append(j.faults, "a batch is over its bounds")
	}
	if j.inFlight > j.maxInFlight {
		j.faults = append(j.faults, "too many batches are in flight")
	}
}

// overPending: each of the two buffers has a bound, which an item that is alone in it
// may exceed.
func (p *plan) overPending(items, bytes int) bool {
	if p.cfg.Urgent == nil {
		return items > p.cfg.MaxPendingItems || items > 1 && bytes > p.cfg.MaxPendingBytes
	}
	return items > 2*p.cfg.MaxPendingItems || items > 2 && bytes > p.cfg.MaxPendingBytes+max(p.cfg.MaxPendingBytes, pieceMax)
}

// pieceMax is the size of the largest piece.
const pieceMax = 30

// verdict is the answer to a caller about one piece.
type verdict struct {
	piece
	err error
}

// TestProperties lets callers with random sizes, pauses and deadlines meet an effect
// with random delays and failures, and a close at a random moment, on a simulated clock.
// Afterwards the log of starts has to agree with the answers of all callers.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		synctest.Test(t, func(*testing.T) { p.run(rt) })
	})
}

// plan is one drawn run. It is drawn in full beforehand: rapid's generators
// must not be used from several goroutines.
type plan struct {
	cfg       groupcommit.Config[piece, piece]
	callers   [][]step
	takes     []time.Duration
	fails     []bool
	closeAt   time.Duration
	byDrain   bool
	unlimited bool // callers have no deadlines and the close comes last
}

type step struct {
	size            int
	pause, deadline time.Duration
}

func drawPlan(rt *rapid.T) *plan {
	p := drawSimple(rt)
	if rapid.Bool().Draw(rt, "someUrgent") {
		p.cfg.Urgent = func(p piece) bool { return p.size%5 == 4 }
	}
	return p
}

func drawSimple(rt *rapid.T) *plan {
	duration := func(hi int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, hi), func(n int) time.Duration { return time.Duration(n) * ms })
	}
	steps := rapid.Custom(func(rt *rapid.T) step {
		return step{
			size:     rapid.IntRange(0, pieceMax).Draw(rt, "size"),
			pause:    duration(5).Draw(rt, "pause"),
			deadline: duration(40).Draw(rt, "deadline"),
		}
	})
	return &plan{
		cfg: groupcommit.Config[piece, piece]{
			Size:            func(p piece) int { return p.size },
			MaxItems:        rapid.IntRange(1, 8).Draw(rt, "maxItems"),
			MaxBytes:        rapid.IntRange(1, 60).Draw(rt, "maxBytes"),
			MaxPendingItems: rapid.IntRange(1, 12).Draw(rt, "maxPendingItems"),
			MaxPendingBytes: rapid.IntRange(1, 100).Draw(rt, "maxPendingBytes"),
			MaxInFlight:     rapid.IntRange(1, 4).Draw(rt, "maxInFlight"),
		},
		callers:   rapid.SliceOfN(rapid.SliceOfN(steps, 1, 12), 1, 8).Draw(rt, "callers"),
		takes:     rapid.SliceOfN(duration(20), 1, 16).Draw(rt, "takes"),
		fails:     rapid.SliceOfN(rapid.Bool(), 1, 8).Draw(rt, "fails"),
		closeAt:   duration(200).Draw(rt, "closeAt"),
		byDrain:   rapid.Bool().Draw(rt, "byDrain"),
		unlimited: rapid.Bool().Draw(rt, "unlimited"),
	}
}

func (p *plan) run(rt *rapid.T) {
	j := p.startLog()
	p.cfg.Start = j.start
	b := groupcommit.New(p.cfg)
	var (
		overPending atomic.Bool
		wg          sync.WaitGroup
		mu          sync.Mutex
		verdicts    []verdict
	)
	for caller, steps := range p.callers {
		wg.Go(func() {
			for seq, s := range steps {
				pc := piece{caller, seq, s.size}
				err := p.do(b, pc, s)
				if n, bytes := b.Pending(); p.overPending(n, bytes) {
					overPending.Store(true)
				}
				mu.Lock()
				verdicts = append(verdicts, verdict{pc, err})
				mu.Unlock()
			}
		})
	}
	p.end(b, &wg)
	wg.Wait()
	for _, fault := range j.faults {
		rt.Error(fault)
	}
	if overPending.Load() {
		rt.Error("the buffer went over its bounds")
	}
	checkVerdicts(rt, j.order, verdicts, p.unlimited)
	if items, bytes := b.Pending(); items != 0 || bytes != 0 || j.inFlight != 0 {
		rt.Errorf("after the end %d items of %d bytes are pending, and %d batches in flight", items, bytes, j.inFlight)
	}
}

func (p *plan) startLog() *startLog {
	batches := 0
	return &startLog{
		maxItems: p.cfg.MaxItems, maxBytes: p.cfg.MaxBytes, maxInFlight: p.cfg.MaxInFlight,
		takes: func() time.Duration { batches++; return p.takes[batches%len(p.takes)] },
		fails: func() bool { return p.fails[batches%len(p.fails)] },
	}
}

// do makes one call and turns a result of another caller into an error that no check
// accepts.
func (p *plan) do(b *groupcommit.Batcher[piece, piece], pc piece, s step) error {
	time.Sleep(s.pause)
	ctx := context.Background()
	if !p.unlimited {
		limited, cancel := context.WithTimeout(ctx, s.deadline)
		defer cancel()
		ctx = limited
	}
	result, err := b.Do(ctx, pc)
	if err == nil && result != pc {
		return errors.New("the result belongs to another item")
	}
	return err
}

func (p *plan) end(b *groupcommit.Batcher[piece, piece], callers *sync.WaitGroup) {
	if p.unlimited {
		callers.Wait()
	} else {
		time.Sleep(p.closeAt)
	}
	if !p.byDrain {
		b.Close()
		return
	}
	_ = b.Drain(context.Background())
}

func checkVerdicts(rt *rapid.T, order []piece, verdicts []verdict, unlimited bool) {
	committed := map[piece]int{}
	lastSeq := map[int]int{}
	for _, pc := range order {
		committed[pc]++
		if last, ok := lastSeq[pc.caller]; ok && last >= pc.seq {
			rt.Errorf("caller %d: item %d started after item %d", pc.caller, pc.seq, last)
		}
		lastSeq[pc.caller] = pc.seq
	}
	for _, v := range verdicts {
		times := committed[v.piece]
		switch {
		case v.err == nil, errors.Is(v.err, errLogFull), errors.Is(v.err, groupcommit.ErrUnknown):
			if times != 1 {
				rt.Errorf("%+v was started %d times, its caller was told: %v", v.piece, times, v.err)
			}
		case errors.Is(v.err, groupcommit.ErrNotStarted):
			if times != 0 {
				rt.Errorf("%+v was started %d times, its caller was told: %v", v.piece, times, v.err)
			}
		default:
			rt.Errorf("%+v: unexpected error %v", v.piece, v.err)
		}
		if unlimited && (errors.Is(v.err, groupcommit.ErrUnknown) || errors.Is(v.err, groupcommit.ErrClosed)) {
			rt.Errorf("%+v: nothing was cut short, and yet: %v", v.piece, v.err)
		}
	}
}
