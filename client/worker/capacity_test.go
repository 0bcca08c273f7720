package worker

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/client"
)

// modelCapacity compares a capacity with its rules.
type modelCapacity struct {
	*capacity
	running, done, waiting []*lease
	held                   map[string]int
}

func (m *modelCapacity) started(jobs []*lease) {
	m.running = append(m.running, jobs...)
	m.waiting = slices.DeleteFunc(m.waiting, func(h *lease) bool { return slices.Contains(jobs, h) })
}

func takeOne(t *rapid.T, from *[]*lease) *lease {
	if len(*from) == 0 {
		t.Skip("none")
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	h := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return h
}

// In every sequence of claims and ends the bounds hold, a type is in one claim at a
// time, and no job waits that could run.
func TestCapacityKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []string{"a", "b", "c"}
		cfg := Config{
			Concurrency: rapid.IntRange(1, 6).Draw(t, "concurrency"),
			Prefetch:    rapid.IntRange(0, 9).Draw(t, "prefetch"),
			PerType:     map[string]int{"a": rapid.IntRange(1, 8).Draw(t, "limit of a"), "b": rapid.IntRange(1, 3).Draw(t, "limit of b")},
		}
		m := &modelCapacity{capacity: newCapacity(cfg, types), held: make(map[string]int)}
		now := time.Unix(1000, 0)
		t.Repeat(map[string]func(*rapid.T){
			"later": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "seconds")) * time.Second) },
			"ask": func(t *rapid.T) {
				a, ok := m.request(now, 10*time.Second)
				if ok && (a.max < 1 || len(a.types) == 0 || a.wait < 0 || a.wait > 10*time.Second) {
					t.Fatalf("%+v", a)
				}
			},
			"granted": func(t *rapid.T) {
				if len(m.requests) == 0 {
					t.Skip("none")
				}
				a := rapid.SampledFrom(m.requests).Draw(t, "which")
				jobs := make([]*lease, rapid.IntRange(0, a.max).Draw(t, "jobs"))
				for i := range jobs {
					jobs[i] = &lease{job: Job{ClaimedJob: client.ClaimedJob{Type: rapid.SampledFrom(a.types).Draw(t, "type")}}}
					m.held[jobs[i].job.Type]++
				}
				m.waiting = append(m.waiting, jobs...)
				start, ok := m.granted(a, jobs)
				if !ok {
					t.Fatal("not taken in")
				}
				m.started(start)
			},
			"handler returns": func(t *rapid.T) {
				h := takeOne(t, &m.running)
				m.done = append(m.done, h)
				m.started(m.ended(h))
			},
			"reported": func(t *rapid.T) {
				h := takeOne(t, &m.done)
				m.gone(h)
				m.held[h.job.Type]--
			},
			"dropped": func(t *rapid.T) {
				h := takeOne(t, &m.waiting)
				if !m.drop(h) || m.drop(h) {
					t.Fatal("not dropped once")
				}
				m.done = append(m.done, h)
			},
			"": func(t *rapid.T) { m.check(t, cfg) },
		})
		if left := m.stop(); len(left) != len(m.waiting) {
			t.Fatalf("%d of %d given back", len(left), len(m.waiting))
		}
		if _, ok := m.request(now.Add(time.Hour), time.Second); ok {
			t.Fatal("a claim after the end")
		}
	})
}

func (m *modelCapacity) check(t *rapid.T, cfg Config) {
	all := len(m.running) + len(m.done) + len(m.waiting)
	asked := 0
	for i, a := range m.requests {
		asked += a.max
		for _, b := range m.requests[:i] {
			if slices.ContainsFunc(a.types, func(s string) bool { return slices.Contains(b.types, s) }) {
				t.Fatal("a type is in two claims")
			}
		}
	}
	if all+asked > cfg.Concurrency+cfg.Prefetch || len(m.running) > cfg.Concurrency {
		t.Fatalf("%d held, %d asked for, %d running", all, asked, len(m.running))
	}
	running := make(map[string]int)
	for _, h := range m.running {
		running[h.job.Type]++
	}
	for jobType, limit := range cfg.PerType {
		share := min(limit, cfg.Concurrency)
		if running[jobType] > limit || m.held[jobType] > share+cfg.Prefetch*share/cfg.Concurrency {
			t.Fatalf("%s: %d running, %d held", jobType, running[jobType], m.held[jobType])
		}
	}
	for _, h := range m.waiting {
		limit, bound := cfg.PerType[h.job.Type]
		if len(m.running) < cfg.Concurrency && (!bound || running[h.job.Type] < limit) {
			t.Fatalf("a job of %s waits", h.job.Type)
		}
	}
}
