package dtq

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/compat/compattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a handler around an HTTP API whose answers the test sets.
type rig struct {
	t      *testing.T
	h      *Handler
	leader Leader

	mu     sync.Mutex
	script map[string]http.HandlerFunc // by method and target
	calls  []string                    // method, target, body
}

func newRig(t *testing.T) *rig {
	g := &rig{t: t, leader: Leader{Self: true}, script: map[string]http.HandlerFunc{}}
	g.h = New(Config{
		Native: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, r.Method, " ", r.URL.Path)
		}),
		Calls:    compattest.API{Handler: http.HandlerFunc(g.native)},
		Leader:   func(*http.Request) Leader { return g.leader },
		Timeouts: Timeouts{Commit: 200 * time.Millisecond, Sign: 200 * time.Millisecond, Fresh: 50 * time.Millisecond},
	})
	return g
}

func (g *rig) native(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.calls = append(g.calls, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	does := g.script[r.Method+" "+r.RequestURI]
	g.mu.Unlock()
	if does == nil {
		does = refuse(http.StatusNotFound, v1.TagNotFound)
	}
	does(w, r)
}

// on sets the HTTP API's answer.
func (g *rig) on(call string, does http.HandlerFunc) { g.script[call] = does }

func say(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func refuse(status int, tag string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"_tag":%q,"detail":"so says %s","status":%d}`, tag, tag, status)
	}
}

// silent answers only after the caller has given up.
func silent(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

type result struct {
	status int
	header http.Header
	body   string
}

func (g *rig) do(method, path, body string) result {
	g.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return g.send(r)
}

func (g *rig) send(r *http.Request) result {
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return result{w.Code, w.Header(), strings.TrimSpace(w.Body.String())}
}

func (g *rig) post(path, body string) result { return g.do(http.MethodPost, path, body) }

func (g *rig) expect(r result, status int, body string) {
	g.t.Helper()
	if r.status != status || r.body != body || r.header.Get("Content-Type") != "application/json" {
		g.t.Errorf("got %d %s %s, want %d %s", r.status, r.header, r.body, status, body)
	}
}

// called compares the calls since its last use with the wanted ones.
func (g *rig) called(want ...string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.calls, want) {
		g.t.Errorf("called\n %s\nwant\n %s", strings.Join(g.calls, "\n "), strings.Join(want, "\n "))
	}
	g.calls = nil
}

func TestRoutes(t *testing.T) {
	g := newRig(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/submit_task", 405, allowPost},
		{"HEAD", "/get_pending_task", 405, allowPost},
		{"PUT", "/complete_task", 405, allowPost},
		{"DELETE", "/register_worker", 405, allowPost},
		{"GET", "/heartbeat", 405, allowPost},
		{"GET", "/raft_message", 405, allowPost},
		{"POST", "/status", 405, allowGet},
		{"POST", "/task/x", 405, allowGet},
		{"OPTIONS", "/submit_task", 200, allowPost},
		{"OPTIONS", "/task/x", 200, allowGet},
		// The node's own.
		{"GET", "/status", http.StatusTeapot, ""},
		{"HEAD", "/status", http.StatusTeapot, ""},
		{"GET", "/status/", http.StatusTeapot, ""},
		{"POST", "/submit_task/", http.StatusTeapot, ""},
		{"GET", "/", http.StatusTeapot, ""},
		{"POST", "/v1/jobs", http.StatusTeapot, ""},
		{"OPTIONS", "/v1/jobs", http.StatusTeapot, ""},
		{"GET", "/task", http.StatusTeapot, ""},
		// Nothing.
		{"GET", "/task/", 404, ""},
		{"GET", "/task/a/b", 404, ""},
		{"GET", "/task/a%2Fb", 404, ""},
		{"GET", "/task/" + strings.Repeat("x", 1025), 404, ""},
	} {
		if r := g.do(c.method, c.path, ""); r.status != c.status || r.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, allow %q", c.method, c.path, r.status, r.header.Get("Allow"))
		}
	}
	g.called()
}

// The HTTP API answers the preflight requests of browsers.
func TestPreflight(t *testing.T) {
	g := newRig(t)
	r := httptest.NewRequest(http.MethodOptions, "/submit_task", nil)
	r.Header.Set("Access-Control-Request-Method", "POST")
	if got := g.send(r); got.status != http.StatusTeapot {
		t.Errorf("answered %+v", got)
	}
}

func TestNotTheLeader(t *testing.T) {
	g := newRig(t)
	g.leader = Leader{Node: "n2", URL: "http://127.0.0.1:8081"}
	for _, path := range []string{"/submit_task", "/get_pending_task", "/complete_task"} {
		for _, body := range []string{`{}`, `{"nope`, ``} {
			g.expect(g.post(path, body), 503, `{"error":"Not the leader","leader":"n2","redirect_to":"http://127.0.0.1:8081"}`)
		}
	}
	g.leader = Leader{}
	g.expect(g.post("/submit_task", `{}`), 503, `{"error":"Not the leader","leader":null,"redirect_to":null}`)
	g.called()
	// Every node answers the other routes.
	g.on("POST /v1/workers", say(`{"lsn":"1-1"}`))
	g.expect(g.post("/register_worker", `{"worker_id":"w"}`), 200, `{"message":"Registered"}`)
	g.expect(g.do(http.MethodGet, "/task/x", ""), 404, `{"error":"Task not found"}`)
}

func TestSubmit(t *testing.T) {
	g := newRig(t)
	var got v1.NewJob
	g.on("POST /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		_, body, _ := strings.Cut(g.calls[len(g.calls)-1], "/v1/jobs ")
		got = v1.NewJob{}
		if err := json.Unmarshal([]byte(body), &got, lenient); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"jobId":%q}`, got.ID)
	})
	r := g.post("/submit_task", `{"task_type":7,"payload":{"b":1,"a":1,"a":2},"task_id":"mine"}`)
	g.expect(r, 202, `{"status":"accepted","task_id":"`+got.ID+`"}`)
	if len(got.ID) != 36 || got.ID[14] != '4' || got.Type != "json:7" || string(got.Payload) != `{"b":1,"a":1,"a":2}` {
		t.Errorf("enqueued %+v", got)
	}
	if g.post("/submit_task", `{}`); got.Type != "" || string(got.Payload) != "null" {
		t.Errorf("enqueued %+v", got)
	}
	if r := g.post("/submit_task", `null`); r.status != 400 {
		t.Errorf("null: %+v", r)
	}
}

// Each refusal of the HTTP API is translated.
func TestRefusals(t *testing.T) {
	for tag, c := range map[string]struct {
		status, answered int
		text             string
	}{
		v1.TagNotLeader:      {503, 503, "Not the leader (current leader: n3)"},
		v1.TagNoLeader:       {503, 503, "Not the leader (current leader: n3)"},
		v1.TagUnknownOutcome: {503, 503, commitTimeout},
		v1.TagLeaderGone:     {503, 503, commitTimeout},
		v1.TagTimeout:        {504, 503, commitTimeout},
		v1.TagOverloaded:     {503, 503, "so says overloaded"},
		v1.TagFlushLag:       {503, 503, "so says flush_lag"},
		v1.TagTooManyJobs:    {429, 429, "so says too_many_jobs"},
		v1.TagTooLarge:       {413, 413, "so says too_large"},
		v1.TagBadRequest:     {400, 400, "so says bad_request"},
		v1.TagInternal:       {500, 500, "so says internal_error"},
	} {
		g := newRig(t)
		g.leader.Node = "n3"
		g.on("POST /v1/jobs", refuse(c.status, tag))
		g.on("POST /v1/jobs/claim", refuse(c.status, tag))
		g.on("POST /v1/jobs/x/force-complete", refuse(c.status, tag))
		for path, body := range map[string]string{"/submit_task": `{}`, "/get_pending_task": `{}`, "/complete_task": `{"task_id":"x"}`} {
			g.expect(g.post(path, body), c.answered, `{"error":"`+c.text+`"}`)
		}
	}
}

// A call without a complete answer in time may have taken effect.
func TestNoAnswer(t *testing.T) {
	half := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jobId`)
		panic(http.ErrAbortHandler)
	}
	for name, does := range map[string]http.HandlerFunc{"silent": silent, "half": half} {
		g := newRig(t)
		g.on("POST /v1/jobs/claim", does)
		g.on("POST /v1/jobs/x/force-complete", does)
		for path, body := range map[string]string{"/get_pending_task": `{}`, "/complete_task": `{"task_id":"x"}`} {
			t.Run(name+path, func(t *testing.T) {
				g.t = t
				g.expect(g.post(path, body), 503, `{"error":"Commit timeout"}`)
			})
		}
	}
	g := newRig(t)
	g.leader.Node = ""
	g.on("POST /v1/jobs", refuse(503, v1.TagNoLeader))
	g.expect(g.post("/submit_task", `{}`), 503, `{"error":"Not the leader (current leader: None)"}`)
	g.on("POST /v1/jobs/claim", say(`nonsense`))
	g.expect(g.post("/get_pending_task", `{}`), 500, `{"error":"the node failed to answer"}`)
}

// A panic of the HTTP API is not turned into an answer.
func TestPanicsPropagate(t *testing.T) {
	g := newRig(t)
	g.on("POST /v1/jobs", func(http.ResponseWriter, *http.Request) { panic("boom") })
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v", p)
		}
	}()
	g.post("/submit_task", `{}`)
}

func TestAssign(t *testing.T) {
	g := newRig(t)
	const claim = `POST /v1/jobs/claim {"workerId":"w 1"}`
	g.on("POST /v1/jobs/claim", say(`{}`))
	g.expect(g.post("/get_pending_task", `{"worker_id":"w 1","task_type":"x"}`), 404, `{"message":"No pending tasks"}`)
	g.called("GET /v1/workers/w%201?consistency=local", claim)
	g.on("POST /v1/jobs/claim", say(`{"jobId":"j","type":"json:7","payload":{"b":1,"a":2},"attempts":1,"token":5,"leaseMs":30000,"createdAt":1795255611258}`))
	g.expect(g.post("/get_pending_task", `{"worker_id":"w 1"}`), 200,
		`{"created_at":"`+localTime(1795255611258)+`","payload":{"a":2,"b":1},"status":"pending","task_id":"j","task_type":7}`)
	g.called("GET /v1/workers/w%201?consistency=local", claim)
	g.post("/get_pending_task", `{}`)
	g.called("GET /v1/workers/json:null?consistency=local", `POST /v1/jobs/claim {"workerId":"json:null"}`)
}

func TestComplete(t *testing.T) {
	g := newRig(t)
	g.on("POST /v1/jobs/a%2Fb/force-complete", say(`{"lsn":"1-1"}`))
	const done = `{"message":"Task completed"}`
	g.expect(g.post("/complete_task", `{"task_id":"a/b","result":{"b":1}}`), 200, done)
	g.called(`POST /v1/jobs/a%2Fb/force-complete {"result":{"b":1}}`)
	g.expect(g.post("/complete_task", `{"task_id":"unknown"}`), 200, done)
	g.called(`POST /v1/jobs/unknown/force-complete {"result":null}`)
	for _, id := range []string{`null`, `7`, `""`, `["x"]`, `"` + strings.Repeat("x", 1025) + `"`} {
		g.expect(g.post("/complete_task", `{"task_id":`+id+`}`), 200, done)
	}
	g.expect(g.post("/complete_task", `{}`), 200, done)
	g.called()
}

func TestShow(t *testing.T) {
	g := newRig(t)
	const job = `{"id":"j","status":"unclaimed","createdAt":1795255611258,"attempts":0,"maxAttempts":0,"heartbeat":0}`
	want := `{"created_at":"` + localTime(1795255611258) + `","payload":null,"status":"pending","task_id":"j","task_type":null}`
	g.on("GET /v1/jobs/j", say(job))
	g.expect(g.do(http.MethodGet, "/task/j", ""), 200, want)
	g.called("GET /v1/jobs/j")
	for name, fault := range map[string]http.HandlerFunc{"no leader": refuse(503, v1.TagNoLeader), "silent": silent} {
		g.on("GET /v1/jobs/j", fault)
		g.on("GET /v1/jobs/j?consistency=local", say(job))
		if r := g.do(http.MethodGet, "/task/j", ""); r.status != 200 || r.body != want {
			t.Errorf("%s: %+v", name, r)
		}
		g.called("GET /v1/jobs/j", "GET /v1/jobs/j?consistency=local")
	}
	g.on("GET /v1/jobs/j?consistency=local", refuse(404, v1.TagNotFound))
	g.expect(g.do(http.MethodGet, "/task/j", ""), 404, `{"error":"Task not found"}`)
}

func TestHeartbeatCalls(t *testing.T) {
	g := newRig(t)
	const (
		register = `POST /v1/workers {"name":"w"}`
		look     = "GET /v1/workers/w"
		ok       = `{"message":"OK"}`
	)
	g.on("POST /v1/workers", say(`{"lsn":"1-1"}`))
	g.on("POST /v1/jobs/heartbeat", say(`{"results":[],"lsn":"1-2"}`))
	g.expect(g.post("/register_worker", `{"worker_id":"w"}`), 200, `{"message":"Registered"}`)
	g.called(register)
	// An unknown worker is registered.
	g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, ok)
	g.called(look, register, look)
	// The worker runs no task.
	g.on(look, say(`{"name":"w","registeredAt":1,"lastSeen":1,"running":0}`))
	g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, ok)
	g.called(look, register)
	// The worker runs tasks.
	g.on(look, say(`{"name":"w","registeredAt":1,"lastSeen":1,"running":2,"jobIds":["a","b"]}`))
	g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, ok)
	g.called(look, `POST /v1/jobs/heartbeat {"workerId":"w","jobs":[{"jobId":"a"},{"jobId":"b"}]}`)
	// The worker runs more tasks than its entry names.
	g.on(look, say(`{"name":"w","registeredAt":1,"lastSeen":1,"running":3,"jobIds":["a"]}`))
	g.on("GET /v1/jobs?status=in_progress&worker=w", say(`{"jobs":[{"id":"a"},{"id":"b"}],"nextCursor":"n"}`))
	g.on("GET /v1/jobs?cursor=n&status=in_progress&worker=w", say(`{"jobs":[{"id":"c"}]}`))
	g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, ok)
	g.called(look, "GET /v1/jobs?status=in_progress&worker=w", "GET /v1/jobs?cursor=n&status=in_progress&worker=w",
		`POST /v1/jobs/heartbeat {"workerId":"w","jobs":[{"jobId":"a"},{"jobId":"b"},{"jobId":"c"}]}`)
	// A missing name is the name null.
	g.expect(g.post("/heartbeat", `{}`), 200, ok)
	g.called("GET /v1/workers/json:null", `POST /v1/workers {"name":"json:null"}`, "GET /v1/workers/json:null")
}

// A node without a leader accepts a heartbeat, also with a name that no worker can
// have.
func TestHeartbeatsWithoutLeader(t *testing.T) {
	for name, does := range map[string]http.HandlerFunc{
		"no leader": refuse(503, v1.TagNoLeader), "unknown": refuse(503, v1.TagUnknownOutcome), "silent": silent, "broken": say("nonsense"),
		"bad name": refuse(400, v1.TagBadRequest), "bucket": refuse(503, v1.TagFlushLag),
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.on("POST /v1/workers", does)
			g.on("GET /v1/workers/w", does)
			g.expect(g.post("/register_worker", `{"worker_id":"w"}`), 200, `{"message":"Registered"}`)
			g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, `{"message":"OK"}`)
		})
	}
}

// A task with an id that is too long for a path does not exist.
func TestTaskWithALongID(t *testing.T) {
	g := newRig(t)
	g.expect(g.do("GET", "/task/"+strings.Repeat("x", idMax+1), ""), 404, `{"error":"Task not found"}`)
}

// Only names that a worker can have are recorded: others can be as long as a body.
func TestNamesThatAreRemembered(t *testing.T) {
	for name, does := range map[string]http.HandlerFunc{
		"taken": say(`{"lsn":"1-1"}`), "refused": refuse(400, v1.TagBadRequest), "no leader": refuse(503, v1.TagNoLeader),
	} {
		g := newRig(t)
		g.on("POST /v1/workers", does)
		long := strings.Repeat("w", 2*idMax)
		for _, worker := range []string{"w", long} {
			g.post("/register_worker", `{"worker_id":"`+worker+`"}`)
		}
		if _, there := g.h.held.began.get("w"); there != (name != "refused") {
			t.Errorf("%s: a worker is remembered: %t", name, there)
		}
		if _, there := g.h.held.began.get(long); there {
			t.Errorf("%s: a long name is remembered", name)
		}
	}
}

// The lease of a task that a worker never received, or has forgotten, is not renewed.
func TestHeartbeatsRenewWhatIsWorkedOn(t *testing.T) {
	g := newRig(t)
	holds := func(ids string) {
		entry := say(`{"name":"w","running":1,"jobIds":[` + ids + `]}`)
		g.on("GET /v1/workers/w", entry)
		g.on("GET /v1/workers/w?consistency=local", entry)
	}
	renewed := func(want string) {
		t.Helper()
		g.calls = nil
		g.expect(g.post("/heartbeat", `{"worker_id":"w"}`), 200, `{"message":"OK"}`)
		if last := g.calls[len(g.calls)-1]; want != "" && last != `POST /v1/jobs/heartbeat {"workerId":"w","jobs":[`+want+`]}` ||
			want == "" && last != `POST /v1/workers {"name":"w"}` {
			t.Errorf("the last call is %s, want %s", last, want)
		}
	}
	give := func(id string) {
		t.Helper()
		g.on("POST /v1/jobs/claim", say(`{"jobId":"`+id+`"}`))
		if r := g.post("/get_pending_task", `{"worker_id":"w"}`); r.status != 200 {
			t.Fatalf("%+v", r)
		}
	}
	g.on("POST /v1/workers", say(`{}`))
	g.on("POST /v1/jobs/heartbeat", say(`{}`))
	give("a")
	holds(`"a"`)
	give("b")
	holds(`"a","b"`)
	renewed(`{"jobId":"a"},{"jobId":"b"}`)
	// The answer to a claim is lost: the next claim reveals it.
	g.on("POST /v1/jobs/claim", refuse(503, v1.TagUnknownOutcome))
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	holds(`"a","b","lost"`)
	renewed(`{"jobId":"a"},{"jobId":"b"},{"jobId":"lost"}`)
	g.on("POST /v1/jobs/claim", say(`{}`))
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	renewed(`{"jobId":"a"},{"jobId":"b"}`)
	// The same if the client has gone before the answer.
	r := httptest.NewRequest(http.MethodPost, "/get_pending_task", strings.NewReader(`{"worker_id":"w"}`))
	ctx, hangUp := context.WithCancel(r.Context())
	g.on("POST /v1/jobs/claim", func(w http.ResponseWriter, _ *http.Request) { hangUp(); fmt.Fprint(w, `{"jobId":"late"}`) })
	r = r.WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	g.send(r)
	holds(`"b","late"`)
	g.on("POST /v1/jobs/claim", say(`{}`))
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	renewed(`{"jobId":"b"}`)
	// A restarted worker runs no task.
	g.post("/register_worker", `{"worker_id":"w"}`)
	renewed(`{"jobId":"b"}`)
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	renewed(``)
	// Its report failed.
	give("c")
	holds(`"c"`)
	g.on("POST /v1/jobs/c/force-complete", refuse(503, v1.TagUnknownOutcome))
	g.post("/complete_task", `{"task_id":"c"}`)
	renewed(`{"jobId":"c"}`)
	g.on("POST /v1/jobs/claim", say(`{}`))
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	renewed(``)
}

func TestRaftMessages(t *testing.T) {
	g := newRig(t)
	g.leader = Leader{}
	for range 2 {
		r := g.post("/raft_message", `{"type":"request_vote","term":9,"candidate_id":"broker-1","last_log_index":-1,"last_log_term":0}`)
		if r.status != 204 || r.body != "" {
			t.Errorf("%+v", r)
		}
	}
	if r := g.post("/raft_message", `{"x":1}`); r.status != 400 {
		t.Errorf("%+v", r)
	}
	g.called()
}

func TestNewWantsAnAPI(t *testing.T) {
	for _, cfg := range []Config{{}, {Native: http.NotFoundHandler(), Calls: compattest.API{Handler: http.NotFoundHandler()}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", cfg)
				}
			}()
			New(cfg)
		}()
	}
}

// A client without the right to make a call changes nothing of what this node knows about tasks.
func TestDeniedCallsChangeNoRecord(t *testing.T) {
	g := newRig(t)
	const claim = `{"jobId":"j","attempts":1,"token":5,"leaseMs":30000,"createdAt":1795255611258}`
	g.on("POST /v1/jobs/claim", say(claim))
	g.post("/get_pending_task", `{"worker_id":"w"}`)
	g.on("GET /v1/workers/w?consistency=local", say(`{"name":"w","running":2,"jobIds":["j","other"]}`))
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		for _, call := range []string{"POST /v1/jobs/claim", "POST /v1/jobs/j/force-complete", "POST /v1/workers"} {
			g.on(call, refuse(status, v1.TagForbidden))
		}
		g.post("/get_pending_task", `{"worker_id":"w"}`)
		g.post("/complete_task", `{"task_id":"j"}`)
		g.post("/register_worker", `{"worker_id":"w"}`)
		if ids := g.h.held.renewable("w", []string{"j", "other"}); len(ids) != 2 {
			t.Errorf("after %d the leases of %v are renewed", status, ids)
		}
	}
	g.h.held.review("w", []string{"j"})
	if ids := g.h.held.renewable("w", []string{"j"}); len(ids) != 1 {
		t.Error("the task was given to the worker, and is lost")
	}
}
