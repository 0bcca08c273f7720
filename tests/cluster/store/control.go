package store

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// control holds the faults that a test has ordered, and how often each was done.
type control struct {
	mu      sync.Mutex
	orders  []*order
	hold    *Held
	chance  *chance
	down    bool
	revoked []string      // access keys
	away    chan struct{} // closed when the store is back; nil while it is there
	slow    time.Duration
	hits    map[Fault]int
	writes  int // that have arrived
	refused int
	turn    int
}

// decision is the proxy's treatment of one request.
type decision struct {
	away   <-chan struct{}
	down   bool
	denied bool
	held   *Held
	slow   time.Duration
	blow   *blow
}

func (d decision) special() bool {
	return d.away != nil || d.down || d.denied || d.held != nil || d.slow > 0 || d.blow != nil
}

// decide takes the lot of one request.
func (c *control) decide(q request) decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := decision{down: c.down, slow: c.slow}
	if q.write {
		c.writes++
	}
	switch {
	case c.away != nil:
		d.away = c.away
		c.hits[Hanging]++
		return d
	case c.down:
		c.hits[Down]++
		return d
	case slices.Contains(c.revoked, q.key):
		d.denied = true
		c.hits[Denied]++
		return d
	case c.hold != nil && c.hold.target(q):
		d.held, c.hold = c.hold, nil
		return d
	}
	if d.slow > 0 {
		c.hits[Slow]++
	}
	if b, ok := c.takeLocked(q); ok {
		d.blow = &b
		c.hits[b.fault]++
	}
	return d
}

// takeLocked returns the oldest order for such a request, else a fault drawn at random.
func (c *control) takeLocked(q request) (blow, bool) {
	for _, o := range c.orders {
		if o.left > 0 && o.target(q) && o.fault.hits(q) {
			o.left--
			c.turn++
			return blow{fault: o.fault, turn: c.turn - 1, answer: o.answer}, true
		}
	}
	if c.chance == nil {
		return blow{}, false
	}
	return c.chance.draw(q)
}

func (c *control) countRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
}

// Inject has the next n requests of that target meet the fault. Orders add up. A
// late or slow one takes no time.
func (c *control) Inject(f Fault, target Target, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, &order{fault: f, target: target, left: n})
}

// Always is as many requests as there may be, for Inject and Answer.
const Always = 1 << 30

// Answer has the next n requests of that target answered so, and not forwarded.
func (c *control) Answer(a Answer, target Target, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, &order{fault: Answered, target: target, left: n, answer: &a})
}

// LoseAnswers applies the next n writes of the document and breaks their
// connections instead of answering.
func (c *control) LoseAnswers(n int) { c.Inject(LoseAnswer, Document, n) }

// HoldNext makes the next request of that target a late one.
func (c *control) HoldNext(target Target) *Held {
	h := newHeld(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = h
	return h
}

// SetDown makes the store answer 503 to everything, or not any more.
func (c *control) SetDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Revoke makes the store refuse requests with these access keys of S3, and no others. Behave does not end it.
func (c *control) Revoke(keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoked = keys
}

// SetSlow makes everything take longer by d.
func (c *control) SetSlow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = d
}

// setHanging begins or ends a state in which requests are accepted and not answered.
func (c *control) setHanging(hanging bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case hanging && c.away == nil:
		c.away = make(chan struct{})
	case !hanging && c.away != nil:
		close(c.away)
		c.away = nil
	}
}

// Misbehave lets a random fault hit each request with probability p. Behave ends it.
func (c *control) Misbehave(seed uint64, p float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chance = newChance(seed, p)
}

// behave is Behave without the case of a closed address.
func (c *control) behave() {
	c.setHanging(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders, c.hold, c.chance, c.down, c.slow = nil, nil, nil, false, 0
}

// Hits is how often each fault has happened.
func (c *control) Hits() map[Fault]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.hits)
}

// Writes returns the number of writes that have arrived, of any object.
func (c *control) Writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// Refused returns the number of writes of the document that the store refused by their
// condition.
func (c *control) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
