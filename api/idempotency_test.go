package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// keyed is a write that can have an idempotency key, and a rig with the objects that it needs.
type keyed struct {
	path, body string
	between    func(g *rig) // called before the repetition
}

// keyedWrites has one for each route that writes: the tests below see to that.
var keyedWrites = map[string]keyed{
	"POST /v1/jobs":                     {path: "/v1/jobs", body: `{"type":"t"}`, between: (*rig).claimAll},
	"POST /v1/jobs/batch":               {path: "/v1/jobs/batch", body: `{"jobs":[{"type":"t"},{"id":"waiting","type":"t","payload":{"n":1}}]}`, between: (*rig).claimAll},
	"POST /v1/jobs/claim":               {path: "/v1/jobs/claim", body: `{"workerId":"w","max":1}`},
	"POST /v1/jobs/heartbeat":           {path: "/v1/jobs/heartbeat", body: `{"workerId":"w","jobs":[{"jobId":"running","token":TOKEN},{"jobId":"nope"}]}`},
	"POST /v1/jobs/complete":            {path: "/v1/jobs/complete", body: `{"workerId":"w","jobs":[{"jobId":"running","token":TOKEN},{"jobId":"nope"}]}`},
	"POST /v1/jobs/fail":                {path: "/v1/jobs/fail", body: `{"workerId":"w","jobs":[{"jobId":"running","token":TOKEN},{"jobId":"nope"}]}`},
	"POST /v1/jobs/release":             {path: "/v1/jobs/release", body: `{"workerId":"w","jobs":[{"jobId":"running","token":TOKEN}]}`, between: (*rig).claimAll},
	"POST /v1/jobs/{id}/heartbeat":      {path: "/v1/jobs/running/heartbeat", body: `{"workerId":"w","token":TOKEN}`},
	"POST /v1/jobs/{id}/progress":       {path: "/v1/jobs/running/progress", body: `{"workerId":"w","token":TOKEN,"progress":{"percent":7}}`},
	"POST /v1/jobs/{id}/complete":       {path: "/v1/jobs/running/complete", body: `{"workerId":"w","token":TOKEN}`},
	"POST /v1/jobs/{id}/fail":           {path: "/v1/jobs/running/fail", body: `{"workerId":"w","token":TOKEN}`, between: (*rig).claimAll},
	"POST /v1/jobs/{id}/release":        {path: "/v1/jobs/running/release", body: `{"workerId":"w","token":TOKEN}`, between: (*rig).claimAll},
	"POST /v1/jobs/{id}/force-complete": {path: "/v1/jobs/running/force-complete", body: `{"result":1}`, between: (*rig).claimAll},
	"POST /v1/jobs/cancel":              {path: "/v1/jobs/cancel", body: `{"ids":["running","waiting","nope"]}`},
	"POST /v1/jobs/retry":               {path: "/v1/jobs/retry", body: `{"ids":["dead","waiting","nope"]}`, between: (*rig).claimAll},
	"POST /v1/jobs/delete":              {path: "/v1/jobs/delete", body: `{"filter":{"all":true},"limit":1}`},
	"POST /v1/jobs/{id}/cancel":         {path: "/v1/jobs/running/cancel"},
	"POST /v1/jobs/{id}/retry":          {path: "/v1/jobs/dead/retry", between: (*rig).claimAll},
	"DELETE /v1/jobs/{id}":              {path: "/v1/jobs/dead"},
	"POST /v1/batches":                  {path: "/v1/batches", body: `{"jobs":[{"type":"t"}],"callback":{"type":"u"}}`, between: (*rig).claimAll},
	"PATCH /v1/queues/{type}":           {path: "/v1/queues/u", body: `{"maxRunning":2}`},
	"DELETE /v1/queues/{type}":          {path: "/v1/queues/set"},
	"POST /v1/queues/{type}/pause":      {path: "/v1/queues/u/pause"},
	"POST /v1/queues/{type}/resume":     {path: "/v1/queues/u/resume"},
	"PUT /v1/crons/{name}":              {path: "/v1/crons/new", body: `{"spec":"@hourly","job":{"type":"u"}}`},
	"DELETE /v1/crons/{name}":           {path: "/v1/crons/c"},
	"POST /v1/crons/{name}/pause":       {path: "/v1/crons/c/pause"},
	"POST /v1/crons/{name}/resume":      {path: "/v1/crons/c/resume"},
	"POST /v1/crons/{name}/trigger":     {path: "/v1/crons/c/trigger", between: (*rig).claimAll},
	"POST /v1/workers":                  {path: "/v1/workers", body: `{"name":"new"}`},
	"DELETE /v1/workers/{name}":         {path: "/v1/workers/w"},
	"POST /v1/workers/{name}/quiet":     {path: "/v1/workers/w/quiet"},
	"POST /v1/workers/{name}/unquiet":   {path: "/v1/workers/w/unquiet"},
	"DELETE /v1/hooks/{name}":           {path: "/v1/hooks/h"},
	"POST /v1/hooks/{name}/test":        {path: "/v1/hooks/h/test"},
}

// newKeyedRig has a job in each state that the writes above are about.
func newKeyedRig(t *testing.T, change ...func(*core.Config)) *rig {
	t.Helper()
	g := newRig(t, change...)
	g.submit("dead", "t")
	claimed := g.claim1()
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/dead/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"retryable":false}`, claimed.Token)))
	g.submit("running", "t")
	g.claim1()
	g.submit("waiting", "t")
	_, err := g.node.run(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
		Name: "c", Spec: "@hourly", Job: &fsmpb.NewJob{Type: "u"}, NextMs: startMs + 3_600_000,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	g.putHook("h")
	g.patch("set", `{"maxRunning":1}`)
	ok[v1.WorkerAnswer](t, g.do("POST", "/v1/workers", `{"name":"w"}`))
	return g
}

// putHook makes a hook for all events.
func (g *rig) putHook(name string) {
	g.t.Helper()
	_, err := g.node.run(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
		Name: name, Url: "https://example.com/", Kinds: uint64(outbox.AllKinds), Secret: []byte("0123456789abcdef01234567"),
	}}}})
	if err != nil {
		g.t.Fatal(err)
	}
}

// run applies one mutation.
func (f *fakeNode) run(m *fsmpb.Mutation) (fsm.Result, error) {
	res, _, err := f.apply(m)
	if err != nil {
		return fsm.Result{}, err
	}
	return res[0], res[0].Code.Err()
}

// claimAll changes all that waits.
func (g *rig) claimAll() {
	g.t.Helper()
	g.do("POST", "/v1/jobs/claim", `{"workerId":"other","max":100}`)
}

// sendKeyed sends a write with a key.
func (g *rig) sendKeyed(route, key string) answer {
	g.t.Helper()
	w := keyedWrites[route]
	method, _, _ := strings.Cut(route, " ")
	token := ""
	if j := g.node.Job("running"); j != nil {
		token = fmt.Sprint(1<<32 + 2) // the second claim of the first epoch
	}
	body := strings.ReplaceAll(w.body, "TOKEN", token)
	return g.do(method, w.path, body, v1.HeaderIdempotencyKey, key, "Prefer", v1.PreferStrict)
}

func TestEveryWriteTakesAKey(t *testing.T) {
	for _, rt := range newRig(t).s.routes {
		name := rt.Method + " " + rt.Path
		_, there := keyedWrites[name]
		secret := strings.HasPrefix(rt.Path, v1.PathTokens) || name == "PUT /v1/hooks/{name}" // it cannot be repeated
		if rt.At == core.LeaderOnly && !there && !secret {
			t.Errorf("%s is sent with no key by any test", name)
		}
		if rt.At != core.LeaderOnly && rt.At != core.InMemory && rt.Method != http.MethodGet {
			t.Errorf("%s does not go to the leader", name)
		}
	}
}

func TestRepeatedWritesGetTheFirstAnswer(t *testing.T) {
	for name, w := range keyedWrites {
		t.Run(name, func(t *testing.T) {
			g := newKeyedRig(t)
			first := g.sendKeyed(name, "k")
			if first.status != http.StatusOK || first.header.Get(v1.HeaderReplayed) != "" {
				t.Fatalf("answered %d %s %v", first.status, first.body, first.header)
			}
			if w.between != nil {
				w.between(g)
			}
			g.node.set(func(f *fakeNode) { f.now += 3000 })
			before := g.state()
			again := g.sendKeyed(name, "k")
			sameJSON(t, bytes.ReplaceAll(again.body, []byte(`"leaseAgeMs":3000,`), nil), string(first.body))
			if again.status != first.status || again.header.Get(v1.HeaderReplayed) != "true" ||
				again.header.Get(v1.HeaderLSN) != first.header.Get(v1.HeaderLSN) || first.header.Get(v1.HeaderLSN) == "" {
				t.Fatalf("answered %d %v, first %d %v", again.status, again.header, first.status, first.header)
			}
			if after := g.state(); after != before {
				t.Fatalf("it changed\n%s\nto\n%s", before, after)
			}
			// Under a new key it is another write.
			if other := g.sendKeyed(name, "k2"); other.header.Get(v1.HeaderReplayed) != "" {
				t.Fatalf("answered %d %s", other.status, other.body)
			}
			body := string(g.do("GET", "/metrics", "").body)
			if !strings.Contains(body, "osqueue_replays_total 1\n") {
				t.Error("the replay is not counted")
			}
		})
	}
}

// state returns all that the writes can change, in words.
func (g *rig) state() string {
	v := g.node.View()
	var b strings.Builder
	v.List(fsm.Index{}, allStatuses, 0, func(j *fsm.Job) bool {
		fmt.Fprintf(&b, "%s %s %d %d %v\n", j.ID, j.Status, j.Execution().Token, j.Execution().Heartbeat, j.Details())
		return true
	})
	v.Queues(func(q *fsm.QueueSettings) bool { fmt.Fprintln(&b, *q); return true })
	v.Crons("", func(c *fsm.Cron) bool { fmt.Fprintln(&b, c.Name, c.NextAt, c.UpdatedAt, c.Fired); return true })
	v.Batches("", func(x *fsm.JobBatch) bool { fmt.Fprintln(&b, x.ID, x.Total); return true })
	v.Workers("", func(w *fsm.Worker) bool { fmt.Fprintln(&b, w.Name, w.RegisteredAt); return true })
	return b.String()
}

// A key is for one request: not for another route, path, query or body.
func TestKeysAreForOneRequest(t *testing.T) {
	for name, w := range keyedWrites {
		t.Run(name, func(t *testing.T) {
			g := newKeyedRig(t)
			method, _, _ := strings.Cut(name, " ")
			g.do("POST", "/v1/workers", `{"name":"someone"}`, v1.HeaderIdempotencyKey, "k")
			before := g.state()
			a := g.sendKeyed(name, "k")
			p := refused(t, a, http.StatusConflict, v1.TagRequestConflict)
			if p.Committed != v1.CommittedNo || !strings.Contains(p.Detail, "fresh key") || g.state() != before {
				t.Fatalf("problem %+v", p)
			}
			first := g.sendKeyed(name, "k2")
			if first.status != http.StatusOK {
				t.Fatalf("answered %d %s", first.status, first.body)
			}
			if w.body != "" {
				other := strings.Replace(strings.ReplaceAll(w.body, "TOKEN", fmt.Sprint(1<<32+2)), "{", "{ ", 1)
				refused(t, g.do(method, w.path, other, v1.HeaderIdempotencyKey, "k2"), http.StatusConflict, v1.TagRequestConflict)
			}
			refused(t, g.do(method, w.path+"?x=1", strings.ReplaceAll(w.body, "TOKEN", fmt.Sprint(1<<32+2)), v1.HeaderIdempotencyKey, "k2"),
				http.StatusConflict, v1.TagRequestConflict)
		})
	}
}

func TestBadKeys(t *testing.T) {
	g := newRig(t)
	for name, key := range map[string]string{"space": "a b", "control": "a\tb", "not ASCII": "ü", "long": strings.Repeat("k", 257), "DEL": "a\x7f"} {
		p := refused(t, g.do("POST", "/v1/jobs", `{}`, v1.HeaderIdempotencyKey, key), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.Contains(p.Detail, v1.HeaderIdempotencyKey) || p.Committed != v1.CommittedNo {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, keys := range [][]string{{""}, {"a", "b"}, {"a", "a"}} {
		r := request("POST", "/v1/jobs", `{}`)
		r.Header[v1.HeaderIdempotencyKey] = keys
		refused(t, g.send(r), http.StatusBadRequest, v1.TagBadRequest)
	}
	if g.node.written() != 0 {
		t.Fatal("it was written all the same")
	}
	for _, key := range []string{"!", "~", `"quoted"`, strings.Repeat("k", 256)} {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{}`, v1.HeaderIdempotencyKey, key))
	}
	// Reads have no use for one.
	ok[v1.Stats](t, g.do("GET", "/v1/stats", "", v1.HeaderIdempotencyKey, "a b"))
}

// A refused write has not taken effect, and can be sent again.
func TestRefusedWritesKeepTheirKey(t *testing.T) {
	g := newRig(t)
	g.patch("t", `{"maxJobs":1}`)
	g.submit("a", "t")
	send := func() answer { return g.do("POST", "/v1/jobs", `{"type":"t"}`, v1.HeaderIdempotencyKey, "k") }
	refused(t, send(), http.StatusTooManyRequests, v1.TagTooManyJobs)
	refused(t, send(), http.StatusTooManyRequests, v1.TagTooManyJobs)
	g.patch("t", `{"maxJobs":null}`)
	a := send()
	if ok[v1.Enqueued](t, a); a.header.Get(v1.HeaderReplayed) != "" {
		t.Fatal("it is said to be a repetition")
	}
	sameJSON(t, send().body, string(a.body))
}

// The second of two reports by token is a duplicate, and stays one.
func TestRepeatedDuplicatesAreDuplicates(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	body := fmt.Sprintf(`{"workerId":"w","token":%d}`, g.claim1().Token)
	for i, want := range []bool{false, true} {
		for range 3 {
			a := g.do("POST", "/v1/jobs/a/complete", body, v1.HeaderIdempotencyKey, fmt.Sprint("k", i))
			if out := ok[v1.Reported](t, a); out.Duplicate != want || out.Status != v1.StatusCompleted {
				t.Fatalf("under key %d answered %s", i, a.body)
			}
		}
	}
	// The older form of a report has no body to repeat, but the LSN.
	first := g.do("POST", "/v1/jobs/a/complete", `{"workerId":"w"}`, v1.HeaderIdempotencyKey, "old")
	again := g.do("POST", "/v1/jobs/a/complete", `{"workerId":"w"}`, v1.HeaderIdempotencyKey, "old")
	if first.status != http.StatusNoContent || again.status != first.status {
		t.Fatalf("answered %d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	refused(t, g.do("POST", "/v1/jobs/a/complete", `{"workerId":"x"}`, v1.HeaderIdempotencyKey, "k0"), http.StatusConflict, v1.TagRequestConflict)
}

func TestRepeatedClaims(t *testing.T) {
	g := newRig(t)
	send := func(wait int) v1.Claimed {
		return ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", fmt.Sprintf(`{"workerId":"w","max":2,"waitMs":%d}`, wait), v1.HeaderIdempotencyKey, "k"))
	}
	// One that found nothing looks again.
	for range 2 {
		if got := send(0); len(got.Jobs) != 0 || got.LSN != "" {
			t.Fatalf("got %+v", got)
		}
	}
	g.submit("a", "t")
	g.submit("b", "t")
	g.submit("c", "t")
	first := send(0)
	if len(first.Jobs) != 2 {
		t.Fatalf("got %+v", first)
	}
	if again := send(0); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Fatalf("got %+v, first %+v", again, first)
	}
	// What has ended since is not given out again; nor is anything else.
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, first.Jobs[0].Token)))
	if again := send(0); len(again.Jobs) != 1 || again.Jobs[0].JobID != "b" || again.LSN != first.LSN {
		t.Fatalf("got %+v", again)
	}
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/b/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, first.Jobs[1].Token)))
	if again := send(0); len(again.Jobs) != 0 || again.LSN != first.LSN {
		t.Fatalf("got %+v", again)
	}
	refused(t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","max":2,"waitMs":5}`, v1.HeaderIdempotencyKey, "k"),
		http.StatusConflict, v1.TagRequestConflict)
}

// A claim with a key can wait, and is woken.
func TestClaimsWithAKeyWait(t *testing.T) {
	g := newRig(t)
	got := make(chan answer, 1)
	go func() {
		got <- g.send(request("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":60000}`, v1.HeaderIdempotencyKey, "k"))
	}()
	eventually(t, "the claim sleeps", g.asleep(1))
	g.submit("a", "t")
	first := <-got
	if j := ok[v1.ClaimedJob](t, first); j.JobID != "a" {
		t.Fatalf("got %s", first.body)
	}
	// Sent again, it does not wait.
	again := g.do("POST", "/v1/jobs/claim", `{"workerId":"w","waitMs":60000}`, v1.HeaderIdempotencyKey, "k")
	sameJSON(t, again.body, string(first.body))
}

// A worker must not miss that it is to stop because its answer was lost.
func TestRepeatedHeartbeatsTellOfCancellation(t *testing.T) {
	g := newKeyedRig(t)
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/running/cancel", ""))
	for _, route := range []string{"POST /v1/jobs/{id}/heartbeat", "POST /v1/jobs/heartbeat", "POST /v1/jobs/{id}/progress"} {
		first := g.sendKeyed(route, route[5:])
		if !strings.Contains(string(first.body), `"cancel":true`) {
			t.Fatalf("%s: answered %s", route, first.body)
		}
		sameJSON(t, g.sendKeyed(route, route[5:]).body, string(first.body))
	}
}

func TestKeysAreForgotten(t *testing.T) {
	g := newRig(t)
	send := func() (v1.Enqueued, bool) {
		a := g.do("POST", "/v1/jobs", `{}`, v1.HeaderIdempotencyKey, "k")
		return ok[v1.Enqueued](t, a), a.header.Get(v1.HeaderReplayed) == "true"
	}
	first, _ := send()
	g.node.tick(24 * time.Hour)
	if again, replayed := send(); again != first || !replayed {
		t.Fatalf("got %+v, first %+v", again, first)
	}
	g.node.tick(time.Millisecond)
	if later, replayed := send(); later.JobID == first.JobID || replayed {
		t.Fatalf("got %+v", later)
	}
}

// The key is forwarded to the leader, whichever node received it.
func TestKeysAreForwarded(t *testing.T) {
	p := newPair(t)
	const body = `{"type":"t"}`
	first := p.follower.do("POST", "/v1/jobs?a=1;b=%zz", body, v1.HeaderIdempotencyKey, "k")
	ok[v1.Enqueued](t, first)
	if h := <-p.seen; h.Get(v1.HeaderIdempotencyKey) != "k" {
		t.Fatalf("the leader got %v", h)
	}
	for _, g := range []*rig{p.follower, p.leader} {
		again := g.do("POST", "/v1/jobs?a=1;b=%zz", body, v1.HeaderIdempotencyKey, "k")
		sameJSON(t, again.body, string(first.body))
		if again.header.Get(v1.HeaderReplayed) != "true" {
			t.Fatalf("headers %v", again.header)
		}
	}
	refused(t, p.follower.do("POST", "/v1/jobs", `{}`, v1.HeaderIdempotencyKey, "k"), http.StatusConflict, v1.TagRequestConflict)
	refused(t, p.follower.do("POST", "/v1/jobs", `{}`, v1.HeaderIdempotencyKey, "a b"), http.StatusBadRequest, v1.TagBadRequest)
	r := request("POST", "/v1/jobs", `{}`)
	r.Header[v1.HeaderIdempotencyKey] = []string{"a", "b"}
	refused(t, p.follower.send(r), http.StatusBadRequest, v1.TagBadRequest)
}

// A change of one id that is sent again answers the same bytes, and one that did
// nothing can be sent again with its key.
func TestRepeatedChangeOfOne(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.submit("b", "t")
	key := []string{v1.HeaderIdempotencyKey, "k1"}
	first := g.do("POST", v1.PathCancel, `{"ids":["a"]}`, key...)
	again := g.do("POST", v1.PathCancel, `{"ids":["a"]}`, key...)
	if first.status != 200 || again.status != 200 || !bytes.Equal(first.body, again.body) || again.header.Get(v1.HeaderReplayed) != "true" {
		t.Errorf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	key[1] = "k2"
	if a := g.do("POST", v1.PathCancel, `{"ids":["late"]}`, key...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.submit("late", "t")
	a := g.do("POST", v1.PathCancel, `{"ids":["late"]}`, key...)
	if ok[v1.Changed](t, a).Count != 1 {
		t.Errorf("the job was not there when the key was used first: %s", a.body)
	}
}

// A cron needs a job; a read that waits for nothing is no timeout.
func TestNothingIsNoDefault(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{`{"spec":"@daily"}`, `{"spec":"@daily","job":null}`} {
		refused(t, g.do("PUT", v1.PathCrons+"/c", body), 400, v1.TagBadRequest)
	}
	refused(t, g.do("GET", "/v1/jobs?limit=1&limit=abc", ""), 400, v1.TagBadRequest)
	refused(t, g.do("POST", "/v1/jobs?bogus=1", "{}", "Prefer", v1.PreferStrict), 400, v1.TagUnknownMember)
	for _, path := range []string{"/v1/stats?waitMs=0", "/v1/jobs?waitMs=0", "/v1/workers?waitMs=0"} {
		if a := g.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// A registered worker that waits for a job counts as alive.
func TestWaitingWorkerLives(t *testing.T) {
	g := newRig(t)
	settings := g.node.View().Meta().Settings
	settings.WorkerTimeoutMs = 1
	g.useSettings(settings)
	if a := g.do("POST", v1.PathWorkers, `{"name":"w"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	before := g.node.View().LSN()
	g.do("POST", v1.PathClaim, `{"workerId":"w","waitMs":700}`)
	if after := g.node.View().LSN(); after == before {
		t.Errorf("nothing was heard of the worker for %s", 700*time.Millisecond)
	}
}
