// Package past rebuilds earlier states of the queue from the bucket, for readers of a node.
//
// # Problem
//
// What did the queue look like when the alarm went off? The archive has the answer, but a
// rebuild reads a checkpoint and the log behind it, which takes seconds and the memory of a
// second queue. Many readers may ask at once, also on the leader.
//
// # How
//
// States rebuilds one state at a time, on a goroutine of its own that takes no lock of the
// node. Readers of the same state share the rebuild, and continue to wait for it with another
// request if theirs was too short. At most two states exist: the last one, and the one that is
// rebuilt or was read before. Each is bounded by half of Config.MaxBytes (an estimate), and is
// released after keepFor without a reader.
//
// The bucket is read through the limits and the meter of the node, so that a rebuild is in the
// cost report and cannot exceed --bucket-reads-per-minute. The list of the kept objects is
// read again after listFor.
package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
)

const (
	keepFor  = 2 * time.Minute
	listFor  = 5 * time.Minute
	freshFor = 5 * time.Second // of a state that may change with the next flush
	// buildTime bounds one rebuild.
	buildTime = 5 * time.Minute
	// waitersMax bounds the requests that wait for a rebuild.
	waitersMax = 32
	statesMax  = 2
)

var (
	// ErrNotKept is wrapped by errors for states that the bucket does not have.
	ErrNotKept = archive.ErrNotKept
	// ErrTooLarge is wrapped by errors for states that exceed Config.MaxBytes.
	ErrTooLarge = archive.ErrTooLarge
	// ErrBusy says that the state was not rebuilt in the time of the caller, or that too many
	// callers wait.
	ErrBusy = errors.New("the state is being rebuilt from the bucket")
	// ErrOff says that Config.MaxBytes is 0.
	ErrOff = errors.New("this node does not rebuild earlier states (--past-memory 0)")
)

// Target selects a state, as in package archive.
type Target = archive.Target

// Span is a contiguous piece of the kept history, as in package archive.
type Span = archive.Span

// Config configures States.
type Config struct {
	Bucket storage.Bucket
	Key    string // of the document
	// MaxBytes bounds the memory of all states together; 0: no state is rebuilt.
	MaxBytes int64
}

// States rebuilds states. It is safe for concurrent use.
type States struct {
	cfg  Config
	ctx  context.Context // of the rebuilds, which outlive requests
	end  context.CancelFunc
	wait sync.WaitGroup
	turn chan struct{} // has an item while history is read

	mu       sync.Mutex
	kept     []*State // the last one is the one that was read last
	building *build   // nil: none
	waiting  int
	history  *archive.History // nil: not read, or too old
	spans    []Span           // of history; nil: not read
	listed   time.Time        // when history was read
	idle     *time.Timer      // releases kept and history
}

// build is a rebuild under way. Its other fields are set when done is closed.
type build struct {
	target Target
	done   chan struct{}
	state  *State
	err    error
}

// New returns States without any. Close must be called.
func New(cfg Config) *States {
	s := &States{cfg: cfg, turn: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.idle = time.AfterFunc(keepFor, s.release)
	return s
}

// Close ends the rebuild under way, and waits for its end.
func (s *States) Close() {
	s.end()
	s.mu.Lock()
	s.idle.Stop()
	s.mu.Unlock()
	s.wait.Wait()
}

// At returns a state. The error wraps ErrOff, ErrBusy if ctx ends first, ErrNotKept,
// ErrTooLarge, or is one of the archive or the store.
func (s *States) At(ctx context.Context, t Target) (*State, error) {
	if s.cfg.MaxBytes <= 0 {
		return nil, ErrOff
	}
	for {
		state, b, err := s.find(t)
		if state != nil || err != nil {
			return state, err
		}
		over := false
		select {
		case <-b.done:
		case <-ctx.Done():
			over = true
		}
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
		switch {
		case over:
			return nil, ErrBusy
		case b.target == t:
			return b.state, b.err
		}
	}
}

// find returns the state if it is kept, and otherwise the rebuild to wait for, which it starts
// if none is under way.
func (s *States) find(t Target) (*State, *build, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, nil, context.Canceled
	}
	s.idle.Reset(keepFor)
	for i, state := range s.kept {
		if state.target == t && (state.until.IsZero() || time.Now().Before(state.until)) {
			s.kept = append(slices.Delete(s.kept, i, i+1), state)
			return state, nil, nil
		}
	}
	if s.waiting >= waitersMax {
		return nil, nil, fmt.Errorf("%w; %d requests wait", ErrBusy, s.waiting)
	}
	s.waiting++
	if s.building == nil {
		b := &build{target: t, done: make(chan struct{})}
		s.building = b
		s.kept = s.kept[max(0, len(s.kept)-statesMax+1):] // the oldest, so that its memory is free
		s.wait.Go(func() { s.run(b) })
	}
	return nil, s.building, nil
}

func (s *States) run(b *build) {
	ctx, cancel := context.WithTimeout(s.ctx, buildTime)
	defer cancel()
	state, err := s.rebuild(ctx, b.target)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.state, b.err = state, err; err == nil {
		s.kept = append(s.kept, state)
	}
	s.building = nil
	close(b.done)
}

// rebuild reads a state. If the list of objects is not new, an error may come from an object
// that was collected since.
func (s *States) rebuild(ctx context.Context, t Target) (*State, error) {
	h, fresh, err := s.list(ctx, t)
	if err != nil {
		return nil, err
	}
	state, err := s.read(ctx, h, t)
	if err == nil || fresh || errors.Is(err, ErrTooLarge) || ctx.Err() != nil {
		return state, err
	}
	s.mu.Lock()
	s.history = nil
	s.mu.Unlock()
	if h, _, err = s.list(ctx, t); err != nil {
		return nil, err
	}
	return s.read(ctx, h, t)
}

func (s *States) read(ctx context.Context, h *archive.History, t Target) (*State, error) {
	m, err := h.Within(s.cfg.MaxBytes/statesMax).At(ctx, t)
	if err != nil {
		return nil, err
	}
	state := &State{target: t, machine: m, view: m.View()}
	if t == (Target{}) || !covers(h, t) {
		state.until = time.Now().Add(freshFor)
	}
	return state, nil
}

// covers reports whether the document that led to h has all of the state of t.
func covers(h *archive.History, t Target) bool {
	d := h.Document()
	return t == Target{} || !t.Time.IsZero() && d.Now() > t.Time.UnixMilli() || !t.LSN.IsZero() && d.LSN().Compare(t.LSN) >= 0
}

// list returns a list of the kept history that covers t if the bucket has it. fresh reports
// that it was just read.
func (s *States) list(ctx context.Context, t Target) (h *archive.History, fresh bool, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
	s.mu.Lock()
	h, listed := s.history, s.listed
	s.mu.Unlock()
	if h != nil && time.Since(listed) < listFor && covers(h, t) {
		return h, false, nil
	}
	if h, err = archive.Open(ctx, s.cfg.Bucket, s.cfg.Key); err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			err = fmt.Errorf("%w: the bucket has no queue yet", ErrNotKept)
		}
		return nil, true, err
	}
	s.mu.Lock()
	s.history, s.spans, s.listed = h, nil, time.Now()
	s.mu.Unlock()
	return h, true, nil
}

// Spans returns the kept history, oldest first. It may be as old as listFor. The first piece
// begins when the first entry of the queue was made, if the bucket has that entry. The caller
// must not change the result.
func (s *States) Spans(ctx context.Context) ([]Span, error) {
	if s.cfg.MaxBytes <= 0 {
		return nil, ErrOff
	}
	s.mu.Lock()
	s.idle.Reset(keepFor)
	s.mu.Unlock()
	h, _, err := s.list(ctx, Target{})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	spans := s.spans
	s.mu.Unlock()
	if spans != nil {
		return spans, nil
	}
	spans = h.Spans()
	if len(spans) > 0 && spans[0].Since.UnixMilli() == 0 { // before the first entry, at no time
		if begin, err := h.Beginning(ctx); err == nil && !begin.IsZero() {
			spans[0].Since = begin
		}
	}
	s.mu.Lock()
	if s.history == h {
		s.spans = spans
	}
	s.mu.Unlock()
	return spans, nil
}

// release forgets all states and the list.
func (s *States) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.history, s.spans = nil, nil, nil
}

// State is an earlier state of the queue. It does not change.
type State struct {
	target  Target
	until   time.Time // zero: as long as it is kept
	machine *fsm.Machine
	view    *fsm.View
}

// Of returns the state of a machine that does not change any more.
func Of(m *fsm.Machine) *State { return &State{machine: m, view: m.View()} }

// Job returns the job with that id, or nil.
func (s *State) Job(id string) *fsm.Job { return s.machine.Job(id) }

// View returns the state.
func (s *State) View() *fsm.View { return s.view }

// TypeStats returns the figures of one type.
func (s *State) TypeStats(name string) fsm.TypeStats { return s.machine.TypeStats(name) }

// AccountUsage returns how many jobs of an account have not ended, and the bytes of their payloads.
func (s *State) AccountUsage(name string) (jobs, bytes int64) { return s.machine.AccountUsage(name) }

// LimitUse returns the use of a limit by key, and LimitUses that of up to n, in the order of names, from one on.
func (s *State) LimitUse(name string) fsm.LimitUse { return s.machine.LimitUse(name) }

func (s *State) LimitUses(from string, n int) []fsm.LimitUse { return s.machine.LimitUses(from, n) }

// AllTypeStats returns the figures of every type that has jobs.
func (s *State) AllTypeStats() map[string]fsm.TypeStats {
	all := make(map[string]fsm.TypeStats)
	for name, t := range s.machine.Types {
		all[name] = t
	}
	return all
}
