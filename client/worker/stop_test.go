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

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

func TestStopFinishesWhatRuns(t *testing.T) {
	inBubble(t, 10, Config{Concurrency: 2, StopTimeout: 30 * time.Second}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(20*time.Second))
		b.start()
		time.Sleep(time.Second)
		began := time.Now()
		ends := b.mustFinish()
		if took := time.Since(began); took != 19*time.Second {
			t.Errorf("took %v", took)
		}
		if len(ends) != 2 || q.count("completed") != 2 || q.count("unclaimed") != 8 {
			t.Fatalf("%+v; %d completed", ends, q.count("completed"))
		}
	})
}

func TestStopGivesBackWhatDoesNotFinish(t *testing.T) {
	for name, obeys := range map[string]bool{"obeying": true, "deaf": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, Config{Concurrency: 2, StopTimeout: 5 * time.Second}, func(t *testing.T, q *fakeQueue, b *bench) {
				deaf := make(chan struct{})
				b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
					if obeys {
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, ErrStopping) {
							t.Errorf("cause %v", cause)
						}
						return nil, ctx.Err()
					}
					<-deaf
					return json.RawMessage("1"), nil
				})
				b.start()
				time.Sleep(time.Second)
				began := time.Now()
				ends := b.mustFinish()
				most := 5 * time.Second
				if !obeys {
					most += handlerGrace
				}
				if took := time.Since(began); took != most {
					t.Errorf("took %v", took)
				}
				close(deaf)
				synctest.Wait()
				if len(q.removed) != 1 {
					t.Errorf("left the list %d times", len(q.removed))
				}
				if len(ends) != 2 || ends[0].Outcome != Released || q.count("unclaimed") != 3 || q.called("complete") != 0 {
					t.Fatalf("%+v", ends)
				}
			})
		})
	}
}

// The worker is stopped at the moment when its first claim is granted, and the answer may be lost.
func TestStopGivesBackAClaimInFlight(t *testing.T) {
	for name, lose := range map[string]bool{"answered": false, "answer lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("a", 8)
				ctx, stop := context.WithCancel(t.Context())
				q.onClaim = func(_ context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error) {
					jobs, err := claim()
					if ctx.Err() == nil && lose {
						jobs, err = nil, lostAnswer()
					}
					stop()
					return jobs, err
				}
				w, err := New(q, Config{Concurrency: 5})
				check(t, err)
				w.Handle("a", takes(time.Second))
				check(t, w.Run(ctx))
				released := q.released(8)
				if q.count("unclaimed") != 8 || released != 5 || q.called("complete") != 0 {
					t.Fatalf("%d waiting, %d given back", q.count("unclaimed"), released)
				}
			})
		})
	}
}

// The worker is stopped while it waits to repeat a claim whose answer was lost. As a client does,
// the queue sends nothing once the context has ended, and says so.
func TestStopGivesBackAClaimThatWasToBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 8)
		ctx, stop := context.WithCancel(t.Context())
		var once sync.Once
		q.onClaim = func(ctx context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error) {
			if ctx.Err() != nil {
				return nil, &client.Error{Op: "claim", Committed: client.CommittedNo, Err: ctx.Err()}
			}
			jobs, err := claim()
			once.Do(func() {
				jobs, err = nil, lostAnswer()
				time.AfterFunc(50*time.Millisecond, stop)
			})
			return jobs, err
		}
		w, err := New(q, Config{Concurrency: 5})
		check(t, err)
		w.Handle("a", takes(time.Second))
		check(t, w.Run(ctx))
		released := q.released(8)
		if released != 5 || q.count("unclaimed") != 8 {
			t.Errorf("%d given back, %d waiting", released, q.count("unclaimed"))
		}
	})
}

func TestStopWithoutClusterSaysWhatItLeaves(t *testing.T) {
	inBubble(t, 2, Config{Concurrency: 2, StopTimeout: 2 * time.Second}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", takes(3*time.Second))
		b.start()
		time.Sleep(time.Second)
		q.setFault(func(string) (error, error) { return unreachable(), nil })
		ends, err := b.finish()
		if err == nil || !strings.Contains(err.Error(), "2 jobs") {
			t.Fatalf("error %v", err)
		}
		if len(ends) != 2 || ends[0].Outcome != Unreported {
			t.Fatalf("%+v", ends)
		}
	})
}

// The time of the handlers passes also while a claim is asked for that may hold jobs.
func TestStopTimeoutBeginsWithTheStop(t *testing.T) {
	for _, timeout := range []time.Duration{-1, 2 * time.Second, 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := newFake(30 * time.Second)
			q.add("a", 1)
			q.onClaim = func(ctx context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error) {
				if q.called("claim") == 0 {
					return claim()
				}
				<-ctx.Done() // no other claim is answered
				return nil, lostAnswer()
			}
			b := newBench(t, q, Config{Concurrency: 2, StopTimeout: timeout})
			var ended time.Time
			b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
				<-ctx.Done()
				ended = time.Now()
				return nil, context.Cause(ctx)
			})
			b.start()
			time.Sleep(time.Second)
			began := time.Now()
			ends := b.mustFinish()
			if took := ended.Sub(began); took != max(timeout, 0) {
				t.Errorf("the handler was ended after %v, want %v", took, timeout)
			}
			if len(ends) != 1 || ends[0].Outcome != Released {
				t.Errorf("%+v", ends)
			}
		})
	}
}

// If a handler returns while its job is being released, the call that releases it
// is not cancelled.
func TestAnAbandonedHandlerThatReturnsDoesNotEndItsReport(t *testing.T) {
	inBubble(t, 1, Config{StopTimeout: -1}, func(t *testing.T, q *fakeQueue, b *bench) {
		q.onEnd = func(ctx context.Context, op string) error {
			if op != "release" {
				return nil
			}
			sleep.For(ctx, time.Second)
			if ctx.Err() != nil {
				return &client.Error{Op: op, Committed: client.CommittedNo, Err: ctx.Err()}
			}
			return nil
		}
		stopped := make(chan struct{})
		b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
			<-stopped
			time.Sleep(handlerGrace + 500*time.Millisecond)
			return nil, nil
		})
		b.start()
		time.Sleep(time.Second)
		close(stopped)
		ends := b.mustFinish()
		if len(ends) != 1 || ends[0].Outcome != Released || q.job(1).released != 1 {
			t.Errorf("%+v, %d given back", ends, q.job(1).released)
		}
		synctest.Wait()
	})
}

// If Config.Finished does not return, Run ends with an error that says so, and the
// jobs are reported.
func TestStopEndsThoughNobodyListens(t *testing.T) {
	inBubble(t, 3, Config{Concurrency: 2, StopTimeout: 5 * time.Second}, func(t *testing.T, q *fakeQueue, b *bench) {
		deaf := make(chan struct{})
		b.worker.cfg.Finished = func(Finished) { <-deaf }
		b.worker.Handle("a", takes(2*time.Second))
		b.start()
		time.Sleep(time.Second)
		began := time.Now()
		_, err := b.finish()
		if took := time.Since(began); took > 5*time.Second+handlerGrace+reportGrace+finishedGrace+leaveTimeout {
			t.Errorf("took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "Finished") || q.count("completed") != 2 || len(q.removed) != 1 {
			t.Errorf("%v; %d completed, left the list %d times", err, q.count("completed"), len(q.removed))
		}
		close(deaf)
		synctest.Wait()
	})
}

// If a handler does not notice that its job is lost, Config.Finished is called
// before Run returns, and not again when the handler returns.
func TestALostJobIsToldOfBeforeTheEnd(t *testing.T) {
	inBubble(t, 1, Config{Concurrency: 1, StopTimeout: -1}, func(t *testing.T, q *fakeQueue, b *bench) {
		deaf := make(chan struct{})
		b.worker.Handle("a", func(context.Context, Job) (json.RawMessage, error) {
			<-deaf
			return nil, nil
		})
		b.start()
		time.Sleep(time.Second)
		q.steal(1)
		time.Sleep(15 * time.Second)
		ends := b.mustFinish()
		if len(ends) != 1 || ends[0].Outcome != Lost || ends[0].Took < 15*time.Second {
			t.Errorf("%+v", ends)
		}
		close(deaf)
		synctest.Wait()
		if len(b.ends) != 1 {
			t.Errorf("told of %d times", len(b.ends))
		}
	})
}

// A claim that is returned several times runs once: one handler, one outcome, one unit of
// capacity. Here each job of a claim is returned twice, and those of the first one again with the
// second.
func TestAJobToldOfTwiceIsHeldOnce(t *testing.T) {
	inBubble(t, 1, Config{Concurrency: 4}, func(t *testing.T, q *fakeQueue, b *bench) {
		var claims atomic.Int32
		var first []client.ClaimedJob
		q.onClaim = func(_ context.Context, claim func() ([]client.ClaimedJob, error)) ([]client.ClaimedJob, error) {
			jobs, err := claim()
			if len(jobs) == 0 {
				return jobs, err
			}
			switch claims.Add(1) {
			case 1:
				first = jobs
			case 2:
				return slices.Concat(jobs, jobs, first), err
			}
			return slices.Concat(jobs, jobs), err
		}
		var calls atomic.Int32
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			calls.Add(1)
			return takes(10*time.Second)(ctx, job)
		})
		b.start()
		time.Sleep(time.Second)
		q.add("a", 5)
		time.Sleep(time.Minute)
		ends := b.mustFinish()
		if calls.Load() != 6 || len(ends) != 6 || q.count("completed") != 6 {
			t.Errorf("%d handlers, %d outcomes, %d completed; want 6 of each", calls.Load(), len(ends), q.count("completed"))
		}
	})
}

// A worker stops when its client is closed, instead of repeating its claims without
// end.
func TestAClosedClientEndsTheRun(t *testing.T) {
	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:1"}, Transport: accepting{}})
	check(t, err)
	w, err := New(c, Config{})
	check(t, err)
	w.Handle("a", takes(0))
	time.AfterFunc(50*time.Millisecond, c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.Run(ctx); ctx.Err() != nil || !errors.Is(err, client.ErrClosed) {
		t.Errorf("%v; the context ended: %v", err, ctx.Err())
	}
}

// A refused heartbeat is sent in parts: a fault of one lease, or too many leases in one call,
// does not cost other leases.
func TestARefusedHeartbeatCostsNoOtherLease(t *testing.T) {
	inBubble(t, 20, Config{Concurrency: 20}, func(t *testing.T, q *fakeQueue, b *bench) {
		q.onBeat = func(_ context.Context, _ string, leases []client.Lease) error {
			if len(leases) <= 6 && !slices.ContainsFunc(leases, func(l client.Lease) bool { return l.JobID == "j3" }) {
				return nil
			}
			q.enter("refused")
			return &client.Error{Op: "heartbeat", Status: http.StatusRequestEntityTooLarge, Committed: client.CommittedNo}
		}
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			job.Progress(50, "half")
			return takes(100*time.Second)(ctx, job)
		})
		b.start()
		time.Sleep(99 * time.Second)
		refused := q.called("refused")
		time.Sleep(10 * time.Second)
		b.mustFinish()
		for i := range 20 {
			if j := q.job(i + 1); j.id != "j3" && (j.status != "completed" || j.attempts != 1 || len(j.told) != 1) {
				t.Errorf("%s is %s after %d attempts; progress was told %d times", j.id, j.status, j.attempts, len(j.told))
			}
		}
		if refused > 200 {
			t.Errorf("%d heartbeats were refused in 99 s", refused)
		}
	})
}

// That the client is closed is no fault of a result.
func TestAClosedClientFailsNoJob(t *testing.T) {
	inBubble(t, 1, Config{}, func(t *testing.T, q *fakeQueue, b *bench) {
		q.onEnd = func(_ context.Context, op string) error {
			if op != "complete" {
				return nil
			}
			q.enter(op)
			return &client.Error{Op: op, Committed: client.CommittedNo, Err: client.ErrClosed}
		}
		b.worker.Handle("a", takes(time.Second))
		b.start()
		time.Sleep(5 * time.Second)
		ends, err := b.finish()
		if err == nil || len(ends) != 1 || ends[0].Outcome != Unreported || !errors.Is(ends[0].Err, client.ErrClosed) {
			t.Errorf("%v, %+v", err, ends)
		}
		if q.called("complete") != 1 || q.called("fail") != 0 {
			t.Errorf("%v", q.counts())
		}
	})
}
