// Package share bounds places that many clients want, such as open streams: in total, and for
// each client, so that one client cannot take all of them.
//
// A client is named by a text, such as the id of its token or its address. The memory is bounded by
// the total. A place is refused, never waited for: a queue of waiting clients would need a bound
// of its own.
package share

import (
	"errors"
	"sync"
)

// The reasons of a refusal.
var (
	ErrTotal  = errors.New("all slots are in use")
	ErrClient = errors.New("the client uses its share of the slots")
)

// Limit bounds the places of one kind. It is safe for concurrent use.
type Limit struct {
	total, each int

	mu    sync.Mutex
	taken int
	by    map[string]int // places by client
}

// New returns a limit of total places, of which one client gets at most each. If each is not
// positive, a client gets at most half of them.
func New(total, each int) *Limit {
	if each <= 0 {
		each = Half(total)
	}
	return &Limit{total: total, each: min(each, total), by: make(map[string]int)}
}

// Half returns the default share of one client.
func Half(total int) int { return max(total/2, 1) }

// Each returns the share of one client.
func (l *Limit) Each() int { return l.each }

// Total returns the number of places.
func (l *Limit) Total() int { return l.total }

// Taken returns the number of places that are taken.
func (l *Limit) Taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// Enter takes a place for a client, until Leave. It returns ErrTotal or ErrClient
// if there is none.
func (l *Limit) Enter(client string) error { return l.EnterMany(client, 1) }

// EnterMany takes n places for a client, until LeaveMany, or none of them: it returns ErrTotal or
// ErrClient if there are not so many.
func (l *Limit) EnterMany(client string, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case n > l.total-l.taken:
		return ErrTotal
	case n > l.each-l.by[client]:
		return ErrClient
	}
	l.taken += n
	l.by[client] += n
	return nil
}

// Leave frees a place that Enter took for the client.
func (l *Limit) Leave(client string) { l.LeaveMany(client, 1) }

// LeaveMany frees n places that EnterMany took for the client.
func (l *Limit) LeaveMany(client string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken -= n
	if l.by[client] -= n; l.by[client] <= 0 {
		delete(l.by, client)
	}
}
