package view

import (
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

// WorkerColumns is the header of a table of workers.
var WorkerColumns = Columns("NAME", "RUNNING", "SEEN", "SINCE", "+VERSION", "+ADDRESS", "TYPES")

// WorkerRow returns the cells of w under WorkerColumns.
func WorkerRow(w v1.Worker, now time.Time) []string {
	return []string{
		w.Name, strconv.Itoa(w.Running), units.AgoText(w.LastSeen, now) + " ago", units.AgoText(w.RegisteredAt, now),
		OrDash(w.Version), OrDash(w.Address), typesText(w.Types),
	}
}

// typesText formats the types of a worker; an empty list means all.
func typesText(types []string) string {
	if len(types) == 0 {
		return "any"
	}
	return Clip(strings.Join(types, ","))
}
