// Package limit bounds what clients can take of a process.
//
// # Slots
//
// Slots bounds what many clients want, such as open streams: in total, and for each client, so that
// one client cannot take all of them. A client is named by a text, such as the id of its token or
// its address. The memory is bounded by the total. A slot is refused, never waited for: a queue of
// waiting clients would need a bound of its own.
//
// # Bytes
//
// Budget bounds the bytes of request bodies and answers that are in memory at one time. All
// handlers of a process share one. A request takes bytes as its body arrives: a head that announces
// a large body takes none. A request that does not fit is refused at once, so that no request waits
// for others while it holds bytes itself.
//
// # Handshakes
//
// A handshake of TLS costs its client little and this process a signature and a key exchange, before
// the client has proved anything. Many at once take the processor from the goroutines of raft, and
// the leader loses its term. So a connection needs a slot while it works on a handshake: from the
// arrival of bytes until it writes its answer, or reads on. It has none while it waits for its
// client, so a client that sends nothing delays no other. All ports of the process share the slots.
//
// # Texts
//
// Texts of requests, documents and errors are shortened before an answer, an error or a log line
// repeats them, and logs that repeat a line are thinned out.
package limit

import (
	"errors"
	"reflect"
	"sync"
)

// The reasons of a refusal.
var (
	ErrTotal  = errors.New("all slots are in use")
	ErrClient = errors.New("the client uses its share of the slots")
)

// Slots bounds the slots of one kind. It is safe for concurrent use.
type Slots struct {
	total, each int

	mu    sync.Mutex
	taken int
	by    map[string]int // slots by client
}

// NewSlots returns total slots, of which one client gets at most each. If each is not
// positive, a client gets at most half of them.
func NewSlots(total, each int) *Slots {
	if each <= 0 {
		each = Half(total)
	}
	return &Slots{total: total, each: min(each, total), by: make(map[string]int)}
}

// Half returns the default share of one client.
func Half(total int) int { return max(total/2, 1) }

// Each returns the share of one client.
func (l *Slots) Each() int { return l.each }

// Total returns the number of slots.
func (l *Slots) Total() int { return l.total }

// Taken returns the number of slots that are taken.
func (l *Slots) Taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// Enter takes a slot for a client, until Leave. It returns ErrTotal or ErrClient
// if there is none.
func (l *Slots) Enter(client string) error { return l.EnterMany(client, 1) }

// EnterMany takes n slots for a client, until LeaveMany, or none of them: it returns ErrTotal or
// ErrClient if there are not so many.
func (l *Slots) EnterMany(client string, n int) error {
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

// Leave frees a slot that Enter took for the client.
func (l *Slots) Leave(client string) { l.LeaveMany(client, 1) }

// LeaveMany frees n slots that EnterMany took for the client.
func (l *Slots) LeaveMany(client string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken -= n
	if l.by[client] -= n; l.by[client] <= 0 {
		delete(l.by, client)
	}
}

// Defaults returns a configuration with the fields of otherwise in place of those that are zero, empty lists, or negative
// numbers.
func Defaults[T any](given, otherwise T) T {
	v, d := reflect.ValueOf(&given).Elem(), reflect.ValueOf(otherwise)
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() && (f.IsZero() || f.CanInt() && f.Int() < 0 || f.Kind() == reflect.Slice && f.Len() == 0) {
			f.Set(d.Field(i))
		}
	}
	return given
}
