package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

func TestOnlyOneMaySettle(t *testing.T) {
	h := newHold(t.Context(), client.ClaimedJob{ID: "j"}, func(*hold) {})
	defer h.end()
	if !h.settle() || h.settle() {
		t.Error("not exactly one got the right")
	}
	h.lose(ErrLeaseLost)
	if h.isLost() || h.ctx.Err() != nil {
		t.Error("a job being reported was lost to a heartbeat")
	}
	other := newHold(t.Context(), client.ClaimedJob{ID: "k"}, func(*hold) {})
	defer other.end()
	other.lose(ErrLeaseLost)
	if other.settle() || !errors.Is(context.Cause(other.ctx), ErrLeaseLost) {
		t.Error("a lost job may be reported")
	}
	if _, ok := other.due(); ok {
		t.Error("a lost job is renewed")
	}
}

// A job that is added while nobody waits must end the next wait, however far
// its renewal is.
func TestIdleMissesNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHolds()
		hs.idle(t.Context(), time.Now().Add(time.Second))
		h := newHold(t.Context(), client.ClaimedJob{Length: time.Hour}, func(*hold) {})
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
		hs := newHolds()
		began := time.Now()
		time.AfterFunc(time.Second, func() {
			h := newHold(t.Context(), client.ClaimedJob{Length: time.Hour}, func(*hold) {})
			hs.add(h)
			hs.remove(h)
		})
		time.AfterFunc(2*time.Second, func() {
			h := newHold(t.Context(), client.ClaimedJob{Length: time.Minute}, func(*hold) {})
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
		q.setFault(func(op string) (before, after error) {
			if op == "complete" {
				return nil, lostAnswer()
			}
			return nil, nil
		})
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
		h := newHold(t.Context(), client.ClaimedJob{Length: 30 * time.Second}, func(*hold) {})
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
