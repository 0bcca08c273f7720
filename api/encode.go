package api

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/internal/cronid"
)

// Answers on the hot path, and those that contain opaque JSON, are encoded here field by field.
// The tests compare them with the types of package v1.

// key begins a field of an object.
func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// text appends a text field. Bytes that are not UTF-8 become U+FFFD.
func text(b []byte, name, value string) []byte {
	b, _ = jsontext.AppendQuote(key(b, name), value)
	return b
}

func number(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(key(b, name), value, 10)
}

// textIf, numberIf and opaqueIf omit a field without a value.
func textIf(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return text(b, name, value)
}

func numberIf(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return number(b, name, value)
}

func opaqueIf(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(key(b, name), value...)
}

// lsnText appends an LSN as a field.
func lsnText(b []byte, lsn fsm.LSN) []byte {
	b = append(key(b, "lsn"), '"')
	b = strconv.AppendUint(b, lsn.Term, 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, lsn.Index, 10)
	return append(b, '"')
}

// appendClaimed appends the fields of a v1.ClaimedJob, without the end of the object.
func appendClaimed(b []byte, j *fsm.Job, at moment) []byte {
	b = append(b, '{')
	b = text(b, "jobId", j.ID)
	b = textIf(b, "type", j.Type)
	b = opaqueIf(b, "payload", j.Payload())
	b = numberIf(b, "priority", int64(j.Priority))
	b = number(b, "attempts", int64(j.Attempts))
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		b = number(b, "maxAttempts", int64(j.MaxAttempts))
	}
	b = strconv.AppendUint(key(b, "token"), j.Execution().Token, 10)
	b = number(b, "leaseMs", j.Execution().HeldMs)
	b = numberIf(b, "leaseAgeMs", at.leaseAge(j))
	if j.Execution().Unconfirmed {
		b = append(key(b, "confirm"), "true"...)
	}
	b = number(b, "createdAt", j.CreatedAt)
	b = numberIf(b, "timeoutMs", j.Details().TimeoutMs)
	if j.Opt != nil {
		b = textIf(b, "group", j.Opt.Group)
		b = textsIf(b, "tags", j.Opt.Tags)
		b = appendHeaders(b, j.Opt.Headers)
		b = textIf(b, "batchId", j.Opt.Batch)
		b = appendCronOf(b, j)
	}
	return textIf(b, "lastError", j.Execution().LastError)
}

// AppendJob appends a job as a v1.Job. It is the only conversion of a job of the machine to
// the JSON of the API; package document has the format of queue.json.
func AppendJob(b []byte, j *fsm.Job) []byte { return append(appendJobMembers(b, j), '}') }

// seen returns jobs with the names that the caller knows.
func (c *call) seen(jobs []*fsm.Job) []*fsm.Job {
	out := jobs
	for i, j := range jobs {
		shown := j.For(c.viewer())
		if shown == j {
			continue
		}
		if &out[0] == &jobs[0] {
			out = slices.Clone(jobs)
		}
		out[i] = shown
	}
	return out
}

// appendJobMembers is AppendJob without the end of the object.
func appendJobMembers(b []byte, j *fsm.Job) []byte {
	b = append(b, '{')
	b = text(b, "id", j.ID)
	b = text(b, "status", j.Status.String())
	b = opaqueIf(b, "payload", j.Payload())
	b = textIf(b, "type", j.Type)
	if showsWorker(j) {
		b = text(b, "workerId", j.Execution().Worker)
	}
	b = number(b, "createdAt", j.CreatedAt)
	b = number(b, "attempts", int64(j.Attempts))
	b = number(b, "maxAttempts", max(int64(j.MaxAttempts), 0))
	b = number(b, "heartbeat", j.Execution().Heartbeat)
	b = numberIf(b, "priority", int64(j.Priority))
	b = numberIf(b, "runAt", j.RunAt)
	b = numberIf(b, "claimedAt", j.Execution().ClaimedAt)
	b = numberIf(b, "finishedAt", j.Execution().FinishedAt)
	b = numberIf(b, "leaseMs", leaseShown(j))
	if j.Execution().Token != 0 {
		b = strconv.AppendUint(key(b, "token"), j.Execution().Token, 10)
	}
	b = opaqueIf(b, "result", j.Execution().Result)
	b = textIf(b, "lastError", j.Execution().LastError)
	b = numberIf(b, "timeoutMs", timeoutShown(j))
	if j.Opt != nil {
		b = appendCronOf(appendOptions(b, j.Opt), j)
	}
	if j.Det != nil {
		b = appendDetails(b, j.Det)
	}
	return b
}

// appendOptions appends the options of the producer.
func appendOptions(b []byte, o *fsm.Options) []byte {
	if o.Backoff.Kind != fsm.BackoffUnset {
		b = appendBackoff(key(b, "backoff"), o.Backoff)
	}
	b = textIf(b, "group", o.Group)
	b = textsIf(b, "tags", o.Tags)
	b = appendHeaders(b, o.Headers)
	if o.Unique.Key != "" {
		b = text(b, "uniqueKey", o.Unique.Key)
		b = textIf(b, "uniqueScope", o.Unique.Scope.String())
		b = numberIf(b, "uniqueMs", o.Unique.PeriodMs)
	}
	if len(o.After) > 0 {
		b = textsIf(b, "after", o.After)
		b = text(b, "afterFailure", o.AfterFailure.String())
	}
	return textIf(b, "batchId", o.Batch)
}

// appendCronOf appends the schedule that enqueued a job, and the time for which.
func appendCronOf(b []byte, j *fsm.Job) []byte {
	b = textIf(b, "cron", j.Opt.Cron)
	if at, ok := cronid.Time(j.ID); ok && j.Opt.Cron != "" {
		b = number(b, "cronAt", at)
	}
	return b
}

// appendBackoff appends a v1.Backoff.
func appendBackoff(b []byte, o fsm.Backoff) []byte {
	b = text(append(b, '{'), "kind", o.Kind.String())
	b = numberIf(b, "baseMs", o.BaseMs)
	b = numberIf(b, "capMs", o.CapMs)
	b = numberIf(b, "jitter", int64(o.Jitter))
	return append(b, '}')
}

// appendDetails appends the facts that arose during the life of the job.
func appendDetails(b []byte, d *fsm.Details) []byte {
	b = textsIf(b, "waitsFor", d.Waits)
	if d.ProgressAt != 0 {
		b = number(append(key(b, "progress"), '{'), "percent", int64(d.Progress.Percent))
		b = textIf(b, "message", d.Progress.Message)
		b = append(number(b, "at", d.ProgressAt), '}')
	}
	if len(d.History) > 0 {
		b = append(key(b, "history"), '[')
		for i := range d.History {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendAttempt(b, &d.History[i])
		}
		b = append(b, ']')
	}
	b = numberIf(b, "cancelAt", d.CancelAt)
	return textIf(b, "log", d.Log)
}

// appendProgress appends the progress that a job has reported.
func appendProgress(b []byte, points []notify.ProgressPoint) []byte {
	if len(points) == 0 {
		return b
	}
	b = append(key(b, "progressHistory"), '[')
	for i, p := range points {
		if i > 0 {
			b = append(b, ',')
		}
		b = number(append(b, '{'), "attempt", int64(p.Attempt))
		b = number(b, "percent", int64(p.Percent))
		b = textIf(b, "message", p.Message)
		b = append(number(b, "at", p.At), '}')
	}
	return append(b, ']')
}

// appendActions appends the requests that made and changed a job.
func appendActions(b []byte, r Reader, j *fsm.Job) []byte {
	actions := r.ActionsOn(j.ID)
	if e, found := r.Events().Enqueued(j.ID, j.CreatedAt); found && e.Actor != "" {
		actions = slices.Insert(actions, 0, notify.Action{At: e.At, Status: e.Status, Actor: e.Actor})
	}
	if len(actions) == 0 {
		return b
	}
	b = append(key(b, "actions"), '[')
	for i, a := range actions {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, '{'), "kind", eventKind(&notify.Event{Kind: a.Kind, From: a.From, Status: a.Status}))
		b = number(b, "at", a.At)
		b = append(textIf(b, "actor", a.Actor), '}')
	}
	return append(b, ']')
}

// appendAttempt appends a v1.Attempt.
func appendAttempt(b []byte, a *fsm.Attempt) []byte {
	b = number(append(b, '{'), "number", int64(a.Number))
	b = number(b, "startedAt", a.StartedAt)
	b = number(b, "endedAt", a.EndedAt)
	if a.Worker != fsm.Anonymous {
		b = text(b, "workerId", a.Worker)
	}
	b = textIf(b, "error", a.Error)
	return append(text(b, "end", a.End.String()), '}')
}

// showsWorker distinguishes a worker named "" from no worker.
func showsWorker(j *fsm.Job) bool {
	if j.Execution().Worker == fsm.Anonymous {
		return false
	}
	return j.Execution().Worker != "" || j.Status == fsm.InProgress
}

func leaseShown(j *fsm.Job) int64 {
	if j.Status == fsm.InProgress {
		return j.Execution().HeldMs
	}
	return j.Execution().LeaseMs
}

// timeoutShown returns the timeout of the running attempt, or else the one of the producer.
func timeoutShown(j *fsm.Job) int64 {
	if j.Status == fsm.InProgress {
		return j.Details().TimeoutMs
	}
	return j.Options().TimeoutMs
}

// textsIf omits a list that is empty.
func textsIf(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(key(b, name), '[')
	for i, v := range values {
		b = item(b, i, v)
	}
	return append(b, ']')
}

// flagIf appends a field that is true, or omits it.
func flagIf(b []byte, name string, value bool) []byte {
	if !value {
		return b
	}
	return append(key(b, name), "true"...)
}

// item appends item i of a list of texts.
func item(b []byte, i int, value string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b, _ = jsontext.AppendQuote(b, value)
	return b
}
