package storagetest

import (
	"context"
	"sync"
	"testing"

	"osqueue/storage"
)

// Passing returns a bucket that calls do for each operation. do calls op at most once, with a context of its own.
// If it returns an error, the caller gets the error and not what op has found.
func Passing(inner storage.Bucket, do func(ctx context.Context, op func(context.Context)) error) *storage.Decorated {
	return storage.Decorate(inner, func(ctx context.Context, _ storage.Call, next func(context.Context) storage.Answer) (a storage.Answer) {
		if lost := do(ctx, func(ctx context.Context) { a = next(ctx) }); lost != nil {
			return storage.Answer{Write: storage.Write{Err: lost}, Err: lost}
		}
		return a
	})
}

// Counts counts events by name. It is safe for concurrent use.
type Counts struct {
	mu sync.Mutex
	n  map[string]int
}

// NewCounts returns counts of nothing.
func NewCounts() *Counts { return &Counts{n: make(map[string]int)} }

// Add counts n events.
func (c *Counts) Add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what] += n
}

// One counts an event.
func (c *Counts) One(what string) { c.Add(what, 1) }

// Count returns the number of events of a name.
func (c *Counts) Count(what string) int { return c.ByName()[what] }

// ByName returns a copy of the counters.
func (c *Counts) ByName() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]int, len(c.n))
	for k, v := range c.n {
		all[k] = v
	}
	return all
}

// Demand fails the test if one of the events never happened.
func (c *Counts) Demand(t testing.TB, all ...string) {
	t.Helper()
	got := c.ByName()
	t.Log(got)
	for _, what := range all {
		if got[what] == 0 {
			t.Errorf("%s: not once", what)
		}
	}
}
