package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
)

// NewCron describes a cron schedule to create or to replace.
type NewCron struct {
	// Spec has five fields (minute, hour, day of month, month, day of week), or six
	// with seconds first. It can also be @every 5m, @hourly, @daily and the like.
	Spec     string `json:"spec"`
	TimeZone string `json:"timeZone,omitzero"` // IANA name; "": UTC
	// Overlap is the policy while the previous job has not ended: v1.OverlapAllow
	// (the default, also "") or v1.OverlapSkip.
	Overlap string `json:"overlap,omitzero"`
	// Missed is the policy for times that passed without a leader: v1.MissedSkip
	// (the default, also ""), v1.MissedOne for one fire that replaces all of
	// them, or v1.MissedAll for one fire for each.
	Missed string `json:"missed,omitzero"`
	Paused bool   `json:"paused,omitzero"`
	// The schedule has no times before Start, nor at End or after it. The zero time
	// is no bound.
	Start time.Time `json:"-"`
	End   time.Time `json:"-"`
	// Jitter is the bound of the part by which each job runs later. The part depends
	// on the name and the time alone.
	Jitter time.Duration `json:"-"`
	// MaxFires is the number of fires after which the schedule has no next time; 0
	// is no limit. Jobs that TriggerCron enqueued count.
	MaxFires uint64 `json:"maxFires,omitzero"`
	// Job is the job that each fire enqueues. Its ID, RunAt, After and BatchID must
	// not be set.
	Job NewJob `json:"-"` // encode appends it
}

var errCronJob = errors.New("the job of a cron schedule cannot have ID, RunAt, After or BatchID; leave them out")

func (n NewCron) encode() ([]byte, error) {
	if n.Job.ID != "" || !n.Job.RunAt.IsZero() || len(n.Job.After) > 0 || n.Job.BatchID != "" {
		return nil, errCronJob
	}
	job, err := EncodeJob(n.Job)
	if err != nil {
		return nil, err
	}
	return encodeWith(&struct {
		NewCron
		StartAt  int64 `json:"startAt,omitzero"`
		EndAt    int64 `json:"endAt,omitzero"`
		JitterMs int64 `json:"jitterMs,omitzero"`
	}{n, unixMs(n.Start), unixMs(n.End), inMilliseconds(n.Jitter)}, "job", job)
}

// PutCron creates the schedule name, or replaces it.
func (c *Admin) PutCron(ctx context.Context, name string, cron NewCron) (v1.CronPut, error) {
	const op = "put cron"
	job, err := sealPayload(ctx, c.cfg.Cipher, cron.Job, envelope.ToCron, name)
	if err != nil {
		return v1.CronPut{}, local(op, err)
	}
	cron.Job = job
	body, err := cron.encode()
	if err != nil {
		return v1.CronPut{}, local(op, err)
	}
	return sendWrite[v1.CronPut](ctx, c.caller, call{op: op, method: http.MethodPut, prefix: v1.PathCrons, name: name, body: body})
}

// PutCronAs is PutCron for a schedule in the form of the API. Config.Cipher encrypts its payload, unless it is encrypted
// already.
func (c *Admin) PutCronAs(ctx context.Context, name string, cron v1.NewCron) (v1.CronPut, error) {
	const op = "put cron"
	if j := &cron.Job; !IsSealed(j.Payload) {
		job := NewJob{Type: j.Type, Payload: j.Payload, Unique: Unique{Key: j.UniqueKey}, UniqueFields: j.UniqueFields}
		job, err := sealPayload(ctx, c.cfg.Cipher, job, envelope.ToCron, name)
		if err != nil {
			return v1.CronPut{}, local(op, err)
		}
		j.Payload, j.UniqueKey, j.UniqueFields = job.Payload, job.Unique.Key, job.UniqueFields
	}
	return sendWrite[v1.CronPut](ctx, c.caller, call{op: op, method: http.MethodPut, prefix: v1.PathCrons, name: name, in: &cron})
}

// OpenCron returns the payload of a schedule, decrypted by Config.Cipher if it is encrypted.
func (c *Admin) OpenCron(ctx context.Context, cron *v1.Cron) (json.RawMessage, error) {
	o := &opener{c: c.caller, ctx: ctx, id: cron.Name}
	payload := o.payload(cron.Job.Payload, cron.Job.Type, cron.Name)
	return payload, o.err
}

// Cron returns the schedule name, with its last runs and its next times.
func (c *Admin) Cron(ctx context.Context, name string) (v1.Cron, error) {
	return sendRead[v1.Cron](ctx, c.caller, call{op: "get cron", prefix: v1.PathCrons, name: name})
}

// Crons iterates over the schedules, ordered by name, without runs and next times. An error is the last item of
// the sequence.
func (c *Admin) Crons(ctx context.Context) iter.Seq2[v1.Cron, error] {
	list := call{op: "list crons", path: v1.PathCrons}
	return pages(ctx, c.caller, list, func(p v1.CronList) ([]v1.Cron, string) { return p.Crons, p.NextCursor })
}

// PauseCron stops the fires of a schedule until ResumeCron.
func (c *Admin) PauseCron(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "pause cron", prefix: v1.PathCrons, name: name, action: v1.ActionPause})
}

// ResumeCron ends the pause of a schedule. The answer has the time of the next
// fire.
func (c *Admin) ResumeCron(ctx context.Context, name string) (v1.CronPut, error) {
	return sendWrite[v1.CronPut](ctx, c.caller, call{op: "resume cron", prefix: v1.PathCrons, name: name, action: v1.ActionResume})
}

// TriggerCron enqueues the job of a schedule at once, also if the schedule is
// paused. The answer has the id of the job.
func (c *Admin) TriggerCron(ctx context.Context, name string) (Enqueued, error) {
	var r Receipt
	w := call{op: "trigger cron", prefix: v1.PathCrons, name: name, action: v1.ActionTrigger, own: &r}
	out, err := sendWrite[v1.Enqueued](ctx, c.caller, w)
	e := Enqueued{JobID: out.JobID, LSN: out.LSN, Duplicate: out.Duplicate, Committed: r.Committed()}
	if out.Duplicate {
		e.Holder = out.JobID
	}
	return e, err
}

// DeleteCron deletes a schedule. The jobs that it enqueued stay.
func (c *Admin) DeleteCron(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "delete cron", method: http.MethodDelete, prefix: v1.PathCrons, name: name})
}
