package worker

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

func TestOnlyOneMaySettle(t *testing.T) {
	h := newLease(t.Context(), client.ClaimedJob{ID: "j"}, func(*lease) {})
	defer h.end()
	if !h.settle() || h.settle() {
		t.Error("not exactly one got the right")
	}
	h.lose(ErrLeaseLost)
	if h.markLost() || h.ctx.Err() != nil {
		t.Error("a job being reported was lost to a heartbeat")
	}
	other := newLease(t.Context(), client.ClaimedJob{ID: "k"}, func(*lease) {})
	defer other.end()
	other.lose(ErrLeaseLost)
	if other.settle() || !errors.Is(context.Cause(other.ctx), ErrLeaseLost) {
		t.Error("a lost job may be reported")
	}
	if !other.markLost() || other.markLost() {
		t.Error("not exactly one may tell that it is lost")
	}
	if _, ok := other.due(); ok {
		t.Error("a lost job is renewed")
	}
}

// The answer to a heartbeat comes after the job's end: nothing of it is kept for
// the rest of a lease.
func TestALateAnswerStartsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLease(t.Context(), client.ClaimedJob{Length: time.Hour}, func(*lease) {})
		sent := time.Now()
		h.end()
		h.answered(sent, true)
		if h.unsure.Stop() {
			t.Error("the timer of the lease runs")
		}
	})
}

// The lease and the time of a job that a repeated claim has brought count from
// the first one.
func TestLeaseOfARepeatedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claimed := func(age, timeout time.Duration) *lease {
			job := client.ClaimedJob{Length: 30 * time.Second, Age: age, Timeout: timeout}
			return newLease(t.Context(), job, func(*lease) {})
		}
		for _, c := range []struct {
			age, timeout, lives time.Duration
			why                 error
		}{
			{lives: 30 * time.Second, why: ErrLeaseUnsure},
			{age: 25 * time.Second, lives: 5 * time.Second, why: ErrLeaseUnsure},
			{age: 10 * time.Second, timeout: 12 * time.Second, lives: 2 * time.Second, why: ErrTimeout},
			{age: time.Hour, why: ErrLeaseUnsure},
		} {
			began := time.Now()
			h := claimed(c.age, c.timeout)
			if at, ok := h.due(); !ok || at.Sub(began) != 10*time.Second-c.age {
				t.Errorf("age %v: due after %v", c.age, at.Sub(began))
			}
			<-h.ctx.Done()
			if lived := time.Since(began); lived != c.lives || !errors.Is(context.Cause(h.ctx), c.why) {
				t.Errorf("age %v: ended after %v: %v", c.age, lived, context.Cause(h.ctx))
			}
			h.end()
		}
	})
}

// The answers to a claim are lost, and then the heartbeats: the handler ends with
// the lease, which has not begun with the answer.
func TestHandlerOfARepeatedClaimEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		q := newFake(lease)
		q.add("a", 1)
		began := time.Now()
		q.setFault(func(op string) (before, after error) {
			switch {
			case op == "claim" && time.Since(began) < time.Second:
				return nil, lostAnswer()
			case op == "heartbeat":
				return unreachable(), nil
			}
			return nil, nil
		})
		var ended time.Duration
		b := newBench(t, q, Config{Concurrency: 1})
		b.worker.Handle("a", func(ctx context.Context, _ Job) (json.RawMessage, error) {
			<-ctx.Done()
			ended = time.Since(began)
			return nil, ctx.Err()
		})
		b.start()
		time.Sleep(lease + 1)
		synctest.Wait()
		if ended != lease {
			t.Errorf("the handler ended after %v, its lease %v after the claim", ended, lease)
		}
		q.failAll("claim", unreachable(), nil)
		b.mustFinish()
	})
}

// A job that is added between two waits must end the next wait, however late its
// renewal is due.
func TestIdleMissesNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newLeases()
		hs.idle(t.Context(), time.Now().Add(time.Second))
		h := newLease(t.Context(), client.ClaimedJob{Length: time.Hour}, func(*lease) {})
		hs.add(h)
		defer hs.remove(h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		hs.idle(ctx, time.Time{})
		if ctx.Err() != nil {
			t.Error("the job was missed")
		}
	})
}

func TestIdleIsNotWokenForWhatCanWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newLeases()
		began := time.Now()
		time.AfterFunc(time.Second, func() {
			h := newLease(t.Context(), client.ClaimedJob{Length: time.Hour}, func(*lease) {})
			hs.add(h)
			hs.remove(h)
		})
		time.AfterFunc(2*time.Second, func() {
			h := newLease(t.Context(), client.ClaimedJob{Length: time.Minute}, func(*lease) {})
			hs.add(h)
			hs.remove(h)
		})
		hs.idle(t.Context(), began.Add(15*time.Minute))
		if woken := time.Since(began); woken != 2*time.Second {
			t.Errorf("woken after %v", woken)
		}
	})
}

// While the report of a job is repeated, the cluster, which has taken it long
// ago, no longer renews the lease. That must not make the worker ask on and on.
func TestNoHeartbeatsForWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(30 * time.Second)
		q.add("a", 1)
		q.failAll("complete", nil, lostAnswer())
		b := newBench(t, q, Config{})
		b.worker.Handle("a", takes(time.Second))
		b.start()
		time.Sleep(5 * time.Minute)
		q.setFault(nil)
		time.Sleep(10 * time.Second)
		if ends := b.mustFinish(); len(ends) != 1 || ends[0].Outcome != Completed {
			t.Errorf("%+v", ends)
		}
		if n := q.called("heartbeat"); n > 2 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

// An answer that says neither yes nor no is asked for again at the next beat.
func TestOddAnswerToAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLease(t.Context(), client.ClaimedJob{Length: 30 * time.Second}, func(*lease) {})
		defer h.end()
		time.Sleep(10 * time.Second)
		h.answered(time.Now(), false)
		if at, ok := h.due(); !ok || time.Until(at) != 10*time.Second {
			t.Errorf("due in %v, %v", time.Until(at), ok)
		}
		time.Sleep(20*time.Second + 1)
		synctest.Wait()
		if !errors.Is(context.Cause(h.ctx), ErrLeaseUnsure) {
			t.Error("the lease was taken for renewed")
		}
	})
}
