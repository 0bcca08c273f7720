package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// JobRows has all fields of j. noWorker adds that no worker takes its type.
func JobRows(j v1.Job, noWorker bool) [][]string {
	status := statusText(j)
	if noWorker {
		status += " (no worker takes this type)"
	}
	rows := [][]string{
		{"id", j.ID},
		{"type", OrDash(j.Type)},
		{"status", status},
		{"attempts", Attempts(j)},
		{"priority", strconv.Itoa(int(j.Priority))},
		{"created", ClockTime(j.CreatedAt)},
	}
	rows = append(rows, NonEmptyRows(
		[]string{"not before", ClockTime(j.RunAt)},
		[]string{"start before", ClockTime(j.StartBefore)},
		[]string{"claimed", ClockTime(j.ClaimedAt)},
		[]string{"heartbeat", ClockTime(j.Heartbeat)},
		[]string{"finished", ClockTime(j.FinishedAt)},
		[]string{"worker", WorkerName(j)},
		[]string{"progress", progressText(j.Progress)},
		[]string{"group", j.Group},
		[]string{"tags", strings.Join(j.Tags, " ")},
		[]string{"headers", headersText(j.Headers)},
		[]string{"unique", UniqueText(j)},
		[]string{"after", afterText(j)},
		[]string{"sequence", sequenceText(j)},
		[]string{"limits", strings.Join(j.Limits, " ")},
		[]string{"waits for", strings.Join(j.WaitsFor, " ")},
		[]string{"batch", j.BatchID},
		[]string{"step", j.Step},
		[]string{"cron", j.Cron},
		[]string{"cron time", ClockTime(j.CronAt)},
		[]string{"job timeout", MsOrNone(j.TimeoutMs)},
		[]string{"retain", MsOrNone(j.RetainMs)},
		[]string{"backoff", BackoffText(j.Backoff)},
		[]string{"on error", OnErrorText(j.OnError)},
		[]string{"revision", CountOrNone(j.Revision)},
		[]string{"payload", jsonText(j.Payload)},
		[]string{"result", jsonText(j.Result)},
		[]string{"artefacts", artefactsText(j.Artefacts)},
		[]string{"log", PlainOrSealed(j.Log)},
		[]string{"last error", PlainOrSealed(j.LastError)},
	)...)
	for _, a := range j.Actions {
		rows = append(rows, []string{strings.TrimPrefix(a.Kind, "job."), actionText(a)})
	}
	for _, p := range j.ProgressHistory {
		rows = append(rows, []string{"reported", fmt.Sprintf("%s  attempt %d  %s", ClockTime(p.At), p.Attempt,
			progressText(&v1.Progress{Percent: p.Percent, Message: p.Message}))})
	}
	for _, s := range j.Steps {
		rows = append(rows, []string{"stored", s.Name + "  " + jsonText(s.Value)})
	}
	for _, s := range j.Signals {
		rows = append(rows, []string{"signal", strings.TrimSpace(ClockTime(s.At) + "  " + s.Name + "  " + jsonText(s.Value))})
	}
	for _, a := range j.History {
		rows = append(rows, []string{fmt.Sprintf("attempt %d", a.Number), attemptText(a)})
	}
	return rows
}

// artefactsText lists artefacts with their sizes.
func artefactsText(all []v1.Artefact) string {
	lines := make([]string, len(all))
	for i, a := range all {
		lines[i] = fmt.Sprintf("%s (%s)", PlainLine(a.Name), BytesText(a.Size))
		if a.Sealed {
			lines[i] = fmt.Sprintf("%s (%s, encrypted)", PlainLine(a.Name), BytesText(a.Size))
		}
	}
	return strings.Join(lines, "\n")
}

func actionText(a v1.JobAction) string {
	if a.Actor == "" {
		return ClockTime(a.At)
	}
	return ClockTime(a.At) + "  by " + a.Actor
}

// statusText is a job's status, with what is about to change it.
func statusText(j v1.Job) string {
	if j.CancelAt != 0 && j.Status == v1.StatusInProgress {
		return v1.StatusWord(j.Status) + " (cancellation requested at " + ClockTime(j.CancelAt) + ")"
	}
	if j.Awaits != "" {
		return v1.StatusWord(j.Status) + " (waits for the signal " + j.Awaits + ")"
	}
	if j.WaitsForLimit != "" {
		return v1.StatusWord(j.Status) + " (waits for the limit " + j.WaitsForLimit + ")"
	}
	return v1.StatusWord(j.Status)
}

// jsonText returns a payload or a result for people.
func jsonText(raw json.RawMessage) string {
	if client.IsSealed(raw) {
		return sealedNote(len(raw))
	}
	return string(raw)
}

// PlainOrSealed returns a text of a worker for people, without space around it.
func PlainOrSealed(text string) string {
	if client.IsSealedText(text) {
		return sealedNote(len(text))
	}
	return strings.TrimSpace(text)
}

func sealedNote(size int) string {
	return fmt.Sprintf("(encrypted, %d bytes; --keys decrypts it)", size)
}

func progressText(p *v1.Progress) string {
	if p == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", p.Percent, PlainOrSealed(p.Message)))
}

func sequenceText(j v1.Job) string {
	if j.InLine {
		return j.Sequence + " (it waits for its turn)"
	}
	return j.Sequence
}

func afterText(j v1.Job) string {
	text := strings.Join(j.After, " ")
	if text != "" && j.AfterFailure != "" {
		text += " (if it fails: " + j.AfterFailure + ")"
	}
	return text
}

func attemptText(a v1.Attempt) string {
	text := fmt.Sprintf("%s after %s", a.End, Short(time.Duration(a.EndedAt-a.StartedAt)*time.Millisecond))
	if a.WorkerID != nil {
		text += " on " + OrDash(PlainLine(*a.WorkerID))
	}
	if a.Class != "" {
		text += " (" + PlainLine(a.Class) + ")"
	}
	if a.Error != "" {
		text += ": " + PlainOrSealed(a.Error)
	}
	return text
}

// JobColumns is the header of a table of jobs.
var JobColumns = Columns("ID", "TYPE", "STATUS", "ATTEMPTS", "AGE", "+WORKER", "+PRIORITY", "+GROUP", "+TAGS")

// JobRow returns the cells of j under JobColumns.
func JobRow(j v1.Job, now time.Time) []string {
	status := v1.StatusWord(j.Status)
	if p := j.Progress; p != nil && j.Status == v1.StatusInProgress {
		status += fmt.Sprintf(" %d%%", p.Percent)
	}
	return []string{
		j.ID, OrDash(j.Type), status, Attempts(j), AgoText(j.CreatedAt, now), WorkerName(j),
		strconv.Itoa(int(j.Priority)), OrDash(j.Group), OrDash(strings.Join(j.Tags, ",")),
	}
}

// Attempts formats the attempts of j, and their limit if there is one.
func Attempts(j v1.Job) string {
	if j.MaxAttempts == 0 {
		return strconv.Itoa(int(j.Attempts))
	}
	return fmt.Sprintf("%d of %d", j.Attempts, j.MaxAttempts)
}

// WorkerName returns the worker that runs j; "-" if none does.
func WorkerName(j v1.Job) string {
	if j.WorkerID == nil {
		return "-"
	}
	return OrDash(PlainLine(*j.WorkerID))
}

// headersText formats headers in the order of their names.
func headersText(headers map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		parts = append(parts, name+"="+headers[name])
	}
	return strings.Join(parts, " ")
}
