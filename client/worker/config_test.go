package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

func TestRefusedConfigs(t *testing.T) {
	for want, cfg := range map[string]Config{
		"concurrency -1":         {Concurrency: -1},
		"concurrency 1000001":    {Concurrency: mostJobs + 1},
		"prefetch -1":            {Prefetch: -1},
		"prefetch 1000001":       {Prefetch: mostJobs + 1},
		`0 of type "a"`:          {PerType: map[string]int{"a": 0}},
		`-1 of type "a"`:         {PerType: map[string]int{"a": -1}},
		"lease -1s":              {Lease: -time.Second},
		"lease 1ns":              {Lease: 1},
		"poll wait -1s":          {PollWait: -time.Second},
		"poll wait 1ms: must be": {PollWait: time.Millisecond},
		"keep-alive -1s":         {KeepAlive: -time.Second},
		"keep-alive 1ms":         {KeepAlive: time.Millisecond},
	} {
		if _, err := New(newFake(time.Second), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	for _, cfg := range []Config{{}, {StopTimeout: -1}, {Lease: leastTime, PollWait: leastTime, KeepAlive: leastTime}} {
		if _, err := New(newFake(time.Second), cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// hasty answers claims at once, though they are to wait.
type hasty struct{ *fakeQueue }

func (q hasty) Claim(ctx context.Context, o client.ClaimOptions) ([]client.ClaimedJob, error) {
	o.Wait = 0
	return q.fakeQueue.Claim(ctx, o)
}

// Claims that wait for next to nothing, and answers that come too early, must
// not make the worker claim without end.
func TestClaimsWithoutEnd(t *testing.T) {
	for name, c := range map[string]struct {
		queue func(q *fakeQueue) Queue
		cfg   Config
		most  int
	}{
		"default":        {queue: func(q *fakeQueue) Queue { return q }, most: 10},
		"shortest wait":  {queue: func(q *fakeQueue) Queue { return q }, cfg: Config{PollWait: leastTime}, most: 6010},
		"early answers":  {queue: func(q *fakeQueue) Queue { return hasty{q} }, most: 610},
		"early, limited": {queue: func(q *fakeQueue) Queue { return hasty{q} }, cfg: Config{PerType: map[string]int{"a": 1}}, most: 610},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake(time.Minute)
				w, err := New(c.queue(q), c.cfg)
				check(t, err)
				w.Handle("a", takes(0))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
				if n := q.called("claim"); n > c.most {
					t.Errorf("%d claims within a minute", n)
				}
			})
		})
	}
}
