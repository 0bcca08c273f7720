package storagetest

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"strconv"
	"testing"
	"time"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// HTTPDriver tells RunHTTPFaults about a driver of a store behind HTTP.
type HTTPDriver struct {
	// Store is the address of a running store.
	Store string
	// Open opens an empty bucket through the proxy at endpoint.
	Open func(t *testing.T, endpoint string) storage.Bucket
	// WriteMethod is the HTTP method of a conditional write.
	WriteMethod string
	// Answers are the store's own spellings of some refusals.
	Answers []Answer
}

// Answer is a refusal in a store's own words, and what a driver has to make
// of it.
type Answer struct {
	Name    string
	Status  int
	Header  map[string]string
	Body    string
	Outcome storage.Outcome
	// Err is wrapped by the write's error; nil means any error but
	// ErrThrottled.
	Err error
}

const html = "<!DOCTYPE html><html><body><h1>Welcome to the hotel's network</h1></body></html>"

// commonAnswers come from whatever stands in front of a store.
var commonAnswers = []Answer{
	{Name: "500", Status: 500, Body: html, Outcome: storage.Unknown},
	{Name: "500 without body", Status: 500, Outcome: storage.Unknown},
	{Name: "502", Status: 502, Body: html, Outcome: storage.Unknown},
	{Name: "503", Status: 503, Body: html, Outcome: storage.Unknown},
	{Name: "504", Status: 504, Body: html, Outcome: storage.Unknown},
	{Name: "408", Status: 408, Outcome: storage.Unknown},
	{Name: "403", Status: 403, Body: html, Outcome: storage.Unknown},
	{Name: "404 from elsewhere", Status: 404, Body: html, Outcome: storage.Unknown},
	{Name: "307", Status: 307, Header: map[string]string{"Location": "/elsewhere"}, Outcome: storage.Unknown},
	{Name: "200 with a page", Status: 200, Header: map[string]string{"Content-Type": "text/html"}, Body: html, Outcome: storage.Unknown},
	{Name: "200 with nothing", Status: 200, Outcome: storage.Unknown},
	{Name: "200 with broken JSON", Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: `{"gen`, Outcome: storage.Unknown},
	{Name: "412", Status: 412, Outcome: storage.Conflict},
	{Name: "409", Status: 409, Outcome: storage.Conflict},
	{Name: "429", Status: 429, Outcome: storage.Unknown, Err: storage.ErrThrottled},
}

// faultsAtOnce is how many tests of a package with HTTP faults run at a time.
const faultsAtOnce = 16

// MostlyWaits lets more tests of this package run at a time than there are
// processors, unless -parallel says how many. Call it first in TestMain.
func MostlyWaits() { AtOnce(faultsAtOnce) }

// AtOnce is MostlyWaits for n tests at a time.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // the flag exists in every test binary
	}
}

// RunHTTPFaults checks that a driver reports exactly what it can know when
// the network and the store misbehave, and sends a conditional write once.
func RunHTTPFaults(t *testing.T, d HTTPDriver) {
	for name, test := range map[string]func(*testing.T){
		"Writes": d.writes, "Answers": d.answers, "LateDelivery": d.lateDelivery, "Stall": d.stall,
		"NobodyThere": d.nobodyThere, "Reads": d.reads, "Listing": d.listing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time goes into waiting between retries
			test(t)
		})
	}
}

// httpTest is one bucket behind a proxy, whose object "k" holds "old".
type httpTest struct {
	HTTPDriver
	proxy   *Proxy
	bucket  storage.Bucket
	version storage.Version
}

func (d HTTPDriver) start(t *testing.T) *httpTest {
	t.Helper()
	p := NewProxy(t, d.Store)
	h := &httpTest{HTTPDriver: d, proxy: p, bucket: d.Open(t, p.URL())}
	t.Cleanup(func() { h.bucket.Close() })
	h.version = mustCommit(t, h.bucket.PutIfAbsent(bounded(t), "k", []byte("old")))
	return h
}

// puts are the two conditional writes, with what the store holds before them.
var puts = []struct {
	name, key, before string
	put               func(context.Context, *httpTest) storage.Write
}{
	{"PutIfMatch", "k", "old", func(ctx context.Context, h *httpTest) storage.Write {
		return h.bucket.PutIfMatch(ctx, "k", []byte("new"), h.version)
	}},
	{"PutIfAbsent", "fresh", "", func(ctx context.Context, h *httpTest) storage.Write {
		return h.bucket.PutIfAbsent(ctx, "fresh", []byte("new"))
	}},
}

// check compares a write under fault f with what it should have been.
func (h *httpTest) check(t *testing.T, w storage.Write, want Answer) {
	t.Helper()
	if w.Outcome != want.Outcome || w.Version != "" || w.Outcome == storage.Unknown && w.Err == nil {
		t.Errorf("write = %+v, want %v", w, want.Outcome)
	}
	if want.Err != nil && !errors.Is(w.Err, want.Err) || want.Err == nil && errors.Is(w.Err, storage.ErrThrottled) {
		t.Errorf("error %v, want %v", w.Err, want.Err)
	}
	if n := h.proxy.Seen(h.WriteMethod); n != 1 || h.proxy.Hits() != 1 {
		t.Errorf("the write was sent %d times and hit %d times, want once", n, h.proxy.Hits())
	}
	h.proxy.Heal()
}

// holds checks what the store has under key; "" means nothing.
func (h *httpTest) holds(t *testing.T, key, want string) {
	t.Helper()
	o, err := h.bucket.Get(bounded(t), key)
	if want == "" && errors.Is(err, storage.ErrNotFound) {
		return
	}
	if err != nil || string(o.Data) != want {
		t.Errorf("the store has %q, %v under %q, want %q", o.Data, err, key, want)
	}
}

func (d HTTPDriver) writes(t *testing.T) {
	for _, kind := range []fault.Kind{fault.LoseAnswer, AnswerApplied, fault.LoseRequest, fault.Truncate} {
		for _, c := range puts {
			t.Run(string(kind)+"/"+c.name, func(t *testing.T) {
				h := d.start(t)
				h.proxy.Inject(Fault{Kind: kind, Method: d.WriteMethod, Status: 500})
				w := c.put(bounded(t), h)
				if kind == fault.Truncate && w.Outcome == storage.Committed {
					return // the answer's header alone was enough
				}
				h.check(t, w, Answer{Outcome: storage.Unknown})
				if kind == fault.LoseRequest {
					h.holds(t, c.key, c.before)
				} else {
					h.holds(t, c.key, "new")
				}
			})
		}
	}
}

func (d HTTPDriver) answers(t *testing.T) {
	for _, a := range append(commonAnswers[:len(commonAnswers):len(commonAnswers)], d.Answers...) {
		for _, c := range puts {
			t.Run(a.Name+"/"+c.name, func(t *testing.T) {
				h := d.start(t)
				h.proxy.Inject(Fault{
					Kind: AnswerInstead, Method: d.WriteMethod, Status: a.Status, Header: a.Header, Body: a.Body,
				})
				h.check(t, c.put(bounded(t), h), a)
				h.holds(t, c.key, c.before)
			})
		}
	}
}

// lateDelivery follows the rule for settling Unknown: the identical write is
// repeated, and the late original can then no longer do harm.
func (d HTTPDriver) lateDelivery(t *testing.T) {
	for _, c := range puts {
		t.Run(c.name, func(t *testing.T) {
			h := d.start(t)
			h.proxy.Inject(Fault{Kind: fault.DeliverLate, Method: d.WriteMethod})
			h.check(t, c.put(bounded(t), h), Answer{Outcome: storage.Unknown})
			h.holds(t, c.key, c.before)
			v := mustCommit(t, c.put(bounded(t), h))
			v = mustCommit(t, h.bucket.PutIfMatch(bounded(t), c.key, []byte("newer"), v))
			if got := h.proxy.Deliver(); len(got) != 1 || got[0] != http.StatusPreconditionFailed {
				t.Errorf("the late write was answered %v, want 412", got)
			}
			mustHold(bounded(t), t, h.bucket, c.key, "newer", v)
		})
		t.Run(c.name+"Lands", func(t *testing.T) {
			h := d.start(t)
			h.proxy.Inject(Fault{Kind: fault.DeliverLate, Method: d.WriteMethod})
			h.check(t, c.put(bounded(t), h), Answer{Outcome: storage.Unknown})
			if got := h.proxy.Deliver(); len(got) != 1 || got[0] != http.StatusOK {
				t.Errorf("the late write was answered %v, want 200", got)
			}
			h.holds(t, c.key, "new")
			mustConflict(t, c.put(bounded(t), h))
		})
	}
}

func (d HTTPDriver) stall(t *testing.T) {
	for _, c := range puts {
		t.Run(c.name, func(t *testing.T) {
			h := d.start(t)
			h.proxy.Inject(Fault{Kind: fault.Stall, Method: d.WriteMethod})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			w := c.put(ctx, h)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("a deadline of 200 ms was kept after %v", took)
			}
			h.check(t, w, Answer{Outcome: storage.Unknown, Err: context.DeadlineExceeded})
			h.holds(t, c.key, c.before)
		})
	}
	t.Run("Get", func(t *testing.T) {
		h := d.start(t)
		h.proxy.Inject(Fault{Kind: fault.Stall})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := h.bucket.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get = %v, want a deadline exceeded", err)
		}
	})
}

func (d HTTPDriver) nobodyThere(t *testing.T) {
	h := d.start(t)
	h.proxy.server.CloseClientConnections()
	h.proxy.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if w := h.bucket.PutIfMatch(ctx, "k", []byte("new"), h.version); w.Outcome != storage.Unknown || w.Err == nil {
		t.Errorf("write to nobody = %+v", w)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := h.bucket.Get(short, "k"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get from nobody = %v", err)
	}
}

func (d HTTPDriver) reads(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		works bool
	}{
		{"one 503", Fault{Kind: AnswerInstead, Status: 503, Times: 1}, true},
		{"one lost answer", Fault{Kind: fault.LoseRequest, Times: 1}, true},
		{"one truncated body", Fault{Kind: fault.Truncate, Times: 1}, true},
		{"always truncated", Fault{Kind: fault.Truncate}, false},
		{"a page", Fault{Kind: AnswerInstead, Status: 200, Body: html}, false},
		{"a 404 page", Fault{Kind: AnswerInstead, Status: 404, Body: html}, false},
		{"nothing", Fault{Kind: AnswerInstead, Status: 200}, false},
		{"a redirect", Fault{Kind: AnswerInstead, Status: 301, Header: map[string]string{"Location": "/login"}, Body: html}, false},
		{"always 429", Fault{Kind: AnswerInstead, Status: 429}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := d.start(t)
			h.proxy.Inject(c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			o, err := h.bucket.Get(ctx, "k")
			if h.proxy.Hits() == 0 {
				t.Fatal("the fault did not fire")
			}
			switch {
			case c.works && (err != nil || string(o.Data) != "old" || o.Version != h.version):
				t.Errorf("get = %q %q, %v", o.Data, o.Version, err)
			case !c.works && (err == nil || errors.Is(err, storage.ErrNotFound)):
				t.Errorf("get = %q, %v; want an error other than ErrNotFound", o.Data, err)
			}
		})
	}
}

func (d HTTPDriver) listing(t *testing.T) {
	h := d.start(t)
	for _, f := range []Fault{
		{Kind: AnswerInstead, Status: 200, Header: map[string]string{"Content-Type": "text/html"}, Body: html},
		{Kind: AnswerInstead, Status: 403, Body: html},
		{Kind: fault.Truncate},
	} {
		h.proxy.Inject(f)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := h.bucket.List(ctx, "", func(storage.Info) bool { return true })
		cancel()
		if err == nil || h.proxy.Hits() == 0 {
			t.Errorf("%s %d: list = %v after %d hits, want an error", f.Kind, f.Status, err, h.proxy.Hits())
		}
	}
	h.proxy.Inject(Fault{Kind: AnswerInstead, Status: 503, Times: 1})
	if keys := mustKeys(bounded(t), t, h.bucket, ""); len(keys) != 1 || h.proxy.Hits() != 1 {
		t.Errorf("list after one 503 = %q", keys)
	}
}
