package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

// Answers on the hot path, and those that contain opaque JSON, are encoded here field by field.
// The tests compare them with the types of package v1.

// Key begins a field of an object.
func Key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// Next begins an item of a list.
func Next(b []byte) []byte {
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// Text appends a text field. Bytes that are not UTF-8 become U+FFFD.
func Text(b []byte, name, value string) []byte {
	b, _ = jsontext.AppendQuote(Key(b, name), value)
	return b
}

func Number(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(Key(b, name), value, 10)
}

// TextIf and NumberIf omit a field without a value.
func TextIf(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return Text(b, name, value)
}

func NumberIf(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return Number(b, name, value)
}

func OpaqueIf(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(Key(b, name), value...)
}

// LsnText appends an LSN as a field.
func LsnText(b []byte, lsn fsm.LSN) []byte {
	b = append(Key(b, "lsn"), '"')
	b = strconv.AppendUint(b, lsn.Term, 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, lsn.Index, 10)
	return append(b, '"')
}

// Claimed returns jobs that were claimed. of returns the jobs before them, by their ids.
func Claimed(jobs []*fsm.Job, at Moment, of func(id string) *fsm.Job) []v1.ClaimedJob {
	out := make([]v1.ClaimedJob, len(jobs))
	for i, j := range jobs {
		fillClaimed(&out[i], j, at)
		if len(j.Options().After) > 0 {
			out[i].Parents = parentsOf(of, j.Options())
		}
	}
	return out
}

// The most bytes of the result of one job, and of all, that a claim has of the jobs before.
const (
	resultMax  = 64 << 10
	resultsMax = 1 << 20
)

// parentsOf returns what a claim has of the jobs that its job was enqueued to run after.
func parentsOf(of func(id string) *fsm.Job, o *fsm.Options) []v1.Parent {
	out, left := make([]v1.Parent, len(o.After)), resultsMax
	for i, id := range o.After {
		p := &out[i]
		p.JobID, p.Name = id, id
		if j := of(id); j != nil {
			result := j.Execution().Result
			p.Status, p.Name = j.Status.String(), cmp.Or(j.Options().Step, id)
			if len(result) > min(resultMax, left) {
				p.ResultBytes = int64(len(result))
			} else {
				p.Result, left = result, left-len(result)
			}
		}
		if len(o.AfterNames) > 0 {
			p.Name = o.AfterNames[i]
		}
	}
	return out
}

func stepsOf(d *fsm.Details) (steps []v1.Step, signals []v1.Signal) {
	for _, s := range d.Steps {
		steps = append(steps, v1.Step{Name: s.Name, Value: s.Value})
	}
	for _, s := range d.Signals {
		signals = append(signals, v1.Signal{Name: s.Name, Value: s.Value, At: s.AtMs})
	}
	return steps, signals
}

func fillClaimed(out *v1.ClaimedJob, j *fsm.Job, at Moment) {
	x := j.Execution()
	out.JobID, out.Type, out.Payload, out.Priority, out.Attempts = j.ID, j.Type, j.Payload(), j.Priority, j.Attempts
	if j.MaxAttempts != fsm.MaxAttemptsUnset {
		out.MaxAttempts = &j.MaxAttempts
	}
	out.Token, out.LeaseMs, out.LeaseAgeMs, out.Confirm = x.Token, x.HeldMs, at.LeaseAge(j), x.Unconfirmed
	out.CreatedAt, out.TimeoutMs, out.LastError = j.CreatedAt, j.Details().TimeoutMs, x.LastError
	if o := j.Opt; o != nil {
		out.Group, out.Tags, out.Headers, out.Limits, out.BatchID = o.Group, o.Tags, headersOf(o.Headers), o.Limits, o.Batch
		out.Cron, out.CronAt, out.Step = o.Cron, cronAt(j), o.Step
	}
	if d := j.Det; d != nil && d.Kept > 0 {
		out.Steps, out.Signals = stepsOf(d)
	}
}

func headersOf(in []*fsmpb.Header) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, h := range in {
		out[h.Name] = h.Value
	}
	return out
}

// AppendJob appends a job as a v1.Job. It is the only conversion of a job of the machine to
// the JSON of the API; package document has the format of queue.json.
func AppendJob(b []byte, j *fsm.Job) []byte { return append(AppendJobMembers(b, j), '}') }

// Seen returns jobs with the names that the caller knows.
func (c *Call) Seen(jobs []*fsm.Job) []*fsm.Job {
	out := jobs
	for i, j := range jobs {
		shown := j.For(c.Viewer())
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

// AppendJobMembers is AppendJob without the end of the object.
func AppendJobMembers(b []byte, j *fsm.Job) []byte {
	b = append(b, '{')
	b = Text(b, "id", j.ID)
	b = Text(b, "status", j.Status.String())
	b = OpaqueIf(b, "payload", j.Payload())
	b = TextIf(b, "type", j.Type)
	if showsWorker(j) {
		b = Text(b, "workerId", j.Execution().Worker)
	}
	b = Number(b, "createdAt", j.CreatedAt)
	b = Number(b, "attempts", int64(j.Attempts))
	b = Number(b, "maxAttempts", max(int64(j.MaxAttempts), 0))
	b = Number(b, "heartbeat", j.Execution().Heartbeat)
	b = NumberIf(b, "priority", int64(j.Priority))
	b = NumberIf(b, "runAt", j.RunAt)
	b = NumberIf(b, "startBefore", j.Options().StartBefore)
	b = NumberIf(b, "retainMs", j.Options().RetainMs)
	b = NumberIf(b, "claimedAt", j.Execution().ClaimedAt)
	b = NumberIf(b, "finishedAt", j.Execution().FinishedAt)
	b = NumberIf(b, "leaseMs", leaseShown(j))
	if j.Execution().Token != 0 {
		b = strconv.AppendUint(Key(b, "token"), j.Execution().Token, 10)
	}
	b = OpaqueIf(b, "result", j.Execution().Result)
	b = TextIf(b, "lastError", j.Execution().LastError)
	b = NumberIf(b, "timeoutMs", timeoutShown(j))
	if j.Opt != nil {
		b = appendCronOf(appendOptions(b, j.Opt), j)
	}
	if j.Det != nil {
		b = appendDetails(b, j.Det)
		if j.Status == fsm.Scheduled {
			b = TextIf(b, "awaits", j.Det.Awaits)
		}
	}
	return b
}

// appendOptions appends the options of the producer.
func appendOptions(b []byte, o *fsm.Options) []byte {
	if o.Backoff.Kind != backoff.Unset {
		b = AppendBackoff(Key(b, "backoff"), o.Backoff)
	}
	b = AppendOnError(b, o.OnError)
	b = TextIf(b, "group", o.Group)
	b = TextsIf(b, "tags", o.Tags)
	b = AppendHeaders(b, o.Headers)
	b = TextsIf(b, "limits", o.Limits)
	b = TextIf(b, "sequence", o.Sequence)
	if o.Unique.Key != "" {
		b = Text(b, "uniqueKey", o.Unique.Key)
		b = TextIf(b, "uniqueScope", o.Unique.Scope.String())
		b = NumberIf(b, "uniqueMs", o.Unique.PeriodMs)
	}
	if len(o.After) > 0 {
		b = TextsIf(b, "after", o.After)
		b = TextsIf(b, "afterNames", o.AfterNames)
	}
	b = TextsIf(b, "afterBatches", o.AfterBatches)
	if len(o.After)+len(o.AfterBatches) > 0 {
		b = Text(b, "afterFailure", o.AfterFailure.String())
	}
	return TextIf(TextIf(b, "batchId", o.Batch), "step", o.Step)
}

// StepBytes estimates the bytes of AppendSteps.
func StepBytes(d *fsm.Details) int { return int(d.Kept) + 64*(len(d.Steps)+len(d.Signals)) }

// AppendSteps appends the steps and signals of a job.
func AppendSteps(b []byte, d *fsm.Details) []byte {
	if len(d.Steps) > 0 {
		b = append(Key(b, "steps"), '[')
		for _, s := range d.Steps {
			b = append(OpaqueIf(Text(append(Next(b), '{'), "name", s.Name), "value", s.Value), '}')
		}
		b = append(b, ']')
	}
	if len(d.Signals) > 0 {
		b = append(Key(b, "signals"), '[')
		for _, s := range d.Signals {
			b = OpaqueIf(Text(append(Next(b), '{'), "name", s.Name), "value", s.Value)
			b = append(Number(b, "at", s.AtMs), '}')
		}
		b = append(b, ']')
	}
	return b
}

// appendCronOf appends the schedule that enqueued a job, and the time for which.
func appendCronOf(b []byte, j *fsm.Job) []byte {
	return NumberIf(TextIf(b, "cron", j.Opt.Cron), "cronAt", cronAt(j))
}

// cronAt returns the time of the schedule for which a job was enqueued; 0 is none.
func cronAt(j *fsm.Job) int64 {
	if j.Opt.Cron == "" {
		return 0
	}
	at, _ := crontab.TimeOfID(j.ID) // 0 if the id has none
	return at
}

// AppendOnError appends what follows failures of a class, or nothing if there are no rules.
func AppendOnError(b []byte, rules []*fsmpb.OnError) []byte {
	if len(rules) == 0 {
		return b
	}
	b = append(Key(b, "onError"), '[')
	for _, r := range rules {
		action := v1.OnErrorRetry
		if r.Dead {
			action = v1.OnErrorDead
		}
		b = Text(Text(append(Next(b), '{'), "class", r.Class), "action", action)
		b = append(NumberIf(b, "delayMs", r.DelayMs), '}')
	}
	return append(b, ']')
}

// AppendBackoff appends a v1.Backoff.
func AppendBackoff(b []byte, o backoff.Backoff) []byte {
	b = Text(append(b, '{'), "kind", o.Kind.String())
	b = NumberIf(b, "baseMs", o.BaseMs)
	b = NumberIf(b, "capMs", o.CapMs)
	b = NumberIf(b, "jitter", int64(o.Jitter))
	return append(b, '}')
}

// appendDetails appends the facts that arose during the life of the job.
func appendDetails(b []byte, d *fsm.Details) []byte {
	b = TextsIf(b, "waitsFor", d.Waits)
	b = FlagIf(b, "inLine", d.InLine)
	if d.ProgressAt != 0 {
		b = Number(append(Key(b, "progress"), '{'), "percent", int64(d.Progress.Percent))
		b = TextIf(b, "message", d.Progress.Message)
		b = append(Number(b, "at", d.ProgressAt), '}')
	}
	if len(d.History) > 0 {
		b = append(Key(b, "history"), '[')
		for i := range d.History {
			b = appendAttempt(Next(b), &d.History[i])
		}
		b = append(b, ']')
	}
	b = NumberIf(b, "cancelAt", d.CancelAt)
	b = NumberIf(b, "revision", int64(d.Revision))
	return TextIf(b, "log", d.Log)
}

// AppendProgress appends the progress that a job has reported.
func AppendProgress(b []byte, points []notify.ProgressPoint) []byte {
	if len(points) == 0 {
		return b
	}
	b = append(Key(b, "progressHistory"), '[')
	for _, p := range points {
		b = Number(append(Next(b), '{'), "attempt", int64(p.Attempt))
		b = Number(b, "percent", int64(p.Percent))
		b = TextIf(b, "message", p.Message)
		b = append(Number(b, "at", p.At), '}')
	}
	return append(b, ']')
}

// AppendActions appends the requests that made and changed a job.
func AppendActions(b []byte, r Node, j *fsm.Job) []byte {
	actions := r.ActionsOn(j.ID)
	if e, found := r.Events().Enqueued(j.ID, j.CreatedAt); found && e.Actor != "" {
		actions = slices.Insert(actions, 0, notify.Action{At: e.At, Status: e.Status, Actor: e.Actor})
	}
	if len(actions) == 0 {
		return b
	}
	b = append(Key(b, "actions"), '[')
	for _, a := range actions {
		b = Text(append(Next(b), '{'), "kind", EventKind(&notify.Event{Kind: a.Kind, From: a.From, Status: a.Status}))
		b = Number(b, "at", a.At)
		b = append(TextIf(b, "actor", a.Actor), '}')
	}
	return append(b, ']')
}

// appendAttempt appends a v1.Attempt.
func appendAttempt(b []byte, a *fsm.Attempt) []byte {
	b = Number(append(b, '{'), "number", int64(a.Number))
	b = Number(b, "startedAt", a.StartedAt)
	b = Number(b, "endedAt", a.EndedAt)
	if a.Worker != fsm.Anonymous {
		b = Text(b, "workerId", a.Worker)
	}
	b = TextIf(b, "error", a.Error)
	b = TextIf(b, "class", a.Class)
	return append(Text(b, "end", a.End.String()), '}')
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

// TextsIf omits a list that is empty.
func TextsIf(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(Key(b, name), '[')
	for _, v := range values {
		b = Item(b, v)
	}
	return append(b, ']')
}

// FlagIf appends a field that is true, or omits it.
func FlagIf(b []byte, name string, value bool) []byte {
	if !value {
		return b
	}
	return append(Key(b, name), "true"...)
}

// Item appends an item of a list of texts.
func Item(b []byte, value string) []byte {
	b, _ = jsontext.AppendQuote(Next(b), value)
	return b
}

// AppendHeaders appends the headers of a job, or nothing if there are none.
func AppendHeaders(b []byte, headers []*fsmpb.Header) []byte {
	if len(headers) == 0 {
		return b
	}
	b = append(Key(b, "headers"), '{')
	for _, h := range headers {
		b = Text(b, h.Name, h.Value)
	}
	return append(b, '}')
}

// UnlessZero returns nil for a zero value, which the answer leaves out.
func UnlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Moment is the time of the answer to a claim, and the earliest time from which leases count.
type Moment struct{ Now, LeasesFrom int64 }

// LeaseAge returns the elapsed part of a job's lease.
func (m Moment) LeaseAge(j *fsm.Job) int64 {
	return max(m.Now-max(j.Execution().Heartbeat, m.LeasesFrom), 0)
}

// Ended reports whether a job is completed, dead, cancelled or expired. After that it changes only on
// request.
func Ended(j *fsm.Job) bool {
	return j.Status == fsm.Completed || j.Status == fsm.Dead || j.Status == fsm.Cancelled || j.Status == fsm.Expired
}

func (s *Core) Stats(v *fsm.View) v1.Stats {
	n, m := v.Counts(), v.Meta()
	return v1.Stats{
		Total:          n.Of(fsm.Unclaimed) + n.Of(fsm.InProgress),
		Unclaimed:      n.Of(fsm.Unclaimed),
		InProgress:     n.Of(fsm.InProgress),
		CompletedTotal: m.CompletedTotal,
		BrokerAddress:  m.BrokerAddress,
		Scheduled:      n.Of(fsm.Scheduled),
		Completed:      n.Of(fsm.Completed),
		Dead:           n.Of(fsm.Dead),
		Cancelled:      n.Of(fsm.Cancelled),
		Blocked:        n.Of(fsm.Blocked),
		Expired:        n.Of(fsm.Expired),
		Stuck:          v.Stuck(),
		DeadTotal:      m.DeadTotal,
		CancelledTotal: m.CancelledTotal,
		Bytes:          v.Bytes(),
		Workers:        v.WorkerCount(),
		LSN:            m.LSN().String(),
	}
}

// StatsFor returns the figures of the whole queue, or, for a caller that is limited to some
// types, those of the type that it lists.
func (s *Core) StatsFor(c *Call, v *fsm.View, jobType *string) v1.Stats {
	if jobType == nil || c.Principal == nil || !c.Principal.Scoped() {
		return s.Stats(v)
	}
	t := TypeStatsOf(c.State().TypeStats(*jobType))
	return v1.Stats{
		Total: t.Unclaimed + t.InProgress, Unclaimed: t.Unclaimed, InProgress: t.InProgress, Scheduled: t.Scheduled,
		Completed: t.Completed, Dead: t.Dead, Cancelled: t.Cancelled, Blocked: t.Blocked, Expired: t.Expired, Bytes: t.Bytes, LSN: v.LSN().String(),
	}
}

func TypeStatsOf(t fsm.TypeStats) v1.TypeStats {
	n := &t.Counts
	return v1.TypeStats{
		Scheduled:  n.Of(fsm.Scheduled),
		Unclaimed:  n.Of(fsm.Unclaimed),
		InProgress: n.Of(fsm.InProgress),
		Completed:  n.Of(fsm.Completed),
		Dead:       n.Of(fsm.Dead),
		Cancelled:  n.Of(fsm.Cancelled),
		Blocked:    n.Of(fsm.Blocked),
		Expired:    n.Of(fsm.Expired),
		Bytes:      t.Bytes,
	}
}

// lsnHeader is an LSN as the value of a header.
type lsnHeader struct {
	lsn   fsm.LSN
	value [1]string
}

// LsnHeader returns the value of the header for an LSN, which must not be changed. The answers of
// one committed entry share it.
func (s *Core) LsnHeader(lsn fsm.LSN) []string {
	last := s.lastLSN.Load()
	if last == nil || last.lsn != lsn {
		last = &lsnHeader{lsn, [1]string{lsn.String()}}
		s.lastLSN.Store(last)
	}
	return last.value[:]
}
