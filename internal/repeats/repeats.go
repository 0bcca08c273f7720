// Package repeats detects repeated lines of a log.
package repeats

import (
	"sync"
	"time"
)

const (
	// every is how often a repeated line is logged.
	every = time.Minute
	// keys bounds how many different lines are remembered.
	keys = 256
)

// Filter detects repeated lines of a log. The zero Filter is ready. It is safe for
// concurrent use.
type Filter struct {
	mu   sync.Mutex
	seen map[string]*repeated
}

// repeated is the record of one line.
type repeated struct {
	logged  time.Time // time when it was logged last
	skipped int       // number of repetitions that were not logged since
}

// Due reports whether a line is to be logged now: it is new, or was logged every
// ago or earlier. skipped is the number of its repetitions that were not logged since.
func (r *Filter) Due(line string) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if l := r.seen[line]; l != nil {
		if now.Sub(l.logged) < every {
			l.skipped++
			return 0, false
		}
		skipped, l.skipped, l.logged = l.skipped, 0, now
		return skipped, true
	}
	if r.seen == nil || len(r.seen) >= keys {
		r.seen = make(map[string]*repeated)
	}
	r.seen[line] = &repeated{logged: now}
	return 0, true
}
