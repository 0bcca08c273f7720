package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
		time.Sleep(6 * time.Second)
		if calls.Load() != 1 || q.count("completed") != 1 {
			t.Errorf("%d calls, %d completed after a heartbeat was accepted", calls.Load(), q.count("completed"))
		}
		b.mustFinish()
	})
}

// Claims and the registration of a run have one instance, and its end names it.
func TestTheEndOfARunNamesItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		b := newBench(t, q, Config{Concurrency: 1})
		b.worker.Handle("a", takes(time.Second))
		b.start()
		time.Sleep(5 * time.Second)
		b.mustFinish()
		if len(q.seen) == 0 || len(q.ended) != 1 || len(q.seen[0].Instance) != 16 || q.ended[0] != q.seen[0].Instance ||
			q.claims[0].Instance != q.ended[0] || !q.claims[0].Confirms {
			t.Errorf("registered %v, ended %q, claimed as %+v", q.seen, q.ended, q.claims)
		}
	})
}
