package cluster

import (
	"sync"
	"time"
)

const (
	// repeatEvery is how often a line is logged that says the same as before.
	repeatEvery = time.Minute
	// repeatKeys bounds how many different lines are remembered.
	repeatKeys = 256
)

// repeats decides which lines of a log say the same again. Concurrent use is safe.
type repeats struct {
	mu   sync.Mutex
	seen map[string]*repeated
}

// repeated is one line.
type repeated struct {
	logged  time.Time // when it was logged last
	skipped int       // how often it was not logged since then
}

// due reports whether the line is to be logged now: it is new, or its last time is
// repeatEvery ago. skipped is how often it was not logged since.
func (r *repeats) due(line string) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if l := r.seen[line]; l != nil {
		if now.Sub(l.logged) < repeatEvery {
			l.skipped++
			return 0, false
		}
		skipped, l.skipped, l.logged = l.skipped, 0, now
		return skipped, true
	}
	if r.seen == nil || len(r.seen) >= repeatKeys {
		r.seen = make(map[string]*repeated)
	}
	r.seen[line] = &repeated{logged: now}
	return 0, true
}
