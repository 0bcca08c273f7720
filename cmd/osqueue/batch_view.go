package main

import (
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

func batchState(b v1.BatchInfo) string {
	if b.EndedAt == 0 {
		return "open"
	}
	return "ended"
}

var batchColumns = []string{"ID", "STATE", "JOBS", "PENDING", "COMPLETED", "DEAD", "CANCELLED", "CALLBACK", "AGE"}

func batchRow(b v1.BatchInfo, now time.Time) []string {
	return []string{
		b.ID, batchState(b), strconv.FormatUint(b.Total, 10), strconv.FormatUint(b.Pending, 10), strconv.FormatUint(b.Completed, 10),
		strconv.FormatUint(b.Dead, 10), strconv.FormatUint(b.Cancelled, 10), callbackState(b), units.AgoText(b.CreatedAt, now),
	}
}

func callbackState(b v1.BatchInfo) string {
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
