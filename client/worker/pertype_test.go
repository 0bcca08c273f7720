package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// most records how many jobs of each type ran at once.
type most struct {
	mu       sync.Mutex
	now, max map[string]int
}

func newMost() *most { return &most{now: make(map[string]int), max: make(map[string]int)} }

func (m *most) around(fn HandlerFunc) HandlerFunc {
	return func(ctx context.Context, job Job) (json.RawMessage, error) {
		m.add(job.Type, 1)
		defer m.add(job.Type, -1)
		return fn(ctx, job)
	}
}

func (m *most) add(jobType string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range []string{jobType, ""} {
		m.now[t] += n
		m.max[t] = max(m.max[t], m.now[t])
	}
}

func (m *most) of(jobType string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.max[jobType]
}

func TestTypesKeepToTheirShare(t *testing.T) {
	for name, prefetch := range map[string]int{"no prefetch": 0, "prefetch": 16} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(30 * time.Second)
				q.add("a", 40)
				q.add("b", 400)
				q.add("c", 12)
				b := newBench(t, q, Config{Concurrency: 8, Prefetch: prefetch, PerType: map[string]int{"a": 2, "c": 1}})
				m := newMost()
				b.worker.Use(m.around)
				for _, jobType := range []string{"a", "b", "c"} {
					b.worker.Handle(jobType, takes(time.Second))
				}
				b.start()
				time.Sleep(time.Second / 2)
				began := time.Now()
				for q.count("completed") < 452 && time.Since(began) < 10*time.Minute {
					time.Sleep(time.Second)
					if n := q.runningOf("a"); n > 2+prefetch*2/8 {
						t.Fatalf("%d jobs of a are held", n)
					}
				}
				b.mustFinish()
				// 452 s of work in 8 slots, all of them in use until only jobs of c are
				// left: they were enqueued last, and run one after the other.
				if took := time.Since(began); took > (452/8+12)*time.Second {
					t.Errorf("took %v", took)
				}
				if m.of("a") != 2 || m.of("c") != 1 || m.of("") != 8 {
					t.Errorf("at once: %v", m.max)
				}
			})
		})
	}
}

// A type that gets free capacity is claimed at once, although a claim of other types waits at
// the cluster.
func TestCapacityIsUsedAtOnce(t *testing.T) {
	inBubble(t, 30, Config{Concurrency: 4, PollWait: 10 * time.Second, PerType: map[string]int{"a": 1}}, func(t *testing.T, q *fakeQueue, b *bench) {
		for _, jobType := range []string{"a", "b"} {
			b.worker.Handle(jobType, takes(time.Second))
		}
		if ends := b.runFor(31 * time.Second); len(ends) != 30 {
			t.Errorf("%d of 30 jobs that take a second each, in 31 seconds", len(ends))
		}
		for _, c := range q.claims {
			if len(c.Types) == 0 {
				t.Fatal("a claim of all types")
			}
		}
	})
}

func TestLimitsNeedTypes(t *testing.T) {
	q := newFake(time.Second)
	for name, prepare := range map[string]func(w *Worker){
		"no handler": func(w *Worker) { w.Handle("b", takes(0)) },
		"any":        func(w *Worker) { w.Handle("a", takes(0)); w.HandleAny(takes(0)) },
	} {
		w, err := New(q, Config{PerType: map[string]int{"a": 1}})
		check(t, err)
		prepare(w)
		if err := w.Run(t.Context()); !errors.Is(err, ErrPerType) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
