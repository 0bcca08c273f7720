package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseSpan reads a length of time: Go's notation, and days, as in 7d.
func parseSpan(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseFloat(number, 64)
		if err != nil || days < 0 || days > maxSpanDays {
			return 0, fmt.Errorf("%q: write days as in 7d, at most %d", text, maxSpanDays)
		}
		return time.Duration(days * float64(24*time.Hour)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no length of time: write it as in 500ms, 90s, 1h30m or 7d", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q: must not be negative", text)
	}
	return d, nil
}

const maxSpanDays = 36_500

// spanText is d in the notation that parseSpan reads, without parts that are 0.
func spanText(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
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

func msText(ms int64) string { return spanText(msToDuration(ms)) }

// spanFlag is a flag whose value is a length of time; 0 is none.
type spanFlag time.Duration

// String implements pflag.Value.
func (s *spanFlag) String() string {
	if *s == 0 {
		return ""
	}
	return spanText(time.Duration(*s))
}

// Set implements pflag.Value.
func (s *spanFlag) Set(text string) error {
	d, err := parseSpan(text)
	*s = spanFlag(d)
	return err
}

// Type implements pflag.Value.
func (*spanFlag) Type() string { return "duration" }
