package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

func TestHeartbeatKeepsAllLeasesWithOneCall(t *testing.T) {
	inBubble(t, 5, Config{Concurrency: 5}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(299*time.Second))
		if ends := b.runFor(6 * time.Minute); len(ends) != 5 || q.count("completed") != 5 {
			t.Fatalf("%d ended, %d completed", len(ends), q.count("completed"))
		}
		if n := q.called("heartbeat"); n != 29 {
			t.Errorf("%d heartbeats in five minutes with a lease of 30 s", n)
		}
		for _, size := range q.beatSizes {
			if size != 5 {
				t.Errorf("a heartbeat for %d of 5 jobs", size)
			}
		}
		for i := range 5 {
			if j := q.job(i + 1); j.attempts != 1 {
				t.Errorf("job %d had %d attempts", i+1, j.attempts)
			}
		}
	})
}

// One call holds up to 1000 leases.
func TestHeartbeatsOfManyJobs(t *testing.T) {
	inBubble(t, 2100, Config{Concurrency: 2100}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(45*time.Second))
		if ends := b.runFor(time.Minute); len(ends) != 2100 || q.count("completed") != 2100 {
			t.Fatalf("%d ended, %d completed", len(ends), q.count("completed"))
		}
		for _, size := range q.beatSizes {
			if size > client.MaxBatchJobs {
				t.Fatalf("a heartbeat for %d jobs", size)
			}
		}
		if n := len(q.beatSizes); n < 9 || n > 20 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

func TestLostLeaseEndsTheHandlerAndIsNotReported(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		var cause error
		b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return json.RawMessage("1"), nil
		})
		b.start()
		time.Sleep(time.Second)
		q.steal(1)
		time.Sleep(10 * time.Second)
		ends := b.mustFinish()
		if !errors.Is(cause, ErrLeaseLost) || len(ends) != 1 || ends[0].Outcome != Lost {
			t.Fatalf("cause %v, ends %+v", cause, ends)
		}
		if n := q.called("complete") + q.called("fail") + q.called("release"); n != 0 {
			t.Fatalf("%d reports", n)
		}
	})
}

func TestReportOfAStolenJobIsLost(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(2*time.Second))
		b.start()
		time.Sleep(time.Second)
		q.steal(1)
		time.Sleep(5 * time.Second)
		ends := b.mustFinish()
		if len(ends) != 1 || ends[0].Outcome != Lost || q.job(1).accepted != 0 {
			t.Fatalf("%+v", ends)
		}
	})
}

// A cluster that is away for less than a lease is not noticed by handlers.
func TestShortOutage(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(2*time.Minute))
		b.start()
		time.Sleep(15 * time.Second)
		q.setFault(func(string) (error, error) { return unreachable(), nil })
		time.Sleep(20 * time.Second)
		q.setFault(nil)
		time.Sleep(2 * time.Minute)
		if ends := b.mustFinish(); len(ends) != 1 || ends[0].Outcome != Completed || q.job(1).attempts != 1 {
			t.Fatalf("%+v", ends)
		}
	})
}

// If no heartbeat is answered for a whole lease, the worker ends the handler, and
// releases the job when the cluster can be reached again.
func TestLongOutage(t *testing.T) {
	inBubble(t, 1, Config{StopTimeout: -1}, func(t *testing.T, q *fakeQueue, b *bench) {
		var mu sync.Mutex
		var causes []error
		ended := func() []error {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(causes)
		}
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			r, err := takes(5*time.Minute)(ctx, job)
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, context.Cause(ctx))
			return r, err
		})
		b.start()
		time.Sleep(15 * time.Second)
		q.setFault(func(string) (error, error) { return unreachable(), nil })
		time.Sleep(24 * time.Second)
		if causes := ended(); len(causes) != 0 {
			t.Fatalf("ended before the lease was over: %v", causes)
		}
		time.Sleep(2 * time.Second)
		if causes := ended(); len(causes) != 1 || !errors.Is(causes[0], ErrLeaseUnsure) {
			t.Fatalf("causes %v", causes)
		}
		time.Sleep(time.Minute)
		q.extend()
		q.setFault(nil)
		time.Sleep(10 * time.Second)
		ends := b.mustFinish()
		if len(ends) != 2 || ends[0].Outcome != Released || q.job(1).attempts != 0 {
			t.Fatalf("%+v, attempts %d", ends, q.job(1).attempts)
		}
	})
}

func TestReportIsRepeatedUntilItIsAnswered(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(time.Second))
		n := 0
		q.setFault(func(op string) (error, error) {
			if op != "complete" {
				return nil, nil
			}
			if n++; n < 4 {
				return unreachable(), nil
			}
			if n < 6 {
				return nil, lostAnswer()
			}
			return nil, nil
		})
		ends := b.runFor(5 * time.Minute)
		if len(ends) != 1 || ends[0].Outcome != Completed || q.job(1).accepted != 1 || n != 6 {
			t.Fatalf("%+v, %d tries", ends, n)
		}
	})
}

// While a report does not get through for longer than the lease, heartbeats
// that do keep it.
func TestLeaseIsKeptWhileReporting(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(time.Second))
		q.failAll("complete", unreachable(), nil)
		b.start()
		time.Sleep(3 * time.Minute)
		q.setFault(nil)
		time.Sleep(10 * time.Second)
		if ends := b.mustFinish(); len(ends) != 1 || ends[0].Outcome != Completed || q.job(1).attempts != 1 {
			t.Fatalf("%+v", ends)
		}
	})
}

func TestResultThatIsRefusedFailsTheJob(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(time.Second))
		q.failAll("complete", &client.Error{Status: http.StatusRequestEntityTooLarge, Message: "too large"}, nil)
		ends := b.runFor(10 * time.Second)
		j := q.job(1)
		if len(ends) != 1 || ends[0].Outcome != Failed || !j.failure.Permanent || !strings.Contains(j.failure.Error, "too large") {
			t.Fatalf("%+v, %+v", ends, j)
		}
	})
}

// newFarQueue returns a queue that is a round trip away, and says of jobs of the type "short"
// that their leases are shorter than that.
func newFarQueue() *fakeQueue {
	const trip = 100 * time.Millisecond
	q := newFake(30 * time.Second)
	q.onClaim = func(_ context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error) {
		jobs, err := claim()
		for i := range jobs {
			if jobs[i].Type == "short" {
				jobs[i].Length = trip / 2
			}
		}
		return jobs, err
	}
	q.onBeat = func(ctx context.Context, _ string, _ []client.Lease) error {
		if sleep.For(ctx, trip); ctx.Err() != nil {
			return unreachable()
		}
		return nil
	}
	return q
}

// A job with a lease that is too short to keep costs no other job its lease.
func TestATinyLeaseCostsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFarQueue()
		q.add("long", 1)
		q.add("short", 1)
		b := newBench(t, q, Config{Concurrency: 2})
		b.worker.Handle("long", takes(2*time.Minute))
		b.worker.Handle("short", func(context.Context, Job) (json.RawMessage, error) {
			time.Sleep(2 * time.Minute)
			return nil, nil
		})
		b.runFor(3 * time.Minute)
		if j := q.job(1); j.status != "completed" || j.attempts != 1 {
			t.Errorf("%s after %d attempts", j.status, j.attempts)
		}
	})
}

// A job with such a lease is not claimed and released without end: its attempts
// count and have a reason.
func TestATinyLeaseFailsItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFarQueue()
		q.add("short", 1)
		b := newBench(t, q, Config{Concurrency: 2})
		b.worker.Handle("short", takes(time.Second))
		b.runFor(time.Minute)
		if j := q.job(1); j.status != "dead" || j.attempts != 3 || !strings.Contains(j.failure.Error, "50ms") {
			t.Errorf("%s after %d attempts and %d claims: %q", j.status, j.attempts, j.token, j.failure.Error)
		}
	})
}

// bounded refuses a request with heartbeats that is larger than the server's bound.
func bounded(_ context.Context, worker string, leases []client.Lease) error {
	in := v1.HeartbeatBatch{WorkerID: &worker, Jobs: make([]v1.Lease, len(leases))}
	for i, l := range leases {
		in.Jobs[i] = v1.Lease{JobID: l.JobID, Token: l.Token}
		if p := l.Progress; p != nil {
			in.Jobs[i].Progress = &v1.Progress{Percent: uint8(p.Percent), Message: p.Message}
		}
	}
	if body, err := jsonv2.Marshal(in); err != nil || len(body) > 1<<20 {
		return &client.Error{Op: "heartbeat", Status: http.StatusRequestEntityTooLarge, Committed: client.CommittedNo}
	}
	return nil
}

// If many jobs report much progress at once, their leases are still renewed, in as
// few calls as possible.
func TestMuchProgressCostsNoLease(t *testing.T) {
	for name, message := range map[string]string{
		"text":    strings.Repeat("x", maxProgressText),
		"escapes": strings.Repeat("\x01", maxProgressText),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const jobs = 1000
				q := newFake(30 * time.Second)
				q.add("a", jobs)
				q.onBeat = bounded
				b := newBench(t, q, Config{Concurrency: jobs})
				b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
					job.Progress(50, message)
					return takes(45*time.Second)(ctx, job)
				})
				b.runFor(2 * time.Minute)
				again := 0
				for i := range jobs {
					if j := q.job(i + 1); j.attempts != 1 || len(j.told) != 1 || j.told[0].Message != message {
						again++
					}
				}
				if again > 0 {
					t.Errorf("%d jobs were lost, or their progress was", again)
				}
				if n := q.called("heartbeat"); n > 20 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}

// The last attempt of a job starts when a heartbeat for it is accepted. If none is, the handler
// is not called, and the job goes back.
func TestALastAttemptIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		q.jobs[0].last = true
		away := true
		q.setFault(func(op string) (before, after error) {
			if op == "heartbeat" && away {
				return errors.New("no way"), nil
			}
			return nil, nil
		})
		var calls atomic.Int32
		b := newBench(t, q, Config{Concurrency: 1})
		b.worker.Handle("a", func(context.Context, Job) (json.RawMessage, error) {
			calls.Add(1)
			return nil, nil
		})
		b.start()
		time.Sleep(20 * time.Second)
		if calls.Load() != 0 {
			t.Fatal("it started, although no heartbeat was accepted")
		}
		q.mu.Lock()
		away = false
		q.mu.Unlock()
		time.Sleep(9 * time.Second) // longer than any pause, and within the lease
		if calls.Load() != 1 || q.count("completed") != 1 {
			t.Errorf("%d calls, %d completed after a heartbeat was accepted", calls.Load(), q.count("completed"))
		}
		b.mustFinish()
	})
}

// Claims and the registration of a run have one instance, and its end names it.
func TestTheEndOfARunNamesItsInstance(t *testing.T) {
	inBubble(t, 1, Config{Concurrency: 1}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(time.Second))
		b.runFor(5 * time.Second)
		if len(q.seen) == 0 || len(q.ended) != 1 || len(q.seen[0].Instance) != 16 || q.ended[0] != q.seen[0].Instance ||
			q.claims[0].Instance != q.ended[0] || !q.claims[0].Confirms {
			t.Errorf("registered %v, ended %q, claimed as %+v", q.seen, q.ended, q.claims)
		}
	})
}
