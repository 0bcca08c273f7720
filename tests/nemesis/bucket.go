package nemesis

import (
	"fmt"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
)

// bucketFaults are the faults of the object store.
var bucketFaults = []Fault{
	{Name: "bucket-down", NoBucket: true, Needs: NeedProxy, Hold: 4 * time.Second, Begin: struck(store.Down, func(w *World) { w.Proxy.SetDown(true) })},
	{Name: "bucket-refusing", NoBucket: true, Needs: NeedProxy | NeedLinks, Hold: 3 * time.Second, Begin: bucketRefuses},
	{Name: "bucket-hanging", NoBucket: true, Needs: NeedProxy, Hold: 4 * time.Second, Begin: struck(store.Hanging, func(w *World) { w.Proxy.SetAway(store.Hangs) })},
	{Name: "bucket-slow", Needs: NeedProxy, Hold: 4 * time.Second, Begin: struck(store.Slow, func(w *World) {
		w.Proxy.SetSlow(time.Duration(100+w.Rand.IntN(900)) * time.Millisecond)
	})},
	{Name: "bucket-misbehaving", Needs: NeedProxy, Hold: 4 * time.Second, Begin: misbehave},
	{Name: "bucket-losing-answers", Needs: NeedProxy, Hold: 2 * time.Second, Begin: struck(store.LoseAnswer, func(w *World) {
		w.Proxy.LoseAnswers(1 + w.Rand.IntN(5))
	})},
	{Name: "late-put", Needs: NeedProxy, Begin: latePut, Alone: true},
}

// struck begins a fault of the whole store and counts the requests that it met.
func struck(as store.Fault, begin func(*World)) func(*World, *history.FaultSpan) func() {
	return func(w *World, s *history.FaultSpan) func() {
		before := w.Proxy.Hits()[as]
		begin(w)
		return func() {
			met := func() int { return w.Proxy.Hits()[as] - before }
			hit := w.met(func() bool { return met() > 0 })
			w.Proxy.Behave()
			if !hit {
				s.Missed("no request met it")
				return
			}
			s.Hit(fmt.Sprintf("%d requests: %s", met(), as))
		}
	}
}

// bucketRefuses closes the store's address. The sign is a refused connection.
func bucketRefuses(w *World, s *history.FaultSpan) func() {
	toStore := link.Link{To: link.Store}
	before := w.Cluster.Net().Count(toStore)
	w.Proxy.SetAway(store.Refuses)
	return func() {
		absent := func() int64 { return w.Cluster.Net().Count(toStore).Minus(before).Absent }
		hit := w.met(func() bool { return absent() > 0 })
		w.Proxy.Behave()
		if !hit {
			s.Missed("nobody has tried to reach it")
			return
		}
		s.Hit(fmt.Sprintf("%d connections in vain", absent()))
	}
}

// misbehave has rng befall each request.
func misbehave(w *World, s *history.FaultSpan) func() {
	before := w.Proxy.Hits()
	w.Proxy.Misbehave(w.Rand.Uint64(), 0.3)
	return func() {
		befell := func() (n int) {
			for fault, hits := range w.Proxy.Hits() {
				n += hits - before[fault]
			}
			return n
		}
		hit := w.met(func() bool { return befell() > 0 })
		w.Proxy.Behave()
		if !hit {
			s.Missed("the rng befell no request")
			return
		}
		s.Hit(fmt.Sprintf("%d requests", befell()))
	}
}

// latePut kills the leader with a write of the document under way, which comes in when
// another leads. It must be refused.
func latePut(w *World, s *history.FaultSpan) func() {
	old, late := w.Cluster.WaitLeader(), w.Proxy.HoldNext(store.Document)
	select {
	case <-late.Arrived():
	case <-w.T.Context().Done():
		return w.Proxy.Behave
	case <-time.After(cluster.LeaderTimeout):
		s.Missed("no write of the document came in")
		return w.Proxy.Behave
	}
	restart := w.kill(s, old)
	w.Cluster.WaitOtherLeader(old)
	if late.Release() {
		s.Hit("the late PUT was refused")
		w.stalePuts++
	} else {
		w.T.Error("the late write of the dead leader was accepted")
	}
	return restart
}
