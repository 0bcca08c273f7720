package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
