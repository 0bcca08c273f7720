package bucket

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
	"osqueue/internal/cronid"
)

// jobOfState is a job as the API would show it.
func jobOfState(j *fsm.Job) v1.Job {
	o, d := j.Options(), j.Details()
	out := v1.Job{
		ID: j.ID, Status: j.Status.String(), Type: j.Type, Payload: opaque(j.Payload), Result: opaque(j.Execution().Result),
		CreatedAt: j.CreatedAt, Attempts: j.Attempts, MaxAttempts: max(j.MaxAttempts, 0), Heartbeat: j.Execution().Heartbeat,
		Priority: j.Priority, RunAt: j.RunAt, ClaimedAt: j.Execution().ClaimedAt, FinishedAt: j.Execution().FinishedAt,
		LeaseMs: j.Execution().LeaseMs, Token: j.Execution().Token, LastError: j.Execution().LastError,
		Backoff: storedBackoff(o.Backoff), TimeoutMs: o.TimeoutMs, Group: o.Group, Tags: o.Tags, Headers: headersOfState(o.Headers),
		After: o.After, WaitsFor: d.Waits, BatchID: o.Batch, Cron: o.Cron, CancelAt: d.CancelAt, Log: d.Log,
	}
	if at, ok := cronid.Time(j.ID); ok && o.Cron != "" {
		out.CronAt = at
	}
	if j.Status == fsm.InProgress {
		out.LeaseMs, out.TimeoutMs = j.Execution().HeldMs, d.TimeoutMs
	}
	if j.Execution().Worker != fsm.Anonymous && (j.Execution().Worker != "" || j.Status == fsm.InProgress) {
		out.WorkerID = new(j.Execution().Worker)
	}
	if o.Unique.Key != "" {
		out.UniqueKey, out.UniqueScope, out.UniqueMs = o.Unique.Key, o.Unique.Scope.String(), o.Unique.PeriodMs
	}
	if len(o.After) > 0 {
		out.AfterFailure = o.AfterFailure.String()
	}
	if d.ProgressAt != 0 {
		out.Progress = &v1.Progress{Percent: d.Progress.Percent, Message: d.Progress.Message, At: d.ProgressAt}
	}
	for i := range d.History {
		out.History = append(out.History, attemptOfState(&d.History[i]))
	}
	return out
}

func attemptOfState(a *fsm.Attempt) v1.Attempt {
	out := v1.Attempt{Number: a.Number, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Error: a.Error, End: a.End.String()}
	if a.Worker != fsm.Anonymous {
		out.WorkerID = &a.Worker
	}
	return out
}

// opaque converts a payload or result to JSON. Older brokers accepted text that is not
// JSON; opaque returns such text as a JSON string.
func opaque(v []byte) []byte {
	if len(v) == 0 || jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, v) // what is not UTF-8 is replaced
	return quoted
}

// chosenStatuses returns the statuses of the filter. No status means all.
func chosenStatuses(f *view.Filter) ([]fsm.Status, error) {
	var out []fsm.Status
	for _, name := range f.Status {
		if name == v1.StatusAll {
			continue
		}
		s, ok := fsm.ParseStatus(name)
		if !ok {
			return nil, view.Usagef("--status %q: use %s, or all", name, strings.Join(units.AllStatuses, ", "))
		}
		out = append(out, s)
	}
	return out, nil
}

// isChosen reports whether a job has all that the filter names beside its status.
func isChosen(f *view.Filter, j *fsm.Job) bool {
	o := j.Options()
	after, before := f.Created.After, f.Created.Before
	return (f.Type == "" || j.Type == f.Type) &&
		(f.Group == "" || o.Group == f.Group) &&
		(f.Batch == "" || o.Batch == f.Batch) &&
		(f.Worker == "" || j.Execution().Worker == f.Worker) &&
		!slices.ContainsFunc(f.Tags, func(tag string) bool { return !slices.Contains(o.Tags, tag) }) &&
		(after.Text == "" || j.CreatedAt >= after.At.UnixMilli()) &&
		(before.Text == "" || j.CreatedAt < before.At.UnixMilli())
}

// waitsText names the first of the jobs that are waited for.
func waitsText(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return view.OrDash(strings.Join(ids, " "))
	}
	return fmt.Sprintf("%s and %d others", strings.Join(ids[:most], " "), len(ids)-most)
}

func storedBackoff(b fsm.Backoff) *v1.Backoff {
	if b.Kind == fsm.BackoffUnset {
		return nil
	}
	return &v1.Backoff{Kind: b.Kind.String(), BaseMs: b.BaseMs, CapMs: b.CapMs, Jitter: int64(b.Jitter)}
}

func headersOfState(headers []fsm.Header) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(headers))
	for _, h := range headers {
		out[h.Name] = h.Value
	}
	return out
}
