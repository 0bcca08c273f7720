package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lsnMark remembers the newest LSN of all answers. Its zero value has none. It is
// safe for concurrent use.
type lsnMark struct {
	mu          sync.Mutex
	term, index uint64
}

// note records the LSN of an answer. It ignores an invalid one, because the mark
// only makes reads wait.
func (m *lsnMark) note(text string) {
	term, index, ok := parseLSN(text)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if term > m.term || (term == m.term && index > m.index) {
		m.term, m.index = term, index
	}
}

// forget removes the mark, unless it is newer than text. The cluster does not know
// that LSN any more.
func (m *lsnMark) forget(text string) {
	term, index, ok := parseLSN(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok && m.term == term && m.index == index {
		m.term, m.index = 0, 0
	}
}

// String returns the mark in the wire format, or "" if there is none.
func (m *lsnMark) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term == 0 && m.index == 0 {
		return ""
	}
	return strconv.FormatUint(m.term, 10) + "-" + strconv.FormatUint(m.index, 10)
}

// parseLSN parses an LSN, which is written term-index.
func parseLSN(text string) (term, index uint64, ok bool) {
	left, right, found := strings.Cut(text, "-")
	if !found {
		return 0, 0, false
	}
	term, err1 := strconv.ParseUint(left, 10, 64)
	index, err2 := strconv.ParseUint(right, 10, 64)
	return term, index, err1 == nil && err2 == nil
}

// Moment selects an earlier state of the queue: the last one at a time, or the one at an
// LSN. The nodes rebuild it from the bucket, which keeps the states that Client.Past lists. The
// zero value is the present.
type Moment struct {
	Time time.Time
	LSN  string // as in 12-90210; if it is set, Time has no effect
}

// IsZero reports whether m is the present.
func (m Moment) IsZero() bool { return m == Moment{} }

// String returns m as the parameter "at" of the API has it.
func (m Moment) String() string {
	if m.LSN != "" {
		return m.LSN
	}
	return unixText(m.Time)
}

// ParseLSN returns the moment of an LSN.
func ParseLSN(text string) (Moment, error) {
	term, index, ok := parseLSN(strings.TrimSpace(text))
	if !ok || term == 0 && index == 0 {
		return Moment{}, fmt.Errorf("%q is not an LSN: write it as in 12-90210", text)
	}
	return Moment{LSN: strconv.FormatUint(term, 10) + "-" + strconv.FormatUint(index, 10)}, nil
}

// momentKey is the key of the Moment in a context.
type momentKey struct{}

// At returns a context in which the reads of a Client show the queue as it was at m: jobs,
// their graph and count, queues, schedules, workers, batches, figures and history. Any node
// answers. The first read of a moment may take seconds, while a node rebuilds the state. Other
// reads, and waits, fail in such a context; writes are not affected.
func At(ctx context.Context, m Moment) context.Context {
	return context.WithValue(ctx, momentKey{}, m)
}

// momentOf returns the moment of a context.
func momentOf(ctx context.Context) Moment {
	m, _ := ctx.Value(momentKey{}).(Moment)
	return m
}
