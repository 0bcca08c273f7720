package units

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
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

// Span is a length of time in flags and in the worker's file; 0 is none.
type Span time.Duration

// SpanVar binds a flag whose value is a length of time.
func SpanVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, help string) {
	*to = value
	flags.Var((*Span)(to), name, help)
}

// String implements pflag.Value.
func (s *Span) String() string {
	if *s == 0 {
		return ""
	}
	return SpanText(time.Duration(*s))
}

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	d, err := ParseSpan(text)
	*s = Span(d)
	return err
}

// Type implements pflag.Value.
func (*Span) Type() string { return "duration" }

// Ms is a flag whose value is a length of time, in the milliseconds of the wire.
type Ms int64

// String implements pflag.Value.
func (m *Ms) String() string { return MsText(int64(*m)) }

// Set implements pflag.Value.
func (m *Ms) Set(text string) error {
	d, err := ParseSpan(text)
	*m = Ms(d.Milliseconds())
	return err
}

// Type implements pflag.Value.
func (*Ms) Type() string { return "duration" }

// UnmarshalYAML accepts lengths of time in the notation of flags.
func (s *Span) UnmarshalYAML(node *yaml.Node) error { return atLine(node, s.Set(node.Value)) }

// atLine adds the line of the file to the error of a value.
func atLine(node *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", node.Line, err)}}
}

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
