package units

import (
	"fmt"
	"strings"
	"time"
)

// timeLayouts lists the accepted notations of a point in time. Layouts without a zone
// are local time.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// Time is a flag whose value is a point in time. A duration counts from now:
// forwards, or backwards if past is set.
type Time struct {
	Past bool      // set by the owner of the flag
	At   time.Time // the value
	Text string    // as it was given; "": the flag was not given
}

// String implements pflag.Value.
func (f *Time) String() string { return f.Text }

// Set implements pflag.Value.
func (f *Time) Set(text string) error {
	at, err := ParseTime(text, f.Past, time.Now())
	f.At, f.Text = at, text
	return err
}

// Type implements pflag.Value.
func (*Time) Type() string { return "time" }

// ParseTime reads a point in time: a time of RFC 3339, a local time of timeLayouts, or a
// length of time from now on, or before now if past is set.
func ParseTime(text string, past bool, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	span, err := ParseSpan(text)
	if err != nil || strings.TrimSpace(text) == "" {
		direction := "from now"
		if past {
			direction = "ago"
		}
		return time.Time{}, fmt.Errorf("%q is not a time: write it as in 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time) or 90m (%s)", text, direction)
	}
	if past {
		return now.Add(-span), nil
	}
	return now.Add(span), nil
}

// AtHelp describes the values of a flag that selects an earlier state.
const AtHelp = "an LSN (12-90210), a time (2026-12-24T18:00:00Z, '2026-12-24 18:00' local time), or a duration before now (15m)"

// ParsePast reads the time of an earlier state, of which the caller has found that it is not
// an LSN.
func ParsePast(text string, now time.Time) (time.Time, error) {
	at, err := ParseTime(strings.TrimPrefix(text, "-"), true, now)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%q is neither an LSN nor a time: "+
			"write it as in 12-90210, 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time) or 15m (ago)", text)
	case at.After(now):
		return time.Time{}, fmt.Errorf("%s is in the future", at.Format(time.RFC3339))
	}
	return at, nil
}

// LocalTime formats a time of the wire in the local zone. It returns "-" if there is
// none.
func LocalTime(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Local().Format("2006-01-02 15:04:05 MST")
}

// AgoText formats the time since a time of the wire. It returns "-" if there is none.
func AgoText(ms int64, now time.Time) string {
	if ms == 0 {
		return "-"
	}
	return Short(max(now.Sub(time.UnixMilli(ms)), 0))
}

// ClockTime formats a time of the wire in UTC, to the millisecond. It returns "-" if
// there is none.
func ClockTime(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000 MST")
}
