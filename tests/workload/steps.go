package workload

import (
	"context"
	"fmt"
	"time"

	"osqueue/client"
	"osqueue/tests/history"
)

// steps is the number of names of steps, so that attempts of a job meet in one; signal is the one that jobs wait for.
const (
	steps  = 2
	signal = "go"
)

// remembered records what a claim has of earlier attempts.
func remembered(held *history.Held, j client.ClaimedJob) {
	for _, s := range j.Steps {
		if held.Steps == nil {
			held.Steps = make(map[string]string)
		}
		held.Steps[s.Name] = string(s.Value)
	}
	for _, s := range j.Signals {
		held.Signals = append(held.Signals, string(s.Value))
	}
}

// fresh returns a JSON value that nobody else sends.
func fresh() []byte { return fmt.Appendf(nil, "%q", client.NewID()) }

// step stores a value of a job that the worker has.
func (l *Load) step(ctx context.Context, a *actor, lease client.Lease) {
	op, value := report(history.Step, lease), fresh()
	op.Name, op.Value = fmt.Sprint("step-", a.rng.IntN(steps)), string(value)
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		kept, err := a.client.StoreStep(ctx, lease, op.Name, value)
		op.Kept = string(kept)
		return err
	})
}

// suspend ends an attempt, until a time or a signal. Only without a signal the job cannot come earlier.
func (l *Load) suspend(ctx context.Context, a *actor, lease client.Lease) {
	op := report(history.Release, lease)
	s := client.Suspension{For: time.Duration(50+a.rng.IntN(1000)) * time.Millisecond}
	if a.chance(50) {
		s.Signal = signal
	} else {
		op.Delay = history.Time(s.For)
	}
	l.write(ctx, a, op, func(ctx context.Context, _ *history.Op) error { return a.client.Suspend(ctx, lease, s) })
}

// signal sends a job a value: half of the time the name that others wait for.
func (l *Load) signal(ctx context.Context, a *actor) {
	job, _, ok := l.known.any(a)
	if last := l.waiting.youngest(); last != "" && a.chance(50) {
		job, ok = last, true
	}
	if !ok {
		return
	}
	value := fresh()
	op := history.Op{Kind: history.Signal, Job: job, Name: signal, Value: string(value)}
	if a.chance(50) {
		op.Name = "other"
	}
	l.write(ctx, a, op, func(ctx context.Context, op *history.Op) error {
		_, err := a.client.SendSignal(ctx, job, op.Name, op.Request, value)
		return err
	})
}
