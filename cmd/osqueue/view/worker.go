package view

import (
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
)

// WorkerColumns is the header of a table of workers.
var WorkerColumns = Columns("NAME", "STATE", "RUNNING", "SEEN", "SINCE", "+VERSION", "+ADDRESS", "TYPES")

// WorkerRow returns the cells of w under WorkerColumns.
func WorkerRow(w v1.Worker, now time.Time) []string {
	return []string{
		w.Name, WorkerState(w), RunningText(w), units.AgoText(w.LastSeen, now) + " ago", units.AgoText(w.RegisteredAt, now),
		OrDash(w.Version), OrDash(w.Address), typesText(w.Types),
	}
}

// WorkerState says in a word whether a worker gets jobs.
func WorkerState(w v1.Worker) string {
	switch {
	case w.GoneAt != 0:
		return "gone, quiet"
	case w.QuietSince != 0:
		return "quiet"
	}
	return "active"
}

// RunningText returns the running jobs of a worker, with its capacity if it said one.
func RunningText(w v1.Worker) string {
	if w.Capacity == 0 {
		return strconv.Itoa(w.Running)
	}
	return strconv.Itoa(w.Running) + "/" + strconv.Itoa(int(w.Capacity))
}

// typesText formats the types of a worker; an empty list means all.
func typesText(types []string) string {
	if len(types) == 0 {
		return "any"
	}
	return Clip(strings.Join(types, ","))
}
