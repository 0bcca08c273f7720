package view

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// longUnit is a number of weeks or days, which Go's notation does not have.
var longUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([wd])`)

// Day is 24 hours.
const Day = 24 * time.Hour

// ParseSpan reads a length of time: Go's notation, with weeks and days before it, as in
// 7d, 1w or 1d12h.
func ParseSpan(text string) (time.Duration, error) {
	var long time.Duration
	rest := text
	for m := longUnit.FindStringSubmatch(rest); m != nil; m = longUnit.FindStringSubmatch(rest) {
		unit := Day
		if m[2] == "w" {
			unit = 7 * Day
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n*float64(unit)+float64(long) > float64(maxSpanDays*Day) {
			return 0, fmt.Errorf("%q: must be at most %dd", text, maxSpanDays)
		}
		long += time.Duration(n * float64(unit))
		rest = rest[len(m[0]):]
	}
	if rest == "" && text != "" {
		return long, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write it as in 500ms, 90s, 1h30m, 1d or 1w", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q: must not be negative", text)
	}
	if long > 0 && d > maxSpanDays*Day {
		return 0, fmt.Errorf("%q: must be at most %dd", text, maxSpanDays)
	}
	return long + d, nil
}

const maxSpanDays = 36_500

// SpanText formats d in the notation of ParseSpan, without parts that are 0.
func SpanText(d time.Duration) string {
	if d >= 2*Day && d%Day == 0 {
		return fmt.Sprintf("%dd", d/Day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MsText formats milliseconds of the wire in the notation of ParseSpan.
func MsText(ms int64) string { return SpanText(FromMs(ms)) }

// Short formats a duration with about three figures.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// FromMs converts milliseconds of the wire.
func FromMs(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// timeLayouts lists the accepted notations of a point in time. Layouts without a zone
// are local time.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

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

// sizeUnits are the units of sizes, longest name first.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// ParseSize parses a number of bytes, such as 4096, 64KiB or 1.5GB.
func ParseSize(text string) (int64, error) {
	number, factor := text, 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	size := n * factor
	if err != nil || math.IsNaN(size) || size < 0 || size > 1<<60 {
		return 0, fmt.Errorf("%q is not a size: write it as in 4096, 64KiB, 10MiB or 1GiB", text)
	}
	return int64(size), nil
}

// BytesText formats a size with its unit, for a sentence.
func BytesText(n int64) string {
	text := SizeText(n)
	if n < 1024 {
		text += " B"
	}
	return text
}

// SizeText formats a size with about three digits, in the notation of ParseSize.
func SizeText(n int64) string {
	for _, u := range sizeUnits[:4] {
		if v := float64(n) / u.bytes; v >= 1 {
			return strconv.FormatFloat(v, 'f', decimals(v), 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func decimals(v float64) int {
	if v < 10 && v != math.Trunc(v) {
		return 1
	}
	return 0
}
