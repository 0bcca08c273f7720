package workload

import (
	"context"
	"fmt"
	"time"

	"osqueue/client"
	"osqueue/internal/sleep"
	"osqueue/tests/history"
)

// claimWait is the time for which a claim waits for its first job.
const claimWait = 300 * time.Millisecond

// late is a job whose report waits until its lease has expired.
type late struct {
	lease client.Lease
	at    time.Time
}

// consume makes one claim and works on its jobs.
func (l *Load) consume(ctx context.Context, a *actor) {
	l.reportLate(ctx, a)
	op := history.Op{Kind: history.Claim, Worker: a.worker(), Max: 1 + a.rng.IntN(3), Lease: history.Time(l.cfg.Lease)}
	if a.chance(30) && !l.calm.Load() {
		op.Types = []string{types[a.rng.IntN(len(types))]}
	}
	var jobs []client.ClaimedJob
	op = l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		var err error
		jobs, err = a.client.Claim(ctx, client.ClaimOptions{
			Worker: op.Worker, Types: op.Types, Max: op.Max, Wait: claimWait, Lease: l.cfg.Lease, RequestID: op.Request,
		})
		for _, j := range jobs {
			held := history.Held{
				Job: j.ID, Token: j.Token, Attempt: j.Attempt, Type: j.Type, Priority: j.Priority,
				Lease: history.Time(j.Length), Payload: string(j.Payload), Scheduled: scheduled(j.Cron, j.CronAt),
			}
			remembered(&held, j)
			op.Jobs = append(op.Jobs, held)
		}
		return err
	})
	if op.Outcome != history.OK {
		sleep.For(ctx, 20*time.Millisecond)
		return
	}
	for i, j := range jobs {
		if !l.calm.Load() && a.rng.IntN(300) == 0 {
			l.die(a, jobs[i:])
			return
		}
		l.work(ctx, a, client.Lease{JobID: j.ID, Worker: op.Worker, Token: j.Token}, j.Limits)
	}
}

// die stops the worker permanently, and continues as another worker.
func (l *Load) die(a *actor, holding []client.ClaimedJob) {
	f := l.rec.Fault(history.WorkerDead, a.worker())
	f.Hit(fmt.Sprintf("it stopped while it held %d jobs, of which one is %s", len(holding), holding[0].ID))
	f.End()
	a.lives++
	a.late = nil
}

// work runs one job, correctly or with a deliberate fault.
func (l *Load) work(ctx context.Context, a *actor, lease client.Lease, limits []string) {
	sleep.For(ctx, time.Duration(a.rng.IntN(20))*time.Millisecond)
	if l.calm.Load() {
		l.complete(ctx, a, lease)
		return
	}
	for a.chance(20) {
		if stopping := l.heartbeat(ctx, a, lease); stopping {
			l.fail(ctx, a, lease)
			return
		}
		sleep.For(ctx, time.Duration(a.rng.IntN(20))*time.Millisecond)
	}
	if len(limits) > 0 { // it takes longer, so that others wait for its keys
		sleep.For(ctx, time.Duration(a.rng.IntN(200))*time.Millisecond)
		if a.chance(10) {
			l.throttle(ctx, a, lease, limits)
		}
	}
	if a.chance(25) {
		l.step(ctx, a, lease)
	}
	if a.chance(5) {
		l.attach(ctx, a, lease)
	}
	switch n := a.rng.IntN(100); {
	case n < 1:
		over := l.cfg.Lease + time.Duration(a.rng.Int64N(int64(l.cfg.Lease)))
		a.late = append(a.late, late{lease, time.Now().Add(over)})
	case n < 8:
		l.fail(ctx, a, lease)
	case n < 13:
		l.release(ctx, a, lease)
	case n < 18:
		l.suspend(ctx, a, lease)
	default:
		l.complete(ctx, a, lease)
		if a.chance(2) { // and again, as one who has forgotten
			l.complete(ctx, a, lease)
		}
	}
}

// reportLate sends the reports whose leases have expired by now. The cluster accepts a report
// whose token no later claim has replaced.
func (l *Load) reportLate(ctx context.Context, a *actor) {
	now := time.Now()
	for len(a.late) > 0 && a.late[0].at.Before(now) {
		lease := a.late[0].lease
		a.late = a.late[1:]
		switch a.rng.IntN(3) {
		case 0:
			l.heartbeat(ctx, a, lease)
		case 1:
			l.fail(ctx, a, lease)
		default:
			l.complete(ctx, a, lease)
		}
	}
}

func (l *Load) heartbeat(ctx context.Context, a *actor, lease client.Lease) (stopping bool) {
	op := report(history.Heartbeat, lease)
	op = l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		beats, err := a.client.Heartbeat(ctx, lease.Worker, []client.Lease{lease})
		if err != nil || len(beats) != 1 {
			return err
		}
		if beats[0].Tag != "" {
			return &client.Error{Op: "heartbeat", Tag: beats[0].Tag, Message: beats[0].Tag, Status: 409, Committed: client.CommittedNo}
		}
		op.Stopping = beats[0].Cancel
		return nil
	})
	return op.Stopping
}

func (l *Load) complete(ctx context.Context, a *actor, lease client.Lease) {
	op := report(history.Complete, lease)
	op.Result = fmt.Sprintf(`{"by":%q,"token":%d}`, lease.Worker, lease.Token)
	if a.chance(15) {
		op.Ack = string(client.AckObject)
	}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		return a.client.Complete(ctx, lease, []byte(op.Result))
	})
}

func (l *Load) fail(ctx context.Context, a *actor, lease client.Lease) {
	op := report(history.Fail, lease)
	op.Permanent = a.chance(20)
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		return a.client.Fail(ctx, lease, client.Failure{Error: "bad luck", Permanent: op.Permanent})
	})
}

// release releases the job, half of the time with a delay.
func (l *Load) release(ctx context.Context, a *actor, lease client.Lease) {
	op := report(history.Release, lease)
	if a.chance(50) {
		lease.Delay = time.Duration(50+a.rng.IntN(1000)) * time.Millisecond
		op.Delay = history.Time(lease.Delay)
	}
	l.write(ctx, a, op, func(ctx context.Context, _ *history.Op) error {
		return a.client.Release(ctx, lease)
	})
}

func report(kind history.Kind, lease client.Lease) history.Op {
	return history.Op{Kind: kind, Job: lease.JobID, Token: lease.Token, Worker: lease.Worker}
}
