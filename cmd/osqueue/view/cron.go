package view

import (
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
)

// CronColumns is the header of a table of schedules.
var CronColumns = Columns("NAME", "SPEC", "+ZONE", "TYPE", "NEXT", "+LAST", "FIRED", "+SKIPPED")

// CronRow returns the cells of c under CronColumns.
func CronRow(c v1.Cron) []string {
	return []string{
		c.Name, c.Spec, ZoneText(c.TimeZone), OrDash(c.Job.Type), NextText(c.Paused, c.NextAt), units.LocalTime(c.LastAt),
		strconv.FormatUint(c.Fired, 10), strconv.FormatUint(c.Skipped, 10),
	}
}

// ZoneText returns the name of a time zone; "" is UTC.
func ZoneText(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// NextText formats the next time of a schedule, in ms; 0 is never.
func NextText(paused bool, next int64) string {
	switch {
	case paused:
		return "paused"
	case next == 0:
		return "never"
	}
	return units.LocalTime(next)
}
