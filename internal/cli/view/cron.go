package view

import (
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

var CronColumns = []string{"NAME", "SPEC", "ZONE", "TYPE", "NEXT", "LAST", "FIRED", "SKIPPED"}

func CronRow(c v1.Cron) []string {
	return []string{
		c.Name, c.Spec, ZoneText(c.TimeZone), OrDash(c.Job.Type), NextText(c.Paused, c.NextAt), units.LocalTime(c.LastAt),
		strconv.FormatUint(c.Fired, 10), strconv.FormatUint(c.Skipped, 10),
	}
}

func ZoneText(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

func NextText(paused bool, next int64) string {
	switch {
	case paused:
		return "paused"
	case next == 0:
		return "never"
	}
	return units.LocalTime(next)
}
