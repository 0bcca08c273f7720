package view

import (
	"fmt"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
)

// HookColumns is the header of a table of hooks.
var HookColumns = Columns("NAME", "ON", "+URL", "STATE", "PENDING", "DELIVERED", "FAILED", "DROPPED")

// HookRow returns the cells of h under HookColumns.
func HookRow(h v1.Hook) []string {
	return []string{
		h.Name, shortList(h.On), h.URL, HookState(h), strconv.Itoa(h.Pending),
		strconv.FormatUint(h.Delivered, 10), strconv.FormatUint(h.Failed, 10), strconv.FormatUint(h.Dropped, 10),
	}
}

// shortList returns the first items of a list, and the number of the others.
func shortList(items []string) string {
	const most = 2
	if len(items) <= most {
		return strings.Join(items, ",")
	}
	return fmt.Sprintf("%s +%d", strings.Join(items[:most], ","), len(items)-most)
}

// HookState describes a hook in a few words.
func HookState(h v1.Hook) string {
	switch {
	case h.Paused:
		return "paused"
	case h.FailingSince != 0:
		return "failing"
	case len(h.Alerts) > 0:
		return strconv.Itoa(len(h.Alerts)) + " alerts"
	case h.DeliveredAt == 0:
		return "none delivered"
	}
	return "ok"
}
