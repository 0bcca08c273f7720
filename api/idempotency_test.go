package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	"PATCH /v1/jobs/{id}":               {path: "/v1/jobs/waiting", body: `{"priority":7}`, between: (*rig).claimAll},
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
	"POST /v1/jobs/{id}/steps":          {path: "/v1/jobs/running/steps", body: `{"workerId":"w","token":TOKEN,"name":"s","value":1}`},
	"POST /v1/jobs/{id}/suspend":        {path: "/v1/jobs/running/suspend", body: `{"workerId":"w","token":TOKEN,"forMs":100000}`},
	"POST /v1/jobs/{id}/signals/{name}": {path: "/v1/jobs/waiting/signals/go", body: `{"value":1}`},
	"POST /v1/batches/{id}/retry":       {path: "/v1/batches/flow/retry", body: `{"from":"flow-a"}`},
	"POST /links/{name}":                {path: "/links/" + waitingLink},
	"POST /v1/jobs/{id}/artefacts":      {path: "/v1/jobs/running/artefacts", body: `{"workerId":"w","token":TOKEN,"name":"n","id":"art"}`},
	"POST /v1/artefacts":                {path: "/v1/artefacts", body: `{"size":1,"sha256":"` + strings.Repeat("0", 64) + `"}`},
	"POST /v1/jobs/{id}/throttle":       {path: "/v1/jobs/running/throttle", body: `{"workerId":"w","token":TOKEN,"limit":"k","forMs":1000}`},
	"PUT /v1/limits/{name}":             {path: "/v1/limits/k", body: `{"maxRunning":1}`},
	"DELETE /v1/limits/{name}":          {path: "/v1/limits/set"},
	"POST /v1/limits/{name}/hold":       {path: "/v1/limits/k/hold", body: `{"forMs":1000}`},
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

// waitingLink ends the path of a link whose secret is zero.
var waitingLink = base64.RawURLEncoding.EncodeToString([]byte("waiting")) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 16))

// newKeyedRig has a job in each state that the writes above are about.
func newKeyedRig(t *testing.T, change ...func(*core.Config)) *rig {
	t.Helper()
	g := newRig(t, change...)
	g.submit("dead", "t")
	claimed := g.claim1()
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/dead/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"retryable":false}`, claimed.Token)))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"running","type":"t","payload":{"n":1},"limits":["k"]}`))
	g.claim1()
	g.submit("waiting", "t")
	g.addArtefact("art", "bytes")
	ok[v1.Done](t, g.do("PUT", "/v1/limits/set", `{"maxRunning":1}`))
	ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"flow","jobs":[{"id":"flow-a","type":"flow"}]}`))
	hash := sha256.Sum256(make([]byte, 16))
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_MakeLink{MakeLink: &fsmpb.MakeLink{JobId: "waiting", Signal: "go", Hash: hash[:], UntilMs: startMs + 100_000}}})
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
		secret := strings.HasPrefix(rt.Path, v1.PathTokens) || name == "PUT /v1/hooks/{name}" || name == "POST /v1/jobs/{id}/links" // it cannot be repeated
		member := strings.HasPrefix(rt.Path, v1.PathMembers)                                                                        // a repetition finds what holds
		if rt.At == core.LeaderOnly && !there && !secret && !member {
			t.Errorf("%s is sent with no key by any test", name)
		}
		if rt.At != core.LeaderOnly && rt.At != core.InMemory && rt.Method != http.MethodGet && name != "PUT /v1/artefacts/{id}" && rt.Path != v1.PathDrain { // which change no state
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
	v.Queues(func(q *fsm.QueueSettings) bool { fmt.Fprintln(&b, q); return true })
	for c := range v.Crons("") {
		fmt.Fprintln(&b, c.Name, c.NextAtMs, c.UpdatedAtMs, c.Fired)
	}
	for x := range v.Batches("") {
		fmt.Fprintln(&b, x.Id, x.Total)
	}
	for w := range v.Workers("") {
		fmt.Fprintln(&b, w.Name, w.RegisteredAtMs)
	}
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
				body := strings.ReplaceAll(w.body, "TOKEN", fmt.Sprint(1<<32+2))
				other := strings.Replace(body, "{", "{ ", 1)
				if isBusy(method, w.path) { // its values count, not its bytes
					if a := g.do(method, w.path, other, v1.HeaderIdempotencyKey, "k2"); a.header.Get(v1.HeaderReplayed) == "" {
						t.Errorf("answered %d %s", a.status, a.body)
					}
					other = strings.NewReplacer(`"workerId":"w"`, `"workerId":"v"`, `"type":"t"`, `"type":"v"`).Replace(body)
				}
				refused(t, g.do(method, w.path, other, v1.HeaderIdempotencyKey, "k2"), http.StatusConflict, v1.TagRequestConflict)
			}
			refused(t, g.do(method, w.path+"?x=1", strings.ReplaceAll(w.body, "TOKEN", fmt.Sprint(1<<32+2)), v1.HeaderIdempotencyKey, "k2"),
				http.StatusConflict, v1.TagRequestConflict)
		})
	}
}

func isBusy(method, path string) bool {
	_, _, busy := busyCall(httptest.NewRequest(method, path, nil))
	return busy
}

// A client may repeat a call of a stream over HTTP, and the other way round: in protobuf first, or in JSON.
func TestARepetitionMayHaveAnotherEncoding(t *testing.T) {
	defer func() { overStream = false }()
	tried := 0
	for name, w := range keyedWrites {
		method, _, _ := strings.Cut(name, " ")
		if !isBusy(method, w.path) {
			continue
		}
		tried++
		for _, first := range []bool{false, true} {
			g := newKeyedRig(t)
			overStream = first
			a := g.sendKeyed(name, "k")
			if w.between != nil {
				w.between(g)
			}
			before := g.state()
			overStream = !first
			again := g.sendKeyed(name, "k")
			sameJSON(t, again.body, string(a.body))
			if a.status != http.StatusOK || again.status != http.StatusOK || again.header.Get(v1.HeaderReplayed) != "true" || g.state() != before {
				t.Errorf("%s, over a stream first: %v: answered %d %s, then %d %s", name, first, a.status, a.body, again.status, again.body)
			}
			other := strings.NewReplacer(`"workerId":"w"`, `"workerId":"v"`, `"type":"t"`, `"type":"v"`).Replace(strings.ReplaceAll(w.body, "TOKEN", "7"))
			overStream = first
			refused(t, g.do(method, w.path, other, v1.HeaderIdempotencyKey, "k"), http.StatusConflict, v1.TagRequestConflict)
			overStream = false
		}
	}
	if tried != len(busy) {
		t.Errorf("%d calls were tried, want %d", tried, len(busy))
	}
}
