package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		b.start()
		time.Sleep(time.Second)
		b.mustFinish()
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
			}, Failed, "middleware_test.go",
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
				b.start()
				time.Sleep(time.Second)
				ends := b.mustFinish()
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
		if err != nil {
			t.Fatal(err)
		}
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
