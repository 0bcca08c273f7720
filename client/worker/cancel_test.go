package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

func TestCancellationEndsTheHandler(t *testing.T) {
	cases := map[string]struct {
		returns func(ctx context.Context) error
		text    string // of the failure
	}{
		"nothing else":   {func(context.Context) error { return context.Canceled }, "cancelled"},
		"the cause":      {context.Cause, "cancelled"},
		"something else": {func(context.Context) error { return errors.New("half done") }, "cancelled: half done"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
				var cause error
				b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil, c.returns(ctx)
				})
				b.start()
				time.Sleep(time.Second)
				q.cancel(1)
				time.Sleep(10 * time.Second)
				ends := b.mustFinish()
				if !errors.Is(cause, ErrCancelled) || len(ends) != 1 || ends[0].Outcome != Cancelled {
					t.Fatalf("cause %v, ends %+v", cause, ends)
				}
				if j := q.job(1); j.status != "cancelled" || j.failure.Error != c.text {
					t.Fatalf("%s, %q", j.status, j.failure.Error)
				}
			})
		})
	}
}

// A handler that returns a result although its job was being cancelled completes
// the job.
func TestCancellationThatComesTooLate(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Minute) // the lease is kept meanwhile
			return json.RawMessage("1"), nil
		})
		b.start()
		time.Sleep(time.Second)
		q.cancel(1)
		time.Sleep(5 * time.Minute)
		if ends := b.mustFinish(); len(ends) != 1 || ends[0].Outcome != Completed || q.job(1).attempts != 1 {
			t.Fatalf("%+v", ends)
		}
	})
}

func TestTimeoutEndsTheHandler(t *testing.T) {
	for name, deaf := range map[string]bool{"it returns": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("a", 1)
				q.jobs[0].timeout = 25 * time.Second
				b := newBench(t, q, Config{})
				began := time.Now()
				var cause error
				b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
					if job.Attempt > 1 {
						return nil, nil
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					if took := time.Since(began); took != 25*time.Second {
						return nil, fmt.Errorf("ended after %v", took)
					}
					if deaf {
						time.Sleep(time.Minute)
					}
					return nil, ctx.Err()
				})
				ends := b.runFor(2 * time.Minute)
				if !errors.Is(cause, ErrTimeout) || len(ends) != 2 {
					t.Fatalf("cause %v, ends %+v", cause, ends)
				}
				outcomes := map[Outcome]int{ends[0].Outcome: 1, ends[1].Outcome: 1}
				if !reflect.DeepEqual(outcomes, map[Outcome]int{TimedOut: 1, Completed: 1}) {
					t.Fatalf("%+v", ends)
				}
			})
		})
	}
}

func TestProgressGoesWithTheNextHeartbeat(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", func(_ context.Context, job Job) (json.RawMessage, error) {
			for i := range 25 {
				job.Progress(i*10, "step")
				time.Sleep(time.Second)
			}
			return nil, nil
		})
		lost := false
		q.setFault(func(op string) (error, error) {
			if op == "heartbeat" && !lost {
				lost = true
				return unreachable(), nil
			}
			return nil, nil
		})
		b.runFor(time.Minute)
		told := q.job(1).told
		if len(told) != 2 || told[0].Percent != 100 || told[1].Percent != 100 || told[0].Message != "step" {
			t.Fatalf("told %+v", told)
		}
	})
}

func TestProgressNow(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		var errs []error
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			job.Progress(1, "overtaken")
			errs = append(errs, job.ProgressNow(ctx, 50, "half"))
			q.cancel(1)
			errs = append(errs, job.ProgressNow(ctx, 60, ""))
			if ctx.Err() == nil {
				return nil, errors.New("the cancellation was not noticed")
			}
			return nil, ctx.Err()
		})
		ends := b.runFor(20 * time.Second)
		want := []client.Progress{{Percent: 50, Message: "half"}, {Percent: 60}}
		if errors.Join(errs...) != nil || !reflect.DeepEqual(q.job(1).told, want) || ends[0].Outcome != Cancelled {
			t.Fatalf("%v, told %+v, %+v", errs, q.job(1).told, ends)
		}
	})
	var alone Job
	alone.Progress(1, "nobody listens")
	if err := alone.ProgressNow(t.Context(), 1, ""); err != nil {
		t.Error(err)
	}
}

func TestRetryAtOnce(t *testing.T) {
	at := failure(RetryAfter(0, errors.New("x"))).failure
	later := failure(RetryAfter(time.Second, errors.New("x"))).failure
	plain := failure(errors.New("x")).failure
	if !at.AtOnce || later.AtOnce || later.Delay != time.Second || plain.AtOnce || plain.Delay != 0 {
		t.Errorf("%+v, %+v, %+v", at, later, plain)
	}
}
