package drivers_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"osqueue/storage"
	"osqueue/tests/cluster/store"
)

// answer is a refusal in a store's own words, and what a driver has to make of it.
type answer struct {
	name string
	store.Answer
	outcome storage.Outcome
	err     error // wrapped by the write's error; nil: any but ErrThrottled
}

const page = "<!DOCTYPE html><html><body><h1>Welcome to the hotel's network</h1></body></html>"

func said(status int, body string) store.Answer { return store.Answer{Status: status, Body: body} }

func with(a store.Answer, name, value string) store.Answer {
	a.Header = map[string]string{name: value}
	return a
}

// commonAnswers come from whatever stands in front of a store.
var commonAnswers = []answer{
	{name: "500", Answer: said(500, page)},
	{name: "500 without body", Answer: said(500, "")},
	{name: "502", Answer: said(502, page)},
	{name: "503", Answer: said(503, page)},
	{name: "504", Answer: said(504, page)},
	{name: "408", Answer: said(408, "")},
	{name: "403", Answer: said(403, page)},
	{name: "404 from elsewhere", Answer: said(404, page)},
	{name: "307", Answer: with(said(307, ""), "Location", "/elsewhere")},
	{name: "200 with a page", Answer: with(said(200, page), "Content-Type", "text/html")},
	{name: "200 with nothing", Answer: said(200, "")},
	{name: "200 with broken JSON", Answer: with(said(200, `{"gen`), "Content-Type", "application/json")},
	{name: "412", Answer: said(412, ""), outcome: storage.Conflict},
	{name: "409", Answer: said(409, ""), outcome: storage.Conflict},
	{name: "429", Answer: said(429, ""), err: storage.ErrThrottled},
}

// runFaults checks that a driver reports exactly what it can know when the network and the store misbehave,
// and sends a conditional write once.
func runFaults(t *testing.T, d driver) {
	s := store.StartKind(t, d.kind)
	run := func(name string, test func(t *testing.T, h *faulty)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time goes into waiting between retries
			p, url := s.AnotherPath(t)
			prefix := fmt.Sprintf("p%d", prefixes.Add(1))
			h := &faulty{t: t, proxy: p, bucket: d.open(t, strings.Replace(url, "://bucket", "://bucket/"+prefix, 1))}
			t.Cleanup(func() { h.bucket.Close() })
			w := h.bucket.PutIfAbsent(h.context(), "k", []byte("old"))
			h.version = h.committed(w)
			h.written = p.Writes()
			test(t, h)
		})
	}
	for _, c := range puts {
		for fault, want := range map[store.Fault]struct {
			outcome storage.Outcome
			applied bool
		}{
			store.LoseAnswer:    {storage.Unknown, true},
			store.GarbleApplied: {storage.Unknown, true},
			store.ErrorApplied:  {storage.Unknown, true},
			store.LoseRequest:   {storage.Unknown, false},
			store.Throttle:      {storage.Unknown, false},
			store.Reject:        {storage.Conflict, false},
			store.Garble:        {storage.Unknown, false},
			store.Error:         {storage.Unknown, false},
			store.Truncate:      {storage.Unknown, true},
			store.Slow:          {storage.Committed, true},
		} {
			run(fmt.Sprintf("%s/%s", fault, c.name), func(t *testing.T, h *faulty) {
				h.proxy.Inject(fault, store.Writes, store.Always)
				w := c.put(h.context(), h)
				a := answer{outcome: want.outcome}
				if fault == store.Truncate && w.Outcome == storage.Committed {
					a.outcome = w.Outcome // the answer's header alone was enough
				}
				if fault == store.Throttle {
					a.err = storage.ErrThrottled
				}
				h.check(w, a, fault)
				if want.applied {
					h.holds(c.key, "new")
				} else {
					h.holds(c.key, c.before)
				}
			})
		}
		for _, a := range append(commonAnswers[:len(commonAnswers):len(commonAnswers)], d.answers...) {
			run(a.name+"/"+c.name, func(t *testing.T, h *faulty) {
				h.proxy.Answer(a.Answer, store.Writes, store.Always)
				h.check(c.put(h.context(), h), a, store.Answered)
				h.holds(c.key, c.before)
			})
		}
		for _, lands := range []bool{false, true} {
			run(fmt.Sprintf("late/%s, lands=%v", c.name, lands), func(t *testing.T, h *faulty) { h.late(c, lands) })
		}
		run("stall/"+c.name, func(t *testing.T, h *faulty) {
			h.proxy.Inject(store.Stall, store.Writes, store.Always)
			began := time.Now()
			w := c.put(h.within(200*time.Millisecond), h)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("a deadline of 200 ms was kept after %v", took)
			}
			h.check(w, answer{err: context.DeadlineExceeded}, store.Stall)
			h.holds(c.key, c.before)
		})
	}
	run("stall/Get", func(t *testing.T, h *faulty) {
		h.proxy.Inject(store.Stall, store.Reads, store.Always)
		if _, err := h.bucket.Get(h.within(200*time.Millisecond), "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get = %v, want a deadline exceeded", err)
		}
	})
	run("nobody there", func(t *testing.T, h *faulty) {
		h.proxy.SetAway(store.Refuses)
		if w := h.bucket.PutIfMatch(h.within(10*time.Second), "k", []byte("new"), h.version); w.Outcome != storage.Unknown || w.Err == nil {
			t.Errorf("write to nobody = %+v", w)
		}
		if _, err := h.bucket.Get(h.within(time.Second), "k"); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get from nobody = %v", err)
		}
	})
	for name, r := range readFaults {
		run("read/"+name, func(t *testing.T, h *faulty) {
			r.begin(h.proxy)
			o, err := h.bucket.Get(h.within(4*time.Second), "k")
			switch {
			case len(h.proxy.Hits()) == 0:
				t.Fatal("the fault did not fire")
			case err != nil && r.works && r.mayFail:
			case r.works && (err != nil || string(o.Data) != "old" || o.Version != h.version):
				t.Errorf("get = %q %q, %v", o.Data, o.Version, err)
			case !r.works && (err == nil || errors.Is(err, storage.ErrNotFound)):
				t.Errorf("get = %q, %v; want an error other than ErrNotFound", o.Data, err)
			}
		})
		run("range/"+name, func(t *testing.T, h *faulty) {
			r.begin(h.proxy)
			data, err := rangeOf(h.within(4*time.Second), h.bucket.(storage.Streamer), "k", 1, 2)
			switch {
			case len(h.proxy.Hits()) == 0:
				t.Fatal("the fault did not fire")
			case err != nil && r.works && r.mayFail:
			case r.works && (err != nil || string(data) != "ld"):
				t.Errorf("range = %q, %v", data, err)
			case !r.works && (err == nil || errors.Is(err, storage.ErrNotFound)):
				t.Errorf("range = %q, %v; want an error other than ErrNotFound", data, err)
			}
		})
		run("list/"+name, func(t *testing.T, h *faulty) {
			r.begin(h.proxy)
			n := 0
			err := h.bucket.List(h.within(4*time.Second), "", func(storage.Info) bool { n++; return true })
			if len(h.proxy.Hits()) == 0 || err == nil && (n != 1 || !r.works) || err != nil && r.works && !r.mayFail {
				t.Errorf("%d objects, %v; works: %v", n, err, r.works)
			}
		})
	}
}

func rangeOf(ctx context.Context, b storage.Streamer, key string, offset, length int64) ([]byte, error) {
	body, err := b.GetRange(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	return data, errors.Join(err, body.Close())
}

// readFaults are faults of reads and listings, and whether they work nevertheless. A driver may give up
// some that would work if it tried again.
var readFaults = map[string]struct {
	begin          func(*store.Proxy)
	works, mayFail bool
}{
	"one 503":            {answered(said(503, ""), 1), true, false},
	"one lost request":   {injected(store.LoseRequest, 1), true, false},
	"one truncated body": {injected(store.Truncate, 1), true, true},
	"one throttled":      {injected(store.Throttle, 1), true, true},
	"one error":          {injected(store.Error, 1), true, true},
	"slow":               {injected(store.Slow, 1), true, false},
	"always truncated":   {injected(store.Truncate, store.Always), false, false},
	"a page":             {injected(store.Garble, store.Always), false, false},
	"a 403 page":         {answered(said(403, page), store.Always), false, false},
	"a 404 page":         {answered(said(404, page), store.Always), false, false},
	"nothing":            {answered(said(200, ""), store.Always), false, false},
	"a redirect":         {answered(with(said(301, page), "Location", "/login"), store.Always), false, false},
	"always 429":         {answered(said(429, ""), store.Always), false, false},
}

func injected(f store.Fault, n int) func(*store.Proxy) {
	return func(p *store.Proxy) { p.Inject(f, store.Reads, n) }
}

func answered(a store.Answer, n int) func(*store.Proxy) {
	return func(p *store.Proxy) { p.Answer(a, store.Reads, n) }
}

// faulty is one bucket behind a proxy, whose object "k" holds "old".
type faulty struct {
	t       *testing.T
	proxy   *store.Proxy
	bucket  storage.Bucket
	version storage.Version
	written int // writes before the test
}

func (h *faulty) context() context.Context { return h.within(time.Minute) }

func (h *faulty) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(h.t.Context(), d)
	h.t.Cleanup(cancel)
	return ctx
}

func (h *faulty) committed(w storage.Write) storage.Version {
	h.t.Helper()
	if w.Outcome != storage.Committed || w.Err != nil || w.Version == "" {
		h.t.Fatalf("write = %+v, want committed with a version and no error", w)
	}
	return w.Version
}

// put is a conditional write, with what the store holds before it.
type put struct {
	name, key, before string
	put               func(context.Context, *faulty) storage.Write
}

var puts = []put{
	{"PutIfMatch", "k", "old", func(ctx context.Context, h *faulty) storage.Write {
		return h.bucket.PutIfMatch(ctx, "k", []byte("new"), h.version)
	}},
	{"PutIfAbsent", "fresh", "", func(ctx context.Context, h *faulty) storage.Write {
		return h.bucket.PutIfAbsent(ctx, "fresh", []byte("new"))
	}},
	{"PutStream", "fresh", "", func(ctx context.Context, h *faulty) storage.Write {
		return h.bucket.(storage.Streamer).PutStream(ctx, "fresh", strings.NewReader("new"), storage.Content{Size: 3, Sum: sha256.Sum256([]byte("new"))})
	}},
}

// check compares a write under a fault with what it should have been.
func (h *faulty) check(w storage.Write, want answer, fault store.Fault) {
	h.t.Helper()
	unknown := w.Outcome == storage.Unknown && w.Err == nil
	if w.Outcome != want.outcome || (w.Version != "") != (want.outcome == storage.Committed) || unknown {
		h.t.Errorf("write = %+v, want %v", w, want.outcome)
	}
	if want.err != nil && !errors.Is(w.Err, want.err) || want.err == nil && errors.Is(w.Err, storage.ErrThrottled) {
		h.t.Errorf("error %v, want %v", w.Err, want.err)
	}
	if sent, hits := h.proxy.Writes()-h.written, h.proxy.Hits()[fault]; sent != 1 || hits != 1 {
		h.t.Errorf("the write was sent %d times and hit %d times, want once", sent, hits)
	}
	h.proxy.Behave()
}

// holds checks what the store has under key; "" means nothing.
func (h *faulty) holds(key, want string) {
	h.t.Helper()
	o, err := h.bucket.Get(h.context(), key)
	if want == "" && errors.Is(err, storage.ErrNotFound) {
		return
	}
	if err != nil || string(o.Data) != want {
		h.t.Errorf("the store has %q, %v under %q, want %q", o.Data, err, key, want)
	}
}

// late follows the rule for settling Unknown: the identical write is repeated, and the late original can
// then no longer do harm. If it lands before, the repetition is a conflict.
func (h *faulty) late(c put, lands bool) {
	held := h.proxy.HoldNext(store.Writes)
	if w := c.put(h.within(200*time.Millisecond), h); w.Outcome != storage.Unknown || w.Err == nil {
		h.t.Errorf("given up with %+v", w)
	}
	h.holds(c.key, c.before)
	if lands {
		if held.Release() {
			h.t.Error("the late write was refused")
		}
		h.holds(c.key, "new")
		if w := c.put(h.context(), h); w.Outcome != storage.Conflict || w.Version != "" {
			h.t.Errorf("the repetition is %+v, want a conflict", w)
		}
		return
	}
	v := h.committed(c.put(h.context(), h))
	h.committed(h.bucket.PutIfMatch(h.context(), c.key, []byte("newer"), v))
	if !held.Release() {
		h.t.Error("the late write was accepted")
	}
	h.holds(c.key, "newer")
}
