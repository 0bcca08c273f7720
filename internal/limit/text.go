package limit

import (
	"sync"
	"time"
	"unicode/utf8"
)

// Clip returns the beginning of s, at most n bytes. It ends with a whole character, so that
// valid UTF-8 stays valid.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// ClipMarked is Clip with an ellipsis after a text that was shortened.
func ClipMarked(s string, n int) string {
	if short := Clip(s, n); len(short) < len(s) {
		return short + "…"
	}
	return s
}

const (
	// every is how often a repeated line is logged.
	every = time.Minute
	// keys bounds how many different lines are remembered.
	keys = 256
)

// Repeats detects repeated lines of a log. The zero Repeats is ready. It is safe for
// concurrent use.
type Repeats struct {
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
func (r *Repeats) Due(line string) (skipped int, ok bool) {
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
