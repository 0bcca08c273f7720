package bucket

import (
	"time"

	"osqueue/cmd/osqueue/units"
	"osqueue/fsm"
	"osqueue/storage/archive"
)

// atFlag is a flag whose value is a point in the history of a queue.
type atFlag struct {
	target archive.Target
	text   string // as it was given; "": the newest state
}

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
	at, err := units.ParsePast(text, now)
	return archive.Target{Time: at}, err
}
