package view

import (
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
)

// BatchState returns "open" or "ended".
func BatchState(b v1.BatchInfo) string {
	if b.EndedAt == 0 {
		return "open"
	}
	return "ended"
}

// BatchColumns is the header of a table of batches.
var BatchColumns = Columns("ID", "STATE", "JOBS", "PENDING", "+COMPLETED", "DEAD", "+CANCELLED", "+CALLBACK", "AGE")

// BatchRow returns the cells of b under BatchColumns.
func BatchRow(b v1.BatchInfo, now time.Time) []string {
	return []string{
		b.ID, BatchState(b), strconv.FormatUint(b.Total, 10), strconv.FormatUint(b.Pending, 10), strconv.FormatUint(b.Completed, 10),
		strconv.FormatUint(b.Dead, 10), strconv.FormatUint(b.Cancelled, 10), CallbackState(b), units.AgoText(b.CreatedAt, now),
	}
}

// CallbackState describes the callback of b; "-" if it has none.
func CallbackState(b v1.BatchInfo) string {
	switch {
	case b.CallbackID == "":
		return "-"
	case b.Called:
		return "called"
	case b.EndedAt != 0:
		return "not called"
	}
	return "waits"
}
