package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/history"
)

var types = []string{"mail", "image", "report"}

// chance reports true in the given percentage of calls.
func (a *actor) chance(percent int) bool { return a.rng.IntN(100) < percent }

// produce enqueues one job.
func (l *Load) produce(ctx context.Context, a *actor) {
	op := history.Op{
		Kind: history.Enqueue, Job: client.NewID(), Type: types[a.rng.IntN(len(types))],
		Priority: int32(a.rng.IntN(3) - 1), MaxAttempts: 2 + a.rng.IntN(4),
	}
	op.Payload = fmt.Sprintf(`{"of":%q,"n":%d}`, a.name, a.rng.IntN(1_000_000))
	attempts := int32(op.MaxAttempts)
	job := client.NewJob{
		ID: op.Job, Type: op.Type, Priority: op.Priority, Payload: []byte(op.Payload), MaxAttempts: &attempts,
	}
	if a.chance(10) {
		job.Delay = time.Duration(50+a.rng.IntN(1500)) * time.Millisecond
		op.Delay = history.Time(job.Delay)
	}
	if op.Delay == 0 && a.chance(5) {
		op.Before = history.Time(50+a.rng.IntN(1500)) * history.Millisecond
		job.StartBefore = time.Now().Add(time.Duration(op.Before))
	}
	if a.chance(30) {
		job.Backoff = &client.Backoff{Kind: v1.BackoffExponential, Base: 50 * time.Millisecond, Cap: time.Second}
		op.Backoff = history.Time(job.Backoff.Base)
	}
	switch {
	case a.chance(10):
		job.Sequence = fmt.Sprint("sequence-", a.rng.IntN(6))
		op.Sequence = job.Sequence
	case a.chance(30):
		job.Limits = limits(a)
		op.Limits = strings.Join(job.Limits, ",")
	}
	if a.chance(15) {
		op.Ack = string(client.AckObject)
	}
	op = l.write(ctx, a, op, func(ctx context.Context, _ *history.Op) error {
		_, err := l.enqueue(ctx, a, job)
		return err
	})
	if op.Outcome == history.OK {
		l.known.job(op.Job)
		if op.Delay > 0 || op.Before > 0 || op.Sequence != "" || op.Limits != "" {
			l.waiting.job(op.Job)
		}
	}
}

func (l *Load) enqueue(ctx context.Context, a *actor, job client.NewJob) (client.Enqueued, error) {
	e, err := a.client.Enqueue(ctx, job)
	if err == nil && e.JobID != job.ID {
		l.fault(fmt.Errorf("job %s was enqueued as %s", job.ID, e.JobID))
	}
	return e, err
}

// cancel cancels an enqueued job: mostly the youngest one, which may not have ended yet.
func (l *Load) cancel(ctx context.Context, a *actor) {
	job, _, ok := l.known.any(a)
	if !ok {
		return
	}
	if a.chance(80) {
		job = l.known.youngest()
	}
	l.write(ctx, a, history.Op{Kind: history.Cancel, Job: job}, func(ctx context.Context, op *history.Op) error {
		c, err := a.client.Cancel(ctx, job)
		op.Status, op.Stopping = c.Status, c.Stopping
		return err
	})
}
