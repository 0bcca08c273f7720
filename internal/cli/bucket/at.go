package bucket

import (
	"fmt"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/internal/cli/units"
	"osqueue/storage/archive"
)

// atFlag is a flag whose value is a point in the history of a queue.
type atFlag struct {
	target archive.Target
	text   string // as it was given; "": the newest state
}

const atHelp = "an earlier state: an LSN (12-90210), a time (2026-12-24T18:00:00Z, '2026-12-24 18:00' local time), or a span ago (15m)"

// String implements pflag.Value.
func (f *atFlag) String() string { return f.text }

// Set implements pflag.Value.
func (f *atFlag) Set(text string) error {
	target, err := parseAt(text, time.Now())
	f.target, f.text = target, text
	return err
}

// Type implements pflag.Value.
func (*atFlag) Type() string { return "LSN|time" }

// newest reports whether the flag selects the newest state.
func (f *atFlag) newest() bool { return f.target == archive.Target{} }

func parseAt(text string, now time.Time) (archive.Target, error) {
	if lsn, err := fsm.ParseLSN(text); err == nil && !lsn.IsZero() {
		return archive.Target{LSN: lsn}, nil
	}
	at, err := units.ParseTime(strings.TrimPrefix(text, "-"), true, now)
	if err != nil {
		return archive.Target{}, fmt.Errorf("%q is neither an LSN nor a time: "+
			"write it as in 12-90210, 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time) or 15m (ago)", text)
	}
	if at.After(now) {
		return archive.Target{}, fmt.Errorf("%s has yet to come: there is no state of that time", at.Format(time.RFC3339))
	}
	return archive.Target{Time: at}, nil
}
