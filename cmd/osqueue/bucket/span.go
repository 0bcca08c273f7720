package bucket

import (
	"fmt"
	"strings"
	"time"

	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage/archive"
)

// storedSpan is a range of states without a gap.
type storedSpan struct {
	From  string `json:"from"` // LSNs, both included
	To    string `json:"to"`
	Since int64  `json:"since"` // the queue's clock at these, ms
	Until int64  `json:"until"`
}

func spanOf(s archive.Span) storedSpan {
	return storedSpan{s.From.String(), s.To.String(), s.Since.UnixMilli(), s.Until.UnixMilli()}
}

func (s storedSpan) row() []string {
	length := "-"
	if s.Since > 0 {
		length = view.Short(view.FromMs(s.Until - s.Since))
	}
	return []string{s.From, s.To, beginningOr(s.Since), view.LocalTime(s.Until), length}
}

// text formats a span on one line.
func (s storedSpan) text() string {
	if s.From == s.To {
		return fmt.Sprintf("%s (%s)", s.From, beginningOr(s.Since))
	}
	return fmt.Sprintf("%s (%s) up to %s (%s)", s.From, beginningOr(s.Since), s.To, view.LocalTime(s.Until))
}

// beginningOr is a time of a queue, which has none before its first entry.
func beginningOr(ms int64) string {
	if ms == 0 {
		return "the beginning"
	}
	return view.LocalTime(ms)
}

// spansMost is the number of ranges that an error names.
const spansMost = 6

// spansText lists the states that can be restored.
func spansText(spans []archive.Span) string {
	if len(spans) == 0 {
		return "it has no state that can be restored"
	}
	var b strings.Builder
	b.WriteString("states that can be restored:")
	first := max(0, len(spans)-spansMost)
	if first > 0 {
		fmt.Fprintf(&b, " %d ranges, the last of which are", len(spans))
	}
	for _, s := range spans[first:] {
		since := "the beginning"
		if s.Since.UnixMilli() != 0 {
			since = s.Since.Format(time.RFC3339) // as --at takes it
		}
		fmt.Fprintf(&b, "\n  %s (%s)", s.From, since)
		if s.To != s.From {
			fmt.Fprintf(&b, " up to %s (%s)", s.To, s.Until.Format(time.RFC3339))
		}
	}
	return b.String()
}

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
	at, err := view.ParsePast(text, now)
	return archive.Target{Time: at}, err
}
