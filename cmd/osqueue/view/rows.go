package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
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
		strconv.FormatUint(b.Dead, 10), strconv.FormatUint(b.Cancelled, 10), CallbackState(b), AgoText(b.CreatedAt, now),
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

// CronColumns is the header of a table of schedules.
var CronColumns = Columns("NAME", "SPEC", "+ZONE", "TYPE", "NEXT", "+LAST", "FIRED", "+SKIPPED")

// CronRow returns the cells of c under CronColumns.
func CronRow(c v1.Cron, _ time.Time) []string {
	return []string{
		c.Name, c.Spec, cmp.Or(c.TimeZone, "UTC"), OrDash(c.Job.Type), NextText(c.Paused, c.NextAt), LocalTime(c.LastAt),
		strconv.FormatUint(c.Fired, 10), strconv.FormatUint(c.Skipped, 10),
	}
}

// NextText formats the next time of a schedule, in ms; 0 is never.
func NextText(paused bool, next int64) string {
	switch {
	case paused:
		return "paused"
	case next == 0:
		return "never"
	}
	return LocalTime(next)
}

// HookColumns is the header of a table of hooks.
var HookColumns = Columns("NAME", "ON", "+URL", "STATE", "PENDING", "DELIVERED", "FAILED", "DROPPED")

// HookRow returns the cells of h under HookColumns.
func HookRow(h v1.Hook, _ time.Time) []string {
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

// WorkerColumns is the header of a table of workers.
var WorkerColumns = Columns("NAME", "STATE", "RUNNING", "SEEN", "SINCE", "+VERSION", "+ADDRESS", "TYPES")

// WorkerRow returns the cells of w under WorkerColumns.
func WorkerRow(w v1.Worker, now time.Time) []string {
	return []string{
		w.Name, WorkerState(w), RunningText(w), AgoText(w.LastSeen, now) + " ago", AgoText(w.RegisteredAt, now),
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

// SettingRows returns the settings that differ from the default, by the names of their
// flags.
func SettingRows(s v1.QueueSettings) [][]string {
	paused := ""
	if s.Paused {
		paused = "yes"
	}
	return NonEmptyRows(
		[]string{"paused", paused},
		[]string{"limit", RuleText(s.MaxRunning, s.RatePerSecond, s.Burst)},
		[]string{"group limit", RuleText(s.MaxRunningPerGroup, 0, 0)},
		[]string{"aging", MsOrNone(s.AgingMs)},
		[]string{"lease", MsOrNone(s.LeaseMs)},
		[]string{"job-timeout", MsOrNone(s.TimeoutMs)},
		[]string{"max-attempts", pointed(s.MaxAttempts, countOf)},
		[]string{"backoff", BackoffText(s.Backoff)},
		[]string{"retain", pointed(s.RetainMs, MsText)},
		[]string{"retain-count", pointed(s.RetainCount, countOf)},
		[]string{"retain-dead", pointed(s.RetainDeadMs, MsText)},
		[]string{"retain-dead-count", pointed(s.RetainDeadCount, countOf)},
		[]string{"max-jobs", CountOrNone(s.MaxJobs)},
		[]string{"max-bytes", orNone(s.MaxBytes, SizeText)},
		[]string{"max-payload", orNone(s.MaxPayload, SizeText)},
	)
}

// PauseText describes the pause of a type in a few words; p may be nil.
func PauseText(p *v1.Pause) string {
	if p == nil || p.Until == 0 {
		return pauseText(p, "paused")
	}
	return pauseText(p, "paused until "+LocalTime(p.Until))
}

// PauseCell is PauseText for a narrow cell: the end of the pause is the time until then.
func PauseCell(p *v1.Pause, now time.Time) string {
	if p == nil || p.Until == 0 {
		return pauseText(p, "paused")
	}
	return pauseText(p, "paused for "+SpanText(max(time.UnixMilli(p.Until).Sub(now).Round(time.Minute), time.Minute)))
}

func pauseText(p *v1.Pause, text string) string {
	if p == nil {
		return text
	}
	if p.Reason != "" {
		text += " (" + PlainLine(p.Reason) + ")"
	}
	return text
}

// PauseRows returns what is known of the pause of a type; p may be nil.
func PauseRows(p *v1.Pause) [][]string {
	if p == nil {
		return nil
	}
	until := ""
	if p.Until != 0 {
		until = LocalTime(p.Until)
	}
	return NonEmptyRows(
		[]string{"paused since", LocalTime(p.Since)},
		[]string{"paused until", until},
		[]string{"paused by", p.By},
		[]string{"reason", p.Reason},
	)
}

func countOf(n int64) string { return strconv.FormatInt(n, 10) }

// CountOrNone formats a number; 0 is "".
func CountOrNone(n int64) string { return orNone(n, countOf) }

// MsOrNone formats a number of milliseconds; 0 is "".
func MsOrNone(ms int64) string { return orNone(ms, MsText) }

func orNone(n int64, text func(int64) string) string {
	if n == 0 {
		return ""
	}
	return text(n)
}

func pointed(n *int64, text func(int64) string) string {
	if n == nil {
		return ""
	}
	return text(*n)
}

// ShowStats prints the figures of the whole queue and of each type.
func ShowStats(g *Globals, s v1.Stats) error {
	if g.JSON {
		return g.WriteJSON(s)
	}
	all := v1.TypeStats{
		Scheduled: s.Scheduled, Unclaimed: s.Unclaimed, InProgress: s.InProgress, Completed: s.Completed,
		Dead: s.Dead, Cancelled: s.Cancelled, Blocked: s.Blocked, Expired: s.Expired, Bytes: s.Bytes,
	}
	columns := Columns("TYPE", "AVAILABLE", "RUNNING", "SCHEDULED", "BLOCKED", "COMPLETED", "DEAD", "+CANCELLED", "+EXPIRED", "+BYTES")
	var rows [][]string
	for _, kind := range slices.Sorted(maps.Keys(s.Types)) {
		rows = append(rows, statsRow(OrDash(PlainLine(kind)), s.Types[kind]))
	}
	rows = append(rows, statsRow("(all)", all))
	if err := g.TableOf(columns, rows); err != nil {
		return err
	}
	stuck := ""
	if s.Stuck > 0 {
		stuck = fmt.Sprintf("stuck: %d (blocked by a job or batch that has failed)\n", s.Stuck)
	}
	return g.Printf("in all: %d completed, %d dead, %d cancelled; %s\n%s",
		s.CompletedTotal, s.DeadTotal, s.CancelledTotal, Plural(s.Workers, "worker"), stuck)
}

func statsRow(name string, t v1.TypeStats) []string {
	row := []string{name}
	for _, n := range []int{t.Unclaimed, t.InProgress, t.Scheduled, t.Blocked, t.Completed, t.Dead, t.Cancelled, t.Expired} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, SizeText(t.Bytes))
}
