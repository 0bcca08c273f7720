package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

// textError is an error whose nil pointer is one, too, until it is asked for its text.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func TestHowHandlersFail(t *testing.T) {
	boom := errors.New("boom")
	cases := map[string]struct {
		fn        HandlerFunc
		text      string
		permanent bool
		delay     time.Duration
	}{
		"error":     {fn: func(context.Context, Job) (json.RawMessage, error) { return nil, boom }, text: "boom"},
		"permanent": {fn: func(context.Context, Job) (json.RawMessage, error) { return nil, Permanent(boom) }, text: "boom", permanent: true},
		"retry after": {fn: func(context.Context, Job) (json.RawMessage, error) {
			return nil, fmt.Errorf("x: %w", RetryAfter(time.Hour, boom))
		}, text: "x: boom", delay: time.Hour},
		"panic":      {fn: func(context.Context, Job) (json.RawMessage, error) { panic("at the disco") }, text: "handler_test.go"},
		"long panic": {fn: func(context.Context, Job) (json.RawMessage, error) { panic(strings.Repeat("x", 1<<20)) }, text: "handler_test.go"},
		"exit":       {fn: func(context.Context, Job) (json.RawMessage, error) { runtime.Goexit(); return nil, nil }, text: errExit.Error()},
		"exit at":    {fn: func(context.Context, Job) (json.RawMessage, error) { runtime.Goexit(); return nil, nil }, text: "handler_test.go"},
		"nil pointer": {
			fn:   func(context.Context, Job) (json.RawMessage, error) { return nil, (*textError)(nil) },
			text: "nil pointer",
		},
		"not JSON": {fn: func(context.Context, Job) (json.RawMessage, error) { return json.RawMessage("{"), nil }, text: "JSON", permanent: true},
		"payload": {
			fn:   JSON(func(_ context.Context, _ Job, in struct{ N int }) (int, error) { return in.N, nil }),
			text: "payload", permanent: true,
		},
		"long text": {fn: func(context.Context, Job) (json.RawMessage, error) {
			return nil, errors.New(strings.Repeat("é", maxErrorText) + "\xff")
		}, text: "é"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := call(t.Context(), c.fn, Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage("[]")}})
			r := decide(nil, result, err)
			if r.outcome != Failed || !strings.Contains(r.failure.Error, c.text) {
				t.Fatalf("%+v", r)
			}
			if r.failure.Permanent != c.permanent || r.failure.Delay != c.delay {
				t.Fatalf("%+v", r.failure)
			}
			if len(r.failure.Error) > maxErrorText+8 {
				t.Fatalf("%d bytes", len(r.failure.Error))
			}
		})
	}
	if r := decide(nil, nil, fmt.Errorf("x: %w", Snooze(time.Hour))); r.outcome != Released || r.delay != time.Hour {
		t.Errorf("a snoozed job: %+v", r)
	}
	if f := decide(nil, nil, fmt.Errorf("x: %w", Class(RetryAfter(time.Hour, errors.New("busy")), "smtp\xff"))).failure; f.Class != "smtp\uFFFD" || f.Delay != time.Hour ||
		!strings.Contains(f.Error, "busy") {
		t.Errorf("a failure of a class: %+v", f)
	}
	if f := decide(nil, nil, RetryAfter(time.Hour, Class(errors.New("busy"), "smtp"))).failure; f.Class != "smtp" || f.Delay != time.Hour {
		t.Errorf("a failure of a class with a delay: %+v", f)
	}
	if Class(nil, "x") != nil || Permanent(nil) != nil || RetryAfter(time.Second, nil) != nil {
		t.Error("no error became one")
	}
}

func TestTypedHandler(t *testing.T) {
	type in struct {
		A, B int
	}
	fn := JSON(func(_ context.Context, _ Job, x in) (map[string]int, error) {
		return map[string]int{"sum": x.A + x.B}, nil
	})
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`{"A":1,"B":2}`)}})
	if err != nil || string(got) != `{"sum":3}` {
		t.Fatalf("%s, %v", got, err)
	}
}

// TestTypedHandlerReadsAsEncodingJSON: names match in any case, and a nil list is null.
func TestTypedHandlerReadsAsEncodingJSON(t *testing.T) {
	type order struct {
		Order int
		Mail  string `json:"mail_to"`
	}
	type shipped struct {
		Text string
		List []int
	}
	fn := JSON(func(_ context.Context, _ Job, o order) (shipped, error) {
		return shipped{Text: fmt.Sprintf("<%d> to %s", o.Order, o.Mail)}, nil
	})
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`{"order": 25626, "Mail_To": "you"}`)}})
	if want := `{"Text":"<25626> to you","List":null}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// Text that is not Unicode becomes U+FFFD, in a payload and in a result, so that
// finished work is not lost.
func TestTypedHandlerOfOddText(t *testing.T) {
	fn := JSON(func(_ context.Context, _ Job, x string) ([]string, error) { return []string{x, "a\xffb"}, nil })
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`"\ud800"`)}})
	if want := "[\"\ufffd\",\"a\\ufffdb\"]"; err != nil || string(got) != want || !json.Valid(got) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestOrderOfMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		q.add("", 1)
		b := newBench(t, q, Config{Concurrency: 1})
		var seen []string
		note := func(name string) Middleware {
			return func(next HandlerFunc) HandlerFunc {
				return func(ctx context.Context, job Job) (json.RawMessage, error) {
					seen = append(seen, name)
					defer func() { seen = append(seen, "/"+name) }()
					return next(ctx, job)
				}
			}
		}
		b.worker.Use(note("1"), note("2"))
		b.worker.Handle("a", takes(0))
		b.worker.HandleAny(takes(0))
		b.worker.Use(note("3"))
		b.runFor(time.Second)
		once := []string{"1", "2", "3", "/3", "/2", "/1"}
		if want := slices.Concat(once, once); !slices.Equal(seen, want) {
			t.Errorf("%v, want %v", seen, want)
		}
	})
}

// The effects of a middleware count as effects of the handler.
func TestMiddlewareIsPartOfTheHandler(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		around  Middleware
		outcome Outcome
		text    string
	}{
		"panics": {
			func(HandlerFunc) HandlerFunc {
				return func(context.Context, Job) (json.RawMessage, error) { panic("in the middle") }
			}, Failed, "handler_test.go",
		},
		"refuses": {
			func(HandlerFunc) HandlerFunc {
				return func(context.Context, Job) (json.RawMessage, error) {
					return nil, Permanent(errors.New("not here"))
				}
			}, Failed, "not here",
		},
		"changes": {
			func(next HandlerFunc) HandlerFunc {
				return func(ctx context.Context, job Job) (json.RawMessage, error) {
					return next(context.WithValue(ctx, key{}, "seen"), job)
				}
			}, Completed, "seen",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("a", 1)
				q.jobs[0].attempts = 2
				b := newBench(t, q, Config{})
				b.worker.Use(c.around)
				b.worker.Handle("a", JSON(func(ctx context.Context, _ Job, _ any) (any, error) { return ctx.Value(key{}), nil }))
				ends := b.runFor(time.Second)
				j := q.job(1)
				if len(ends) != 1 || ends[0].Outcome != c.outcome || !strings.Contains(j.result+j.failure.Error, c.text) {
					t.Errorf("%+v, %+v", ends, j)
				}
			})
		})
	}
}

func TestMisuseOfMiddleware(t *testing.T) {
	q := newFake(time.Second)
	for name, misuse := range map[string]func(w *Worker){
		"nil":        func(w *Worker) { w.Use(nil) },
		"no handler": func(w *Worker) { w.Use(func(HandlerFunc) HandlerFunc { return nil }); _ = w.Run(t.Context()) },
		"after Run": func(w *Worker) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = w.Run(ended)
			w.Use(func(fn HandlerFunc) HandlerFunc { return fn })
		},
	} {
		w, err := New(q, Config{})
		check(t, err)
		w.Handle("a", takes(0))
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse(w)
		}()
	}
}

// A handler holds a limit of its own job, with its lease, and learns if the call failed. A job without a worker holds none.
func TestThrottle(t *testing.T) {
	lost := errors.New("lost")
	var failed error
	handler := func(ctx context.Context, job Job) (json.RawMessage, error) {
		failed = job.Throttle(ctx, "api", time.Minute)
		return nil, nil
	}
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", handler)
		q.setFault(func(op string) (before, after error) {
			if op == "throttle" {
				return nil, lost
			}
			return nil, nil
		})
		ends := b.runFor(time.Second)
		if want := fmt.Sprintf("[%s of w, token 1: api for 1m0s]", q.job(1).id); fmt.Sprint(q.throttled) != want || !errors.Is(failed, lost) {
			t.Errorf("throttled %v, want %s; %v", q.throttled, want, failed)
		}
		if len(ends) != 1 || ends[0].Outcome != Completed {
			t.Errorf("the job ended as %+v", ends)
		}
	})
	if err := (Job{}).Throttle(t.Context(), "api", time.Minute); err != nil {
		t.Error(err)
	}
}

// A handler writes and reads artefacts of its own job. A job without a worker has none.
func TestArtefactsOfAJob(t *testing.T) {
	var read string
	handler := func(ctx context.Context, job Job) (json.RawMessage, error) {
		if err := job.Put(ctx, "out", strings.NewReader("bytes")); err != nil {
			return nil, err
		}
		r, err := job.Open(ctx, "out")
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		read = string(data)
		return nil, errors.Join(err, r.Close())
	}
	inBubble(t, 1, Config{Name: "w"}, func(t *testing.T, q *fakeQueue, b *bench) {
		b.worker.Handle("a", handler)
		ends := b.runFor(time.Second)
		if len(ends) != 1 || ends[0].Outcome != Completed || read != "bytes" || q.files[q.job(1).id+"/out"] != "bytes" {
			t.Errorf("the job ended as %+v, read %q, and there is %v", ends, read, q.files)
		}
	})
	if err := (Job{}).Put(t.Context(), "out", strings.NewReader("")); err == nil {
		t.Error("a job without a cluster has stored an artefact")
	}
	if _, err := (Job{}).Open(t.Context(), "out"); err == nil {
		t.Error("a job without a cluster has an artefact")
	}
}
