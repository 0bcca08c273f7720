package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	queuejson "osqueue/storage/document"
	"osqueue/storage/mem"
)

// rig is a server over a fake node, without a network.
type rig struct {
	t    testing.TB
	node *fakeNode
	s    *Server

	bucket storage.Bucket // of earlier states; flush writes it
}

func newRig(t testing.TB, change ...func(*core.Config)) *rig {
	t.Helper()
	node := newFake()
	bucket := mem.New()
	states := past.New(past.Config{Bucket: bucket, Key: cluster.DocumentKey, MaxBytes: 1 << 30})
	t.Cleanup(states.Close)
	cfg := core.Config{Backend: node, Logger: hclog.NewNullLogger(), Past: states, Objects: objectsOf(bucket), Members: fakeMembers{}, Drain: core.NewDrain()}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg)
	g := &rig{t: t, node: node, s: s, bucket: bucket}
	g.flush()
	t.Cleanup(g.end)
	return g
}

// flush puts the document of the state into the bucket.
func (g *rig) flush() {
	g.t.Helper()
	v := g.node.View()
	checkpoint, err := archive.WriteCheckpoint(context.Background(), g.bucket, "l", fsm.LSN{}, v)
	if err != nil {
		g.t.Fatal(err)
	}
	content := &queuejson.Content{
		Archive: &queuejson.Archive{Checkpoint: checkpoint, Tail: archive.NewTail(checkpoint.LSN).Frame()}, Meta: v.Meta(), Counts: v.Counts(),
	}
	doc := queuejson.Encode(content, queuejson.Header{Lineage: "l", Cluster: "c", Epoch: 1, Node: "n1"}, "10.0.0.1:8080", startMs)
	o, err := g.bucket.Get(context.Background(), cluster.DocumentKey)
	if err != nil {
		err = g.bucket.PutIfAbsent(context.Background(), cluster.DocumentKey, doc).Err
	} else {
		err = g.bucket.PutIfMatch(context.Background(), cluster.DocumentKey, doc, o.Version).Err
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// end ends the server as the end of the process does.
func (g *rig) end() {
	if err := g.s.Shutdown(context.Background()); err != nil {
		g.t.Error(err)
	}
}

// request returns one of application/json, unless header says something else.
func request(method, path, body string, header ...string) *http.Request {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r = httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (g *rig) send(r *http.Request) answer {
	g.t.Helper()
	if overStream && g.fitsStream(r) {
		a := g.sendFramed(r)
		conform(g.t, r, a)
		return a
	}
	w := httptest.NewRecorder()
	g.s.ServeHTTP(w, r)
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode, header: res.Header, body: body}
	conform(g.t, r, a)
	return a
}

func (g *rig) do(method, path, body string, header ...string) answer {
	g.t.Helper()
	return g.send(request(method, path, body, header...))
}

// ok wants 200 and reads the body strictly into a T.
func ok[T any](t testing.TB, a answer) T {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	return strictly[T](t, a.body)
}

func strictly[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v, core.Lenient, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// refused wants a problem with that status and tag.
func refused(t testing.TB, a answer, status int, tag string) v1.Problem {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %s, want %d", a.status, a.body, status)
	}
	if got := a.header.Get("Content-Type"); got != v1.MediaTypeProblem {
		t.Fatalf("content type %q", got)
	}
	p := strictly[v1.Problem](t, a.body)
	if p.Tag != tag || p.Status != status || p.Message != p.Detail || p.Type != v1.ProblemTypePrefix+tag || p.Title == "" {
		t.Fatalf("problem %s, want tag %s", a.body, tag)
	}
	return p
}

// submit enqueues a job with an id.
func (g *rig) submit(id, jobType string) {
	g.t.Helper()
	ok[v1.Enqueued](g.t, g.do("POST", "/v1/jobs", `{"id":"`+id+`","type":"`+jobType+`","payload":{"n":1}}`))
}

// claim1 claims one job for worker w.
func (g *rig) claim1() v1.ClaimedJob {
	g.t.Helper()
	return ok[v1.ClaimedJob](g.t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`))
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if cond() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("it did not happen in 5 s: %s", what)
}

func sameJSON(t testing.TB, got []byte, want string) {
	t.Helper()
	if !bytes.Equal(got, []byte(want)) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// allStatuses are the statuses of a job.
var allStatuses = []fsm.Status{
	fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired,
}

func statusNames() (names []string) {
	for _, st := range allStatuses {
		names = append(names, st.String())
	}
	return names
}

func setQueueOf(op *fsmpb.SetQueue) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
}

// finish claims and completes n jobs, one by one.
func (g *rig) finish(n int) {
	g.t.Helper()
	for range n {
		j := g.claim1()
		ok[v1.Reported](g.t, g.do("POST", "/v1/jobs/"+j.JobID+"/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	}
}

// fill makes jobs in every status that can be reached.
func (g *rig) fill() {
	for i := range 3 {
		g.submit(fmt.Sprintf("done%d", i), "t")
	}
	for range 3 {
		j := g.claim1()
		g.do("POST", "/v1/jobs/"+j.JobID+"/complete", `{"workerId":"w","result":7}`)
	}
	g.submit("dead", "u")
	g.claim1()
	g.do("POST", "/v1/jobs/dead/fail", `{"workerId":"w","retryable":false,"error":"no"}`)
	g.submit("running", "t")
	g.claim1()
	g.submit("waiting", "u")
	g.do("POST", "/v1/jobs", `{"id":"later","type":"t","delayMs":1000}`)
}

func (g *rig) listed(query string) (ids []string, next string) {
	g.t.Helper()
	out := ok[v1.JobList](g.t, g.do("GET", "/v1/jobs"+query, ""))
	for _, j := range out.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, out.NextCursor
}

func (g *rig) patch(name, body string) v1.Queue {
	g.t.Helper()
	a := g.do("PATCH", "/v1/queues/"+name, body, "Prefer", v1.PreferStrict)
	if a.header.Get(v1.HeaderLSN) == "" {
		g.t.Errorf("no LSN on the answer to %s", body)
	}
	return ok[v1.Queue](g.t, a)
}

func (g *rig) cron(name string) v1.Cron {
	g.t.Helper()
	return ok[v1.Cron](g.t, g.do("GET", "/v1/crons/"+name, ""))
}

// fire lets a schedule fire for the time that is due, as the leader does.
func (g *rig) fire(name string) {
	g.t.Helper()
	c := g.node.View().Cron(name)
	res, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
		Name: name, DueMs: c.NextAtMs, AtMs: c.NextAtMs, NextMs: c.NextAtMs + 60_000, JobId: fmt.Sprintf("%s-%d", name, c.NextAtMs),
	}}})
	if err != nil || res[0].Code != fsm.OK {
		g.t.Fatal(res, err)
	}
}

// later sends a request in the background.
func (g *rig) later(method, path, body string, header ...string) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- g.do(method, path, body, header...) }()
	return out
}

func (g *rig) asleep(n int) func() bool { return g.waiting(&g.node.sleeping, n) }

func (g *rig) awaiting(n int) func() bool { return g.waiting(&g.node.awaiting, n) }

func (g *rig) flushing(n int) func() bool { return g.waiting(&g.node.flushing, n) }

// put applies a mutation that no route of this test makes.
func (g *rig) put(m *fsmpb.Mutation) {
	g.t.Helper()
	res, _, err := g.node.apply(m)
	if err != nil || !res[0].Code.Done() {
		g.t.Fatalf("%v, %+v", err, res)
	}
}

// apply applies mutations in one entry.
func (g *rig) apply(ms ...*fsmpb.Mutation) {
	if _, _, err := g.node.apply(ms...); err != nil {
		panic(err)
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

// waiting reports whether a number of the node is n.
func (g *rig) waiting(number *int, n int) func() bool {
	return func() bool { return locked(g.node, func() bool { return *number == n }) }
}
