package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"osqueue/storage"
)

// ErrInjected is wrapped by every error that this package invents.
var ErrInjected = errors.New("injected fault")

// Kind selects the fault of an operation that matches a rule.
type Kind string

// The kinds of faults; doc.go says what each does.
const (
	LoseRequest Kind = "lose-request"
	LoseAnswer  Kind = "lose-answer"
	DeliverLate Kind = "deliver-late"
	Reject      Kind = "reject"
	Throttle    Kind = "throttle"
	Stall       Kind = "stall"
	Slow        Kind = "slow"
	Garble      Kind = "garble"
	Truncate    Kind = "truncate"
)

// applies reports whether a fault of this kind can happen to op at all.
func (k Kind) applies(op storage.Op) bool {
	switch k {
	case LoseAnswer, DeliverLate, Reject:
		return op.IsWrite()
	case Garble, Truncate:
		return op == storage.OpGet || op == storage.OpGetRange
	default:
		return true
	}
}

// Rule says which operations suffer from what.
type Rule struct {
	Kind Kind
	// Ops limits the rule to these operations; none means all that the kind
	// can happen to.
	Ops []storage.Op
	// KeyPrefix limits the rule to keys (for List: prefixes) that begin so.
	KeyPrefix string
	// Skip lets this many matching operations pass before the first hit.
	Skip int
	// Times ends the rule after so many hits; 0 means no end.
	Times int
	// Probability hits each matching operation by chance; 0 means always.
	Probability float64
	// Delay is how long Slow waits; how long LoseRequest and LoseAnswer keep
	// the caller waiting for the answer that does not come (a shorter deadline
	// of the caller ends that); and after how long DeliverLate delivers by
	// itself, where 0 means only on Release.
	Delay time.Duration
	// Rate is how many bytes of writes a second Slow lets pass, one write after the other; 0 means no limit.
	Rate int
}

// Injection is a rule at work. Its methods are safe for concurrent use.
type Injection struct {
	rule     Rule
	released chan struct{}

	mu      sync.Mutex
	matched int
	hits    int
	stopped bool
	open    bool          // released is closed
	changed chan struct{} // closed and replaced at every hit and delivery
	free    time.Time     // when the writes so far are through, by Rate
	held    []*late
	late    []storage.Write // answers to late deliveries, in order of delivery
}

func newInjection(r Rule) *Injection {
	return &Injection{rule: r, released: make(chan struct{}), changed: make(chan struct{})}
}

// fires decides whether the rule hits this operation, and counts it.
func (i *Injection) fires(op storage.Op, key string, chance func() float64) bool {
	r := i.rule
	if !r.Kind.applies(op) || len(r.Ops) > 0 && !slices.Contains(r.Ops, op) || !strings.HasPrefix(key, r.KeyPrefix) {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped || r.Times > 0 && i.hits >= r.Times {
		return false
	}
	i.matched++
	if i.matched <= r.Skip || r.Probability > 0 && chance() >= r.Probability {
		return false
	}
	i.hits++
	i.notifyLocked()
	return true
}

// transfer returns how long a write of so many bytes takes, behind all earlier ones.
func (i *Injection) transfer(bytes int) time.Duration {
	if i.rule.Rate == 0 {
		return 0
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := time.Now(); i.free.Before(now) {
		i.free = now
	}
	i.free = i.free.Add(time.Duration(bytes) * time.Second / time.Duration(i.rule.Rate))
	return time.Until(i.free)
}

func (i *Injection) notifyLocked() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// Hits returns how many operations the rule has hit.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// WaitHits waits until the rule has hit n operations.
func (i *Injection) WaitHits(ctx context.Context, n int) error {
	return i.wait(ctx, func() bool { return i.hits >= n })
}

// WaitDelivered waits until n late writes were delivered, and returns the
// store's answers to them.
func (i *Injection) WaitDelivered(ctx context.Context, n int) ([]storage.Write, error) {
	err := i.wait(ctx, func() bool { return len(i.late) >= n })
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.late), err
}

func (i *Injection) wait(ctx context.Context, doneLocked func() bool) error {
	for {
		i.mu.Lock()
		done, changed := doneLocked(), i.changed
		i.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fault %s: %w after %d hits", i.rule.Kind, ctx.Err(), i.Hits())
		}
	}
}

// Stop ends the rule for later operations. Operations that it holds stay held.
func (i *Injection) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// Release ends the rule, lets stalled operations go on, and delivers the
// late writes in the order in which they were sent. It returns the store's
// answers to these writes.
func (i *Injection) Release(ctx context.Context) []storage.Write {
	i.mu.Lock()
	i.stopped = true
	if !i.open {
		i.open = true
		close(i.released)
	}
	held := i.held
	i.held = nil
	i.mu.Unlock()
	answers := make([]storage.Write, 0, len(held))
	for _, l := range held {
		if w, mine := l.deliver(ctx); mine {
			answers = append(answers, w)
		}
	}
	return answers
}
