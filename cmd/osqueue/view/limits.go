package view

import (
	"cmp"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// LimitColumns is the header of a table of limits.
var LimitColumns = Columns("NAME", "LIMIT", "RULE OF", "RUNNING", "WAITING", "HELD UNTIL")

// LimitRow returns the cells of l under LimitColumns.
func LimitRow(l v1.LimitState, _ time.Time) []string {
	running, waiting := countOf(l.Running), countOf(l.Waiting)
	if strings.HasSuffix(l.Name, "*") || strings.HasPrefix(l.Name, "group:") { // a count of each key or group, not one
		running, waiting = "-", "-"
	}
	return []string{
		PlainLine(l.Name), OrDash(RuleText(l.MaxRunning, l.RatePerSecond, l.Burst)), OrDash(PlainLine(l.Pattern)), running, waiting, LocalTime(l.HeldUntil),
	}
}

// LimitRows has all fields of l.
func LimitRows(l v1.LimitState) [][]string {
	return append([][]string{
		{"name", l.Name},
		{"limit", cmp.Or(RuleText(l.MaxRunning, l.RatePerSecond, l.Burst), "none")},
	}, NonEmptyRows(
		[]string{"rule of", l.Pattern},
		[]string{"running", CountOrNone(l.Running)},
		[]string{"waiting", CountOrNone(l.Waiting)},
		[]string{"held until", ClockTime(l.HeldUntil)},
	)...)
}

// RuleText describes a rule in a few words; it returns "" for none.
func RuleText(running int64, rate float64, burst int64) string {
	var parts []string
	if running > 0 {
		parts = append(parts, "running "+countOf(running))
	}
	if rate > 0 {
		parts = append(parts, "rate "+RateText(rate))
	}
	if burst > 0 {
		parts = append(parts, "burst "+countOf(burst))
	}
	return strings.Join(parts, ", ")
}
