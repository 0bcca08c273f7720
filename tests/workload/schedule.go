package workload

import (
	"context"
	"fmt"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/history"
)

// schedules have the specs of the schedules, by the policy for missed times, which is their name.
var schedules = map[string]string{v1.MissedAll: "*/10 * * * * *", v1.MissedOne: "*/2 * * * * *"}

// scheduled returns the schedule of a job; at is the time for which it was enqueued.
func scheduled(name string, at time.Time) history.Scheduled {
	if at.IsZero() {
		return history.Scheduled{Schedule: name}
	}
	return history.Scheduled{Schedule: name, At: at.UnixMilli()}
}

// putSchedule puts a schedule, mostly once more.
func (l *Load) putSchedule(ctx context.Context, a *actor) {
	name := []string{v1.MissedAll, v1.MissedOne}[a.rng.IntN(2)]
	attempts := int32(3)
	op := history.Op{Kind: history.Schedule, Name: name, Value: schedules[name]}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		_, err := a.client.PutCron(ctx, name, client.NewCron{
			Spec: op.Value, Missed: name, Jitter: 300 * time.Millisecond,
			Job: client.NewJob{Type: types[0], Payload: fmt.Appendf(nil, `{"of":%q}`, name), MaxAttempts: &attempts},
		})
		return err
	})
}

// dropSchedules deletes the schedules, so that no job comes any more.
func (l *Load) dropSchedules(ctx context.Context) {
	a := &actor{name: "admin", client: l.control}
	for name := range schedules {
		for unknown := true; unknown && ctx.Err() == nil; {
			op := l.write(ctx, a, history.Op{Kind: history.Schedule, Name: name}, func(ctx context.Context, op *history.Op) error {
				return l.control.DeleteCron(ctx, name)
			})
			unknown = op.Outcome == history.Unknown
		}
	}
}

// age changes the ageing of a type, or ends it.
func (l *Load) age(ctx context.Context, a *actor) {
	op := history.Op{Kind: history.SetType, Type: types[a.rng.IntN(len(types))], Delay: history.Time(a.rng.IntN(3)) * 500 * history.Millisecond}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		_, err := a.client.SetQueue(ctx, op.Type, client.QueuePatch{Aging: client.SetTo(time.Duration(op.Delay))})
		return err
	})
}
