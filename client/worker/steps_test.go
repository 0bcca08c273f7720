package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// A step whose value was stored does not run again, whatever happens to the attempts and to the answers.
func TestAStepRunsOnce(t *testing.T) {
	for name, fault := range map[string]func(n int32) (before, after error){
		"a failed attempt": func(int32) (before, after error) { return nil, nil },
		"a lost answer":    func(n int32) (before, after error) { return nil, map[bool]error{true: lostAnswer()}[n == 1] },
		"nobody there":     func(n int32) (before, after error) { return map[bool]error{true: unreachable()}[n < 3], nil },
	} {
		t.Run(name, func(t *testing.T) {
			var ran, stored, attempts atomic.Int32
			inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
				q.setFault(func(op string) (before, after error) {
					if op != "step" {
						return nil, nil
					}
					return fault(stored.Add(1))
				})
				b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
					n, err := Step(ctx, job, "charge", func(context.Context) (int32, error) { return ran.Add(1), nil })
					if err != nil {
						return nil, err
					}
					if attempts.Add(1) < 3 {
						return nil, errors.New("crashed after the step")
					}
					return json.RawMessage(fmt.Sprint(n)), nil
				})
				ends := b.runFor(time.Minute)
				if ran.Load() != 1 || len(ends) != 3 || ends[2].Outcome != Completed || string(ends[2].Result) != "1" {
					t.Errorf("the step ran %d times; %+v", ran.Load(), ends)
				}
			})
		})
	}
}

// An error of a step is not stored, and a step that the cluster refuses fails the job for good.
func TestAStepThatFails(t *testing.T) {
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		ran := 0
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			_, err := Step(ctx, job, "s", func(context.Context) (int, error) {
				if ran++; ran == 1 {
					return 0, errors.New("not now")
				}
				return ran, nil
			})
			return nil, err
		})
		q.setFault(func(op string) (before, after error) {
			if op == "step" {
				return &client.Error{Op: op, Status: http.StatusConflict, Tag: v1.TagTooManySteps, Committed: client.CommittedNo}, nil
			}
			return nil, nil
		})
		b.runFor(time.Minute)
		if j := q.job(1); ran != 2 || j.status != "dead" || !j.failure.Permanent || !strings.Contains(j.failure.Error, `store the step "s"`) {
			t.Errorf("ran %d times; %+v", ran, j)
		}
	})
}

// A job sleeps without a worker and without an attempt, in the same places in each of its attempts.
func TestSleep(t *testing.T) {
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		began := time.Now()
		var took []time.Duration
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			for _, d := range []time.Duration{72 * time.Hour, time.Hour} {
				if err := job.Sleep(ctx, d); err != nil {
					return nil, err
				}
				took = append(took, time.Since(began).Round(time.Hour))
			}
			return nil, nil
		})
		ends := b.runFor(100 * time.Hour)
		if j := q.job(1); j.status != "completed" || j.attempts != 1 || q.called("suspend") != 2 {
			t.Errorf("%+v after %d suspensions", j, q.called("suspend"))
		}
		// The first sleep is over again in the attempt after the second.
		if want := []time.Duration{72 * time.Hour, 73 * time.Hour, 73 * time.Hour}; !slices.Equal(took, want) {
			t.Errorf("it went on after %v", took)
		}
		if len(ends) != 3 || ends[0].Outcome != Suspended || ends[2].Outcome != Completed {
			t.Errorf("%+v", ends)
		}
	})
}

// A signal wakes a suspended job, or was there before; every attempt gets the same, and none comes after the timeout.
func TestWaitSignal(t *testing.T) {
	var got []string
	handler := func(ctx context.Context, job Job) (json.RawMessage, error) {
		by, err := job.WaitSignal(ctx, "approved", 24*time.Hour)
		if err != nil {
			return nil, err
		}
		if got = append(got, string(by)); len(got) == 1 {
			return nil, errors.New("crashed")
		}
		return by, nil
	}
	for name, send := range map[string]func(q *fakeQueue, b *bench){
		"while it waits": func(q *fakeQueue, b *bench) {
			b.start()
			time.Sleep(time.Hour)
			q.signal(1, "other", "0")
			q.signal(1, "approved", "1")
			q.signal(1, "approved", "2")
		},
		"before": func(q *fakeQueue, b *bench) {
			q.signal(1, "approved", "1")
			q.signal(1, "approved", "2")
			b.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			got = nil
			inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
				b.worker.Handle("a", handler)
				send(q, b)
				time.Sleep(time.Minute)
				b.mustFinish()
				if j := q.job(1); j.status != "completed" || !slices.Equal(got, []string{"1", "1"}) {
					t.Errorf("%s, got %v", j.status, got)
				}
			})
		})
	}
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			_, err := job.WaitSignal(ctx, "approved", 24*time.Hour)
			if errors.Is(err, ErrNoSignal) {
				return json.RawMessage(`"nobody"`), nil
			}
			return nil, err
		})
		b.runFor(25 * time.Hour)
		if j := q.job(1); j.result != `"nobody"` {
			t.Errorf("%+v", j)
		}
	})
}

// Children are added once, though attempts end in between, and their parent continues when all have ended.
func TestChildren(t *testing.T) {
	inBubble(t, 1, Config{Name: "w", Concurrency: 1}, func(t *testing.T, q *fakeQueue, b *bench) {
		attempts := 0
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) {
			if err := job.AddChildren(ctx, "parts", []client.NewJob{{Type: "child"}, {Type: "child"}}); err != nil {
				return nil, err
			}
			if attempts++; attempts == 1 {
				return nil, errors.New("crashed")
			}
			done, err := job.WaitChildren(ctx, "parts")
			if err != nil {
				return nil, err
			}
			return json.Marshal(len(done))
		})
		b.worker.Handle("child", takes(time.Minute))
		b.runFor(time.Hour)
		if q.job(1).result != "2" || q.job(1).attempts != 2 || q.count("completed") != 3 || q.called("batch") != 1 {
			t.Errorf("%+v", q.job(1))
		}
		if id := q.job(2).id; id != "j1.parts.0" {
			t.Errorf("the first child is %s", id)
		}
	})
}

// A suspension that the cluster refuses fails the job, and does not leave it to the end of its lease.
func TestARefusedSuspension(t *testing.T) {
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		q.setFault(func(op string) (before, after error) {
			if op == "suspend" {
				return &client.Error{Op: op, Status: http.StatusConflict, Tag: v1.TagNoSuchBatch, Committed: client.CommittedNo}, nil
			}
			return nil, nil
		})
		b.worker.Handle("a", func(ctx context.Context, job Job) (json.RawMessage, error) { return nil, job.Sleep(ctx, time.Hour) })
		b.runFor(time.Minute)
		if j := q.job(1); j.status != "dead" || !strings.Contains(j.failure.Error, "suspension") {
			t.Errorf("%+v", j)
		}
	})
}

// A handler that is tried alone runs its steps, and says for what it would wait.
func TestTryWithSteps(t *testing.T) {
	got := Try(t.Context(), func(ctx context.Context, job Job) (json.RawMessage, error) {
		if _, err := Step(ctx, job, "s", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return nil, err
		}
		return job.WaitSignal(ctx, "approved", time.Hour)
	}, client.ClaimedJob{ID: "j"})
	if got.Outcome != Suspended || !strings.Contains(got.Err.Error(), "signal approved") {
		t.Errorf("%+v", got)
	}
}
