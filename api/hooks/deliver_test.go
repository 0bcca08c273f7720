package hooks

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client/webhook"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// receiver verifies and counts deliveries.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int // deliveries by id
	bad  []error
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{seen: make(map[string]int)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		e, err := webhook.Read(req, testSecret)
		r.mu.Lock()
		if err != nil {
			r.bad = append(r.bad, err)
		}
		r.seen[e.ID]++
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() (ids, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen {
		all += n
	}
	return len(r.seen), all
}

func delivered(name string, n uint64) func(*fsm.View) bool {
	return func(v *fsm.View) bool { h := v.Hook(name); return h != nil && h.Delivered >= n && h.Pending == 0 }
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	n, r := newFake(t), newReceiver(t, nil)
	s, _ := start(t, n, Config{Allow: loopback})
	n.put(t, hookMutation("h", r.URL, nil))
	for range 30 {
		n.put(t, testEvent("h"))
	}
	n.await(t, "the delivery of all", delivered("h", 30))
	if ids, all := r.count(); ids != 30 || all != 30 || len(r.bad) > 0 {
		t.Errorf("%d events in %d deliveries, errors %v", ids, all, r.bad)
	}
	attempts := s.Attempts("h")
	if len(attempts) != 30 || attempts[0].Status != http.StatusOK || attempts[0].Error != "" {
		t.Errorf("attempts %+v", attempts)
	}
	n.put(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteHook{DeleteHook: &fsmpb.DeleteHook{Name: "h"}}})
}

// TestActorInABody: a body has the identity that made the change.
func TestActorInABody(t *testing.T) {
	e := &outbox.Event{Kind: uint32(outbox.JobCancelled), Subject: "mail", JobId: "j", Actor: "token 3gp7 (Ann)"}
	if body := string(Body(e)); !strings.Contains(body, `"actor":"token 3gp7 (Ann)"`) {
		t.Error(body)
	}
	e.Actor = ""
	if body := string(Body(e)); strings.Contains(body, "actor") {
		t.Error(body)
	}
}

// TestOldSecretSignsToo has a receiver that knows only the secret from before a rotation.
func TestOldSecretSignsToo(t *testing.T) {
	t.Parallel()
	n, r := newFake(t), newReceiver(t, nil)
	n.set(func() { n.now = time.Now().UnixMilli() })
	n.put(t, hookMutation("h", r.URL, nil))
	m := hookMutation("h", r.URL, func(h *fsmpb.Hook) { h.Secret = []byte(strings.Repeat("n", 32)) })
	m.GetPutHook().OverlapMs = 60_000
	n.put(t, m, testEvent("h"))
	start(t, n, Config{Allow: loopback})
	n.await(t, "the delivery", delivered("h", 1))
	if len(r.bad) > 0 {
		t.Error(r.bad)
	}
}

// TestBadReceivers has one receiver of each kind, and a good one that none of them delays.
func TestBadReceivers(t *testing.T) {
	t.Parallel()
	n := newFake(t)
	var flaky atomic.Int64
	answers := map[string]http.HandlerFunc{
		"good":     nil,
		"hanging":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"error":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"huge": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"slow": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "."); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		},
		"flaky": func(w http.ResponseWriter, _ *http.Request) {
			if flaky.Add(1)%2 == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		},
	}
	receivers := make(map[string]*receiver)
	for name, answer := range answers {
		receivers[name] = newReceiver(t, answer)
		n.put(t, hookMutation(name, receivers[name].URL, nil))
		for range 5 {
			n.put(t, testEvent(name))
		}
	}
	s, stop := start(t, n, Config{Allow: loopback, Timeout: 300 * time.Millisecond})
	n.await(t, "the delivery to the good one", delivered("good", 5))
	n.await(t, "the delivery to the flaky one", delivered("flaky", 5))
	n.await(t, "the delivery to the one with a huge answer", delivered("huge", 5))
	const inTime = "in time" // on a busy machine any receiver may miss the timeout now and then
	for name, want := range map[string]string{"error": "500", "redirect": "302", "hanging": inTime} {
		n.await(t, name+" is known to fail with "+want, func(v *fsm.View) bool {
			h := v.Hook(name)
			return h.FailingSinceMs != 0 && strings.Contains(h.LastError, want)
		})
		if h := n.View().Hook(name); h.Pending != 5 || h.Delivered != 0 {
			t.Errorf("%s: %d pending, %d delivered", name, h.Pending, h.Delivered)
		}
	}
	stop()
	for _, a := range s.Attempts("redirect") {
		if a.Status != http.StatusFound && !strings.Contains(a.Error, inTime) {
			t.Errorf("redirect: %+v", a)
		}
	}
	for name := range answers {
		for _, a := range s.Attempts(name) {
			if strings.Contains(a.Error, context.Canceled.Error()) {
				t.Errorf("%s: the end of the sender is noted as a failure: %+v", name, a)
			}
		}
	}
}

// TestRepetitionsHaveTheSameID stops a leader that could not report, and starts another one.
func TestRepetitionsHaveTheSameID(t *testing.T) {
	t.Parallel()
	n, r := newFake(t), newReceiver(t, nil)
	n.put(t, hookMutation("h", r.URL, nil))
	for range 10 {
		n.put(t, testEvent("h"))
	}
	n.set(func() { n.fail = errAway })
	_, stop := start(t, n, Config{Allow: loopback})
	for ids, _ := r.count(); ids < 10; ids, _ = r.count() {
		time.Sleep(time.Millisecond)
	}
	stop()
	n.set(func() { n.fail = nil })
	start(t, n, Config{Allow: loopback})
	n.await(t, "the delivery of all", delivered("h", 10))
	if ids, all := r.count(); ids != 10 || all < 20 {
		t.Errorf("%d ids in %d deliveries; want 10 in 20 or more", ids, all)
	}
}

// TestOldEventsAreGivenUp has a receiver that is away for longer than the limit of the retries.
func TestOldEventsAreGivenUp(t *testing.T) {
	t.Parallel()
	n, away := newFake(t), atomic.Bool{}
	away.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	n.put(t, hookMutation("h", r.URL, func(h *fsmpb.Hook) { h.RetryForMs = 60_000 }), testEvent("h"), testEvent("h"))
	start(t, n, Config{Allow: loopback})
	n.await(t, "the first failure", func(v *fsm.View) bool { return v.Hook("h").FailingSinceMs != 0 })
	n.set(func() { n.now += 61_000 })
	n.await(t, "both are given up", func(v *fsm.View) bool { h := v.Hook("h"); return h.Failed == 2 && h.Pending == 0 })
	away.Store(false)
	n.put(t, testEvent("h"))
	n.await(t, "the delivery of a later one", delivered("h", 1))
	if h := n.View().Hook("h"); h.FailingSinceMs != 0 || h.LastError != "" {
		t.Errorf("the hook is said to fail: %+v", h)
	}
}

func TestPausedHook(t *testing.T) {
	t.Parallel()
	n, r := newFake(t), newReceiver(t, nil)
	n.put(t, hookMutation("h", r.URL, func(h *fsmpb.Hook) { h.Paused = true }), testEvent("h"), hookMutation("other", r.URL, nil), testEvent("other"))
	start(t, n, Config{Allow: loopback})
	n.await(t, "the delivery to the other hook", delivered("other", 1))
	if h := n.View().Hook("h"); h.Pending != 1 || h.Delivered != 0 {
		t.Errorf("paused: %+v", h)
	}
	n.put(t, hookMutation("h", r.URL, nil))
	n.await(t, "the delivery after the pause", delivered("h", 1))
}

// TestRefusedAddresses sends to names and forms of addresses that are not allowed. The
// receiver is on loopback and must see nothing.
func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	n := newFake(t)
	var names []string
	for i, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]", "2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1",
	} {
		name := "h" + strconv.Itoa(i)
		names = append(names, name)
		n.put(t, hookMutation(name, "http://"+host+":"+port+"/", nil), testEvent(name))
	}
	s, _ := start(t, n, Config{})
	for i, name := range names {
		n.await(t, name+" is refused", func(v *fsm.View) bool { return v.Hook(name).FailingSinceMs != 0 })
		if a := s.Attempts(name); len(a) == 0 || a[0].Status != 0 {
			t.Errorf("%d: attempts %+v", i, a)
		}
	}
	if ids, _ := r.count(); ids != 0 || len(r.bad) != 0 {
		t.Errorf("%d deliveries arrived", ids)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://example.com/hook?key=1": true, "http://example.com/": true, "https://[2606:4700::1]:8443/x": true,
		"": false, "example.com": false, "ftp://example.com/": false, "https://": false, "https:///x": false, "file:///etc/passwd": false,
		"https://user:secret@example.com/": false, "https://user@example.com/": false, "https://example.com/#x": false, "https:example.com": false,
		"https://example.com/" + strings.Repeat("x", 2048): false, "https://exa mple.com/": false, "javascript:alert(1)": false, "https://:443/": false,
		"https://example.com:65536/": false, "https://example.com:0/": false, "https://example.com:65535/": true,
	} {
		if err := CheckURL(text, true); ok != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if CheckURL("http://example.com/", false) == nil {
		t.Error("http:// passes without the flag")
	}
}

// TestRules moves the figures of a queue over the thresholds and back, with a new leader in
// between.
func TestRules(t *testing.T) {
	t.Parallel()
	n := newFake(t)
	n.put(t, hookMutation("h", "https://example.com/", func(h *fsmpb.Hook) { h.OldestAgeMs, h.Paused = 60_000, true }))
	n.put(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "j", Type: "mail"}}}}})
	alerts := func() (out []string) {
		for _, a := range n.View().Hook("h").Alerts {
			out = append(out, outbox.Kind(a.Kind).String()+" "+a.Subject)
		}
		return out
	}
	evaluate := func(r *rules) {
		r.next = time.Time{}
		r.evaluate(t.Context(), n.View())
	}
	s := New(Config{})
	first := newRules(s, n)
	evaluate(first)
	if got := alerts(); len(got) != 0 {
		t.Fatalf("alerts %q too early", got)
	}
	n.set(func() { n.now += 61_000; n.lag = 90_000 })
	evaluate(first)
	want := []string{"queue.stuck mail", "bucket.lag "}
	if got := alerts(); !slices.Equal(got, want) {
		t.Fatalf("alerts %q, want %q", got, want)
	}
	events := n.View().Hook("h").Pending
	second := newRules(s, n) // after a failover
	evaluate(second)
	evaluate(first)
	if got := n.View().Hook("h").Pending; got != events {
		t.Errorf("a second leader made %d events", got-events)
	}
	n.set(func() { n.lag = 0 })
	evaluate(second)
	if got := alerts(); !slices.Equal(got, want) {
		t.Errorf("resolved after one evaluation: %q", got)
	}
	evaluate(second)
	if got := alerts(); !slices.Equal(got, want[:1]) {
		t.Errorf("alerts %q, want %q", got, want[:1])
	}
	var last *outbox.Event
	v := n.View()
	for e := range v.HookEvents("h", outbox.EventID{}) {
		last = e
	}
	body := EventOf(last)
	if body.Type != "bucket.lag" || body.Data.State != "resolved" || body.Data.AlertID == "" || body.Data.AlertID == body.ID {
		t.Errorf("event %+v", body)
	}
}

func TestFailureRules(t *testing.T) {
	t.Parallel()
	n := newFake(t)
	n.put(t, hookMutation("h", "https://example.com/", func(h *fsmpb.Hook) { h.DeadGrew, h.Paused, h.Types = 20, true, []string{"m*"} }))
	one := int32(1)
	for _, kind := range []string{"mail", "film"} {
		for i := range 20 {
			id := kind + strconv.Itoa(i)
			n.put(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: kind, MaxAttempts: &one}}}}})
			n.put(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Max: 1, Types: []string{kind}}}})
			n.put(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: &fsmpb.Lease{JobId: id}, Error: "x"}}})
		}
	}
	r := newRules(New(Config{}), n)
	r.evaluate(t.Context(), n.View())
	var got []string
	for _, a := range n.View().Hook("h").Alerts {
		got = append(got, outbox.Kind(a.Kind).String()+" "+a.Subject)
	}
	if want := []string{"queue.failing mail", "queue.dead mail"}; !slices.Equal(got, want) {
		t.Errorf("alerts %q, want %q", got, want)
	}
	n.set(func() { n.now += 20 * 60_000 })
	n.put(t, testEvent("h")) // it moves the clock of the state
	for range calmAfter {
		r.next = time.Time{}
		r.evaluate(t.Context(), n.View())
	}
	if left := n.View().Hook("h").Alerts; len(left) != 0 {
		t.Errorf("alerts %+v after the failures", left)
	}
}
