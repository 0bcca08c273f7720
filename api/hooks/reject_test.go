package hooks

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/webhook"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// awayEvent is an event of another kind than testEvent.
func awayEvent() *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{Kind: uint32(fsm.AnnounceBucketAway)}}}
}

// indexOf returns the index of the log entry that an event is from.
func indexOf(t *testing.T, r *http.Request) (index uint64) {
	var term, n uint64
	if _, err := fmt.Sscanf(r.Header.Get(webhook.HeaderID), "evt_%d-%d.%d", &term, &index, &n); err != nil {
		t.Error(err)
	}
	return index
}

// TestRejectedEventsDelayNoOthers has receivers that answer 500 to half of the events: to every
// second one, and to the older half, as a new leader finds them.
func TestRejectedEventsDelayNoOthers(t *testing.T) {
	t.Parallel()
	const each = 700
	n := newFake(t)
	var first uint64
	odd := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		if indexOf(t, r)%2 == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	older := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		if indexOf(t, r) < first+each {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	n.put(t, hookMutation("odd", odd.URL, nil), hookMutation("older", older.URL, nil))
	first = n.index + 1
	for range 2 * each {
		n.put(t, awayEvent())
	}
	start(t, n, Config{Allow: loopback, Backoff: time.Millisecond})
	for _, name := range []string{"odd", "older"} {
		n.await(t, "the delivery of the others to "+name, func(v *fsm.View) bool { return v.Hook(name).Delivered == each })
		if h := n.View().Hook(name); h.Pending != each || h.Failed != 0 || h.Dropped != 0 {
			t.Errorf("%s: %d pending, %d failed, %d dropped", name, h.Pending, h.Failed, h.Dropped)
		}
	}
	for _, r := range []*receiver{odd, older} {
		ids, _ := r.count()
		for end := time.Now().Add(20 * time.Second); ids < 2*each && time.Now().Before(end); ids, _ = r.count() {
			time.Sleep(time.Millisecond) // the last ones that are rejected may come after the last delivery
		}
		if ids != 2*each || len(r.bad) > 0 {
			t.Errorf("%d events arrived, want %d; errors %v", ids, 2*each, r.bad)
		}
	}
}

// TestDroppedEventsAreForgotten rejects more events than an outbox has room for.
func TestDroppedEventsAreForgotten(t *testing.T) {
	t.Parallel()
	n := newFake(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	n.put(t, hookMutation("h", r.URL, func(h *fsmpb.Hook) { h.BufferBytes = outbox.BufferMin }))
	h := newHookSender(New(Config{Allow: loopback}), n, "h", nil)
	for range 5000 {
		n.put(t, awayEvent())
		h.look(n.View())
		h.broken = 0
		h.start(t.Context(), time.Now())
		for h.flight > 0 {
			h.flight--
			h.settle(<-h.results)
		}
	}
	v := n.View().Hook("h")
	if most := 2*v.Pending + endedMax + 1; v.Dropped < 4000 || len(h.tries) > most || h.waiting.Len() != len(h.tries) {
		t.Errorf("%d dropped, %d pending, %d tries, %d of them wait; want at most %d", v.Dropped, v.Pending, len(h.tries), h.waiting.Len(), most)
	}
}

// TestUnreportedEventsAreBounded delivers while no report is accepted.
func TestUnreportedEventsAreBounded(t *testing.T) {
	t.Parallel()
	n, r := newFake(t), newReceiver(t, nil)
	n.put(t, hookMutation("h", r.URL, nil))
	for range 2 * endedMax {
		n.put(t, awayEvent())
	}
	n.set(func() { n.fail = errAway })
	start(t, n, Config{Allow: loopback})
	for ids, _ := r.count(); ids < endedMax; ids, _ = r.count() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if ids, _ := r.count(); ids > endedMax+senderConcurrency {
		t.Errorf("%d events were delivered without a report", ids)
	}
	n.set(func() { n.fail = nil })
	n.await(t, "the delivery of all", delivered("h", 2*endedMax))
	if ids, all := r.count(); ids != 2*endedMax || all != ids {
		t.Errorf("%d events in %d deliveries", ids, all)
	}
}

// hourly is a backoff after which nothing is sent again within a test.
const hourly = time.Hour

// TestAPutHookIsTriedAtOnce corrects the URL of a hook whose deliveries have all failed.
func TestAPutHookIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	n, good := newFake(t), newReceiver(t, nil)
	bad := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	n.put(t, hookMutation("h", bad.URL, nil))
	for range 10 {
		n.put(t, awayEvent())
	}
	s, _ := start(t, n, Config{Allow: loopback, Backoff: hourly})
	for len(s.Attempts("h")) < senderConcurrency {
		time.Sleep(time.Millisecond)
	}
	n.set(func() { n.now++ })
	n.put(t, hookMutation("h", good.URL, nil))
	n.await(t, "the delivery of all", delivered("h", 10))
}

// TestATestIsSentAtOnce tests a hook that waits after failures. A test that is delivered ends
// the pause.
func TestATestIsSentAtOnce(t *testing.T) {
	t.Parallel()
	n, away := newFake(t), atomic.Bool{}
	away.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	n.put(t, hookMutation("h", r.URL, nil))
	for range 10 {
		n.put(t, awayEvent())
	}
	s, _ := start(t, n, Config{Allow: loopback, Backoff: hourly})
	begun := time.Now()
	await := func(what string, ok func(failed int, attempts []v1.HookAttempt) bool) {
		t.Helper()
		for {
			attempts := s.Attempts("h")
			failed := len(slices.DeleteFunc(slices.Clone(attempts), func(a v1.HookAttempt) bool { return a.Error == "" }))
			if ok(failed, attempts) {
				return
			}
			if time.Since(begun) > pauseMax/2 { // the shortest pause
				t.Fatalf("%s did not happen: %+v", what, attempts)
			}
			time.Sleep(time.Millisecond)
		}
	}
	await("the failures", func(failed int, _ []v1.HookAttempt) bool { return failed >= brokenAfter })
	n.put(t, testEvent("h"))
	await("the failure of the test", func(_ int, attempts []v1.HookAttempt) bool {
		return slices.ContainsFunc(attempts, func(a v1.HookAttempt) bool { return a.Type == outbox.Tested.String() })
	})
	away.Store(false)
	n.put(t, testEvent("h"))
	await("the delivery of the test and of the new events", func(failed int, _ []v1.HookAttempt) bool {
		return n.View().Hook("h").Delivered == uint64(12-failed)
	})
}
