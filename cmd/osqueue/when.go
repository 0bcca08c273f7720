package main

import (
	"fmt"
	"strings"
	"time"
)

// timeLayouts lists the accepted notations of a point in time. Layouts without a zone
// are local time.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// timeFlag is a flag whose value is a point in time. A duration counts from now:
// forwards, or backwards if past is set.
type timeFlag struct {
	past bool
	at   time.Time
	text string
}

// String implements pflag.Value.
func (f *timeFlag) String() string { return f.text }

// Set implements pflag.Value.
func (f *timeFlag) Set(text string) error {
	at, err := parseTime(text, f.past, time.Now())
	f.at, f.text = at, text
	return err
}

// Type implements pflag.Value.
func (*timeFlag) Type() string { return "time" }

func parseTime(text string, past bool, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	span, err := parseSpan(text)
	if err != nil || strings.TrimSpace(text) == "" {
		direction := "from now"
		if past {
			direction = "ago"
		}
		return time.Time{}, fmt.Errorf("%q is no time: write it as in 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time) or 90m (%s)", text, direction)
	}
	if past {
		return now.Add(-span), nil
	}
	return now.Add(span), nil
}

// localTime formats a time of the wire in the local zone. It returns "-" if there is
// none.
func localTime(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Local().Format("2006-01-02 15:04:05 MST")
}

// agoText formats the time since a time of the wire. It returns "-" if there is none.
func agoText(ms int64, now time.Time) string {
	if ms == 0 {
		return "-"
	}
	return short(max(now.Sub(time.UnixMilli(ms)), 0))
}

// clockTime is a time of the wire for people; "-" if there is none.
func clockTime(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000 MST")
}
