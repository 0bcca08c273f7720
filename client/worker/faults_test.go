package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"osqueue/client/internal/sleep"
)

// If calls fail, before or after they took effect, each job is completed exactly
// once, and never do two handlers hold a live lease on it.
func TestEachJobIsCompletedOnceWhateverFails(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		faults := rapid.IntRange(0, 40).Draw(rt, "percent of calls that fail")
		workers := rapid.IntRange(1, 3).Draw(rt, "workers")
		cfg := Config{Concurrency: rapid.IntRange(1, 6).Draw(rt, "concurrency"), Prefetch: rapid.IntRange(0, 8).Draw(rt, "prefetch")}
		if rapid.Bool().Draw(rt, "limited") {
			cfg.PerType = map[string]int{"a": 2}
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = faultyRun(t, seed, faults, workers, cfg) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

const faultyJobs = 20

func faultyRun(t *testing.T, seed uint64, faults, workers int, cfg Config) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	q := newFake(30 * time.Second)
	q.add("a", faultyJobs)
	q.setFault(func(op string) (before, after error) {
		switch n := roll(200); {
		case n < faults:
			return unreachable(), nil
		case n < 2*faults:
			return nil, lostAnswer()
		}
		return nil, nil
	})
	handler := func(ctx context.Context, job Job) (json.RawMessage, error) {
		sleep.For(ctx, time.Duration(roll(60_000))*time.Millisecond)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		luck := roll(10)
		switch {
		case job.Attempt < 3 && luck == 0:
			return nil, errors.New("bad luck")
		case job.Attempt < 3 && luck == 1:
			panic("worse luck")
		}
		return json.RawMessage("1"), nil
	}
	benches := make([]*bench, workers)
	for i := range benches {
		cfg.Name = fmt.Sprintf("w%d", i)
		b := newBench(t, q, cfg)
		b.worker.Handle("a", handler)
		b.start()
		benches[i] = b
	}
	for end := time.Now().Add(6 * time.Hour); q.count("completed")+q.count("dead") < faultyJobs && time.Now().Before(end); {
		time.Sleep(time.Second)
	}
	q.setFault(nil)
	completed := 0
	for _, b := range benches {
		ends, err := b.finish()
		if err != nil {
			return err
		}
		for _, f := range ends {
			if f.Outcome == Completed {
				completed++
			}
		}
	}
	return checkFaultyRun(q, completed)
}

func checkFaultyRun(q *fakeQueue, said int) error {
	accepted := 0
	for i := range faultyJobs {
		j := q.job(i + 1)
		accepted += j.accepted
		if j.status != "completed" || j.accepted != 1 {
			return fmt.Errorf("job %s is %s after %d attempts and %d completions", j.id, j.status, j.attempts, j.accepted)
		}
	}
	if said > accepted {
		return fmt.Errorf("workers said that they completed %d, the queue accepted %d", said, accepted)
	}
	return nil
}
