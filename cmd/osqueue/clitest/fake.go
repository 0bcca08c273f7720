package clitest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/runner"
)

// Fake is one node of a cluster with just enough of a queue for the
// commands.
type Fake struct {
	T      testing.TB
	Server *httptest.Server

	Mu      sync.Mutex
	Jobs    []*v1.Job
	Batches []int // sizes
	Refuse  func(r *http.Request) *v1.Problem
	Status  v1.Status
	Self    v1.Self
	token   uint64
	busy    atomic.Int64      // connections with a request
	Seen    []Request         // writes
	Queries []string          // of these
	Level   string            // how safe writes are said to be; "": nothing is said
	Replies map[string]string // bodies, by method and path, that come before all others
}

// Request is a write as the fake got it.
type Request struct{ Line, Body string }

// NewFake starts a fake node, which ends with the test.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	leader := "n1"
	q := &Fake{T: t, Replies: make(map[string]string), Status: v1.Status{
		NodeID: "n1", State: v1.StateLeader, Term: 3, Leader: &leader, LSN: "3-17", FlushedLSN: "3-12",
		LagEntries: 5, LagMs: 40, Fence: v1.Fence{State: "active"},
		Tasks: v1.TaskCounts{Pending: 4, Blocked: 3, Processing: 2, CompletedTotal: 11, Dead: 1}, Workers: 6,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", q.enqueue)
	mux.HandleFunc("POST /v1/jobs/batch", q.enqueueBatch)
	mux.HandleFunc("POST /v1/jobs/claim", q.claim)
	mux.HandleFunc("POST /v1/jobs/heartbeat", q.heartbeat)
	mux.HandleFunc("POST /v1/jobs/{id}/{action}", q.changeOne)
	mux.HandleFunc("DELETE /v1/jobs/{id}", q.changeOne)
	always(mux, "PATCH /v1/jobs/{id}", v1.Reported{LSN: "3-2", Status: v1.StatusUnclaimed, Revision: 1})
	q.administer(mux)
	q.reports(mux)
	mux.HandleFunc("GET /v1/jobs", q.list)
	mux.HandleFunc("GET "+v1.PathCount, func(w http.ResponseWriter, r *http.Request) {
		answer(w, v1.JobCount{Count: uint64(len(q.chosen(r.URL.Query())))})
	})
	mux.HandleFunc("GET /v1/jobs/{id}", q.get)
	mux.HandleFunc("POST /v1/workers", func(w http.ResponseWriter, _ *http.Request) { answer(w, v1.WorkerAnswer{LSN: "3-1"}) })
	mux.HandleFunc("DELETE /v1/workers/{name}", func(w http.ResponseWriter, _ *http.Request) { answer(w, v1.WorkerAnswer{LSN: "3-1"}) })
	mux.HandleFunc("GET /v1/self", func(w http.ResponseWriter, _ *http.Request) { answer(w, q.Self) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, q.Status) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, v1.Health{Status: "ok"}) })
	q.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathEvents && strings.Contains(r.URL.Query().Get(v1.ParamKind), v1.EventRemoved) {
			q.watched(w, r)
			return
		}
		q.Mu.Lock()
		defer q.Mu.Unlock()
		if q.Refuse != nil {
			if p := q.Refuse(r); p != nil {
				problem(w, p)
				return
			}
		}
		if body, ok := q.Replies[r.Method+" "+r.URL.Path]; ok {
			_, _ = io.WriteString(w, body)
			return
		}
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			q.Seen = append(q.Seen, Request{r.Method + " " + r.URL.EscapedPath(), string(body)})
			q.Queries = append(q.Queries, r.URL.RawQuery)
			if q.Level != "" {
				w.Header().Set(v1.HeaderLSN, "3-1")
				w.Header().Set(v1.HeaderCommitted, q.Level)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		mux.ServeHTTP(w, r)
	}))
	q.Server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateActive:
			q.busy.Add(1)
		case http.StateIdle:
			q.busy.Add(-1)
		}
	}
	q.Server.Start()
	t.Cleanup(q.Server.Close)
	return q
}

// Answered reports whether each request was answered to its end, apart from streams of
// events.
func (q *Fake) Answered() bool { return q.busy.Load() == 0 }

func answer(w http.ResponseWriter, v any) { json.MarshalWrite(w, v) }

func problem(w http.ResponseWriter, p *v1.Problem) {
	w.WriteHeader(p.Status)
	json.MarshalWrite(w, p)
}

func (q *Fake) read(w http.ResponseWriter, r *http.Request, v any) bool {
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil || len(body) > 1<<20 {
		problem(w, &v1.Problem{Status: 400, Tag: v1.TagBadRequest, Detail: fmt.Sprint("bad body: ", err), Committed: v1.CommittedNo})
		return false
	}
	return true
}

// result is the result of a command.
type result struct {
	Exit   *int   `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// runFake is a worker with a few commands: "wait" is never done, "die" kills it.
func runFake(j *v1.Job) {
	var p runner.CommandPayload
	if err := json.Unmarshal(j.Payload, &p, json.RejectUnknownMembers(true)); err != nil {
		panic(err)
	}
	var exit int
	r := result{Exit: &exit}
	switch p.Argv[0] {
	case "echo":
		r.Stdout = strings.Join(p.Argv[1:], " ")
	case "warn":
		r.Stderr = strings.Join(p.Argv[1:], " ")
	case "cat":
		r.Stdout = p.Stdin
	case "env":
		r.Stdout = p.Env[p.Argv[1]] + "\n"
	case "exit":
		fmt.Sscan(p.Argv[1], &exit)
		r.Stderr = "exiting"
	case "wait":
		j.Status, j.Result, j.Attempts = v1.StatusUnclaimed, nil, 0
		return
	case "die":
		j.Status, j.Result, j.LastError = v1.StatusDead, nil, "the worker is gone"
		return
	case "fail":
		j.Status, j.Result, j.LastError = v1.StatusDead, nil, strings.Join(p.Argv[1:], " ")
		return
	case "odd":
		j.Result = []byte("[1]")
		return
	}
	j.Result, _ = json.Marshal(r)
}

// Add stores a job. Its type decides its status: "bad" jobs are dead at once, "wait"
// jobs stay available, and runFake runs "command" jobs. All other jobs are completed,
// with their payload as the result.
func (q *Fake) Add(in v1.NewJob) (duplicate bool) {
	for _, j := range q.Jobs {
		if j.ID == in.ID {
			return true
		}
	}
	j := &v1.Job{
		ID: in.ID, Type: in.Type, Payload: in.Payload, Priority: in.Priority, LeaseMs: in.LeaseMs,
		Tags: in.Tags, Status: v1.StatusCompleted, Result: in.Payload, Attempts: 1, CreatedAt: 1_700_000_000_000,
	}
	if in.MaxAttempts != nil {
		j.MaxAttempts = *in.MaxAttempts
	}
	switch in.Type {
	case "bad":
		j.Status, j.Result, j.LastError = v1.StatusDead, nil, "no luck\nat all"
	case "wait":
		j.Status, j.Result, j.Attempts = v1.StatusUnclaimed, nil, 0
	case "command":
		runFake(j)
	}
	q.Jobs = append(q.Jobs, j)
	return false
}

func (q *Fake) enqueue(w http.ResponseWriter, r *http.Request) {
	var in v1.NewJob
	if !q.read(w, r, &in) {
		return
	}
	if in.UniqueKey == "held" {
		answer(w, v1.Enqueued{JobID: "holder", LSN: "3-1", Duplicate: true})
	} else {
		answer(w, v1.Enqueued{JobID: in.ID, LSN: "3-1", Duplicate: q.Add(in)})
	}
}

func (q *Fake) enqueueBatch(w http.ResponseWriter, r *http.Request) {
	var in v1.Batch
	if !q.read(w, r, &in) {
		return
	}
	q.Batches = append(q.Batches, len(in.Jobs))
	out := v1.BatchEnqueued{LSN: "3-1"}
	for _, j := range in.Jobs {
		if j.UniqueKey == "held" {
			out.JobIDs, out.Duplicates = append(out.JobIDs, "holder"), append(out.Duplicates, "holder")
			continue
		}
		out.JobIDs = append(out.JobIDs, j.ID)
		if q.Add(j) {
			out.Duplicates = append(out.Duplicates, j.ID)
		}
	}
	answer(w, out)
}

func (q *Fake) claim(w http.ResponseWriter, r *http.Request) {
	var in v1.Claim
	if !q.read(w, r, &in) {
		return
	}
	out := v1.Claimed{Jobs: []v1.ClaimedJob{}}
	for _, j := range q.Jobs {
		if j.Status == v1.StatusUnclaimed && len(out.Jobs) < int(*in.Max) {
			q.token++
			j.Status, j.Token, j.WorkerID = v1.StatusInProgress, q.token, in.WorkerID
			j.Attempts++
			out.Jobs = append(out.Jobs, v1.ClaimedJob{
				JobID: j.ID, Type: j.Type, Payload: j.Payload, Attempts: j.Attempts, Token: j.Token, LeaseMs: 30_000,
			})
		}
	}
	answer(w, out)
}

func (q *Fake) heartbeat(w http.ResponseWriter, r *http.Request) {
	var in v1.HeartbeatBatch
	if !q.read(w, r, &in) {
		return
	}
	out := v1.ReportedBatch{}
	for _, l := range in.Jobs {
		out.Results = append(out.Results, v1.ReportedItem{JobID: l.JobID, Status: v1.ItemOK})
	}
	answer(w, out)
}

func (q *Fake) changeOne(w http.ResponseWriter, r *http.Request) {
	j := q.Find(r.PathValue("id"))
	if j == nil {
		problem(w, &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "no such job"})
		return
	}
	to := map[string]string{v1.ActionCancel: v1.StatusCancelled, v1.ActionRetry: v1.StatusUnclaimed}[r.PathValue("action")]
	code := q.change(j, to)
	if code == v1.TagWrongStatus {
		problem(w, &v1.Problem{Status: 409, Tag: code, Detail: "the job is " + j.Status, Committed: v1.CommittedNo})
		return
	}
	answer(w, v1.Reported{LSN: "3-2", Status: j.Status, Duplicate: code == v1.ItemDuplicate})
}

// Find returns the job with the id, or nil. The caller holds the lock.
func (q *Fake) Find(id string) *v1.Job {
	i := slices.IndexFunc(q.Jobs, func(j *v1.Job) bool { return j.ID == id })
	if i < 0 {
		return nil
	}
	return q.Jobs[i]
}

func (q *Fake) get(w http.ResponseWriter, r *http.Request) {
	j := q.Find(r.PathValue("id"))
	if j == nil {
		problem(w, &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "no such job"})
		return
	}
	answer(w, j)
}

// chosen returns the jobs that a query names.
func (q *Fake) chosen(query url.Values) (out []v1.Job) {
	status, kind := query.Get(v1.ParamStatus), query.Get(v1.ParamType)
	for _, j := range q.Jobs {
		lacks := func(tag string) bool { return !slices.Contains(j.Tags, tag) }
		if (status == "" || status == v1.StatusAll || strings.Contains(status, j.Status)) && (kind == "" || kind == j.Type) &&
			!slices.ContainsFunc(query[v1.ParamTag], lacks) {
			out = append(out, *j)
		}
	}
	return out
}

// list pages by the index of the next job.
func (q *Fake) list(w http.ResponseWriter, r *http.Request) {
	from, limit := 0, 100
	fmt.Sscan(r.URL.Query().Get(v1.ParamCursor), &from)
	fmt.Sscan(r.URL.Query().Get(v1.ParamLimit), &limit)
	all := q.chosen(r.URL.Query())
	end := min(from+limit, len(all))
	out := v1.JobList{Jobs: append([]v1.Job{}, all[from:end]...)}
	if end < len(all) {
		out.NextCursor = fmt.Sprint(end)
	}
	answer(w, out)
}

// watched sends the ends of all jobs, also of those that ended before, as long as
// the reader stays. It is the only request that does not hold the lock.
func (q *Fake) watched(w http.ResponseWriter, r *http.Request) {
	q.busy.Add(-1)
	defer q.busy.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "id: 0-0.0\n\n")
	sent := make(map[string]bool)
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for n := 0; r.Context().Err() == nil; {
		for _, j := range q.All() {
			if sent[j.ID] || !client.Finished(j.Status) {
				continue
			}
			sent[j.ID] = true
			n++
			text, _ := json.Marshal(v1.Event{ID: fmt.Sprintf("3-%d.1", n), Kind: "job." + j.Status, JobID: j.ID, Status: j.Status})
			fmt.Fprintf(w, "id: 3-%d.1\nevent: job.%s\ndata: %s\n\n", n, j.Status, text)
		}
		w.(http.Flusher).Flush()
		select {
		case <-ticks.C:
		case <-r.Context().Done():
		}
	}
}

// EndAll ends all jobs that have not ended.
func (q *Fake) EndAll(status string) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for _, j := range q.Jobs {
		if !client.Finished(j.Status) {
			j.Status = status
		}
	}
}

// All returns copies of all jobs.
func (q *Fake) All() []v1.Job {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	out := make([]v1.Job, len(q.Jobs))
	for i, j := range q.Jobs {
		out[i] = *j
	}
	return out
}

// The fake's side of what is no job: one of each kind, "mail", "nightly", "b1"
// and "w1". Jobs are really changed.

func (q *Fake) administer(mux *http.ServeMux) {
	for path, status := range map[string]string{v1.PathCancel: v1.StatusCancelled, v1.PathRetry: v1.StatusUnclaimed, v1.PathDelete: ""} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { q.changeMany(w, r, status) })
	}
	limit := int64(2)
	queue := v1.Queue{Type: "mail", TypeStats: v1.TypeStats{Unclaimed: 3, Bytes: 2048}, Settings: v1.QueueSettings{
		Paused: true, MaxRunning: 5, RatePerSecond: 10, MaxAttempts: &limit, RetainMs: &limit, Backoff: &v1.Backoff{Kind: "fixed", BaseMs: 1000},
	}}
	always(mux, "GET /v1/queues", v1.QueueList{Queues: []v1.Queue{queue}})
	mux.HandleFunc("GET /v1/queues/{type}", func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("type"); strings.HasPrefix(name, "no") {
			answer(w, v1.Queue{Type: name})
			return
		}
		answer(w, queue)
	})
	for _, route := range []string{"PATCH /v1/queues/{type}", "POST /v1/queues/{type}/{action}"} {
		always(mux, route, queue)
	}
	always(mux, "DELETE /v1/queues/{type}", v1.Done{LSN: "3-2"})
	customer := v1.LimitState{Name: "customer:7", Pattern: "customer:*", MaxRunning: 2, Running: 2, Waiting: 40, HeldUntil: 1_700_000_000_000}
	always(mux, "GET /v1/limits", v1.LimitList{Limits: []v1.LimitState{{Name: "customer:*", MaxRunning: 2}, customer, {Name: "free", Running: 1}}})
	always(mux, "GET /v1/limits/{name}", customer)
	for _, route := range []string{"PUT /v1/limits/{name}", "DELETE /v1/limits/{name}", "POST /v1/limits/{name}/hold"} {
		always(mux, route, v1.Done{LSN: "3-2"})
	}
	cron := v1.Cron{
		Name: "nightly", NewCron: v1.NewCron{Spec: "0 3 * * *", TimeZone: "Europe/Berlin", Job: v1.NewJob{Type: "report", Payload: []byte("1"), UniqueKey: "n"}},
		NextAt: 1_700_000_000_000, Fired: 7, Skipped: 1, LastError: "job j has not ended",
	}
	always(mux, "GET /v1/crons", v1.CronList{Crons: []v1.Cron{cron, {Name: "idle", NewCron: v1.NewCron{Spec: "@daily", Paused: true}}}})
	cron.NextTimes, cron.EndAt, cron.JitterMs, cron.MaxFires = []int64{cron.NextAt, 1_700_086_400_000}, 1_800_000_000_000, 90_000, 9
	cron.Runs = []v1.CronRun{
		{At: 1_699_913_600_000, Outcome: v1.RunSkipped, Reason: "job j has not ended"},
		{At: 1_699_827_200_000, JobID: "j"},
		{At: 1_699_740_800_000, JobID: "i", Outcome: v1.RunDead},
	}
	always(mux, "GET /v1/crons/{name}", cron)
	for _, route := range []string{"PUT /v1/crons/{name}", "POST /v1/crons/{name}/pause", "POST /v1/crons/{name}/resume"} {
		always(mux, route, v1.CronPut{NextAt: 1_700_000_000_000, LSN: "3-2"})
	}
	always(mux, "POST /v1/crons/{name}/trigger", v1.Enqueued{JobID: "fired", LSN: "3-2"})
	always(mux, "DELETE /v1/crons/{name}", v1.Done{LSN: "3-2"})
	batch := v1.BatchInfo{ID: "b1", Total: 3, Pending: 1, Completed: 1, Dead: 1, CallbackID: "cb", CreatedAt: 1_700_000_000_000}
	always(mux, "GET /v1/batches", v1.BatchList{Batches: []v1.BatchInfo{batch, {ID: "b2", EndedAt: 5}}})
	mux.HandleFunc("GET /v1/batches/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "nope" {
			problem(w, &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "there is no such batch"})
			return
		}
		answer(w, batch)
	})
	always(mux, "POST /v1/batches", v1.BatchCreated{BatchID: "b1", JobIDs: []string{"x"}, LSN: "3-2"})
	worker := v1.Worker{Name: "w1", Types: []string{"mail"}, Running: 1, RegisteredAt: 1_700_000_000_000, LastSeen: 1_700_000_000_000, JobIDs: []string{"j9"}}
	always(mux, "GET /v1/workers", v1.WorkerList{Workers: []v1.Worker{worker}})
	always(mux, "GET /v1/workers/{name}", worker)
	always(mux, "GET /v1/stats", v1.Stats{Unclaimed: 3, Blocked: 2, Stuck: 1, CompletedTotal: 99, Workers: 1, Bytes: 1 << 20, Types: map[string]v1.TypeStats{"mail": {Unclaimed: 3}, "": {Blocked: 2}}})
	mux.HandleFunc("GET /v1/events", q.events)
}

func always(mux *http.ServeMux, route string, v any) {
	mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) { answer(w, v) })
}

// events sends three, and says in the first what was asked for.
func (q *Fake) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	asked := r.URL.RawQuery + " after " + r.Header.Get(v1.HeaderLastEventID)
	worker := "w1"
	for i, e := range []v1.Event{
		{Kind: v1.EventCronFired, Name: "nightly", Message: asked},
		{Kind: v1.EventClaimed, JobID: "j1", Type: "mail", From: v1.StatusUnclaimed, Status: v1.StatusInProgress, WorkerID: &worker, Attempts: 1},
		{Kind: v1.EventProgress, JobID: "j1", Percent: 40, Message: "half way"},
	} {
		e.ID = fmt.Sprintf("3-17.%d", i)
		text, _ := json.Marshal(e)
		fmt.Fprintf(w, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, text)
	}
	fmt.Fprint(w, "event: gap\ndata: {\"kind\":\"gap\"}\n\n")
}

// atOnce is how many jobs one request changes at most.
const atOnce = 4

// changeMany changes jobs by ids or by a filter of statuses, type and tag.
func (q *Fake) changeMany(w http.ResponseWriter, r *http.Request, to string) {
	var in v1.ChangeJobs
	if !q.read(w, r, &in) {
		return
	}
	out := v1.Changed{LSN: "3-2"}
	for _, id := range in.IDs {
		status := v1.TagNotFound
		if j := q.Find(id); j != nil {
			status = q.change(j, to)
		}
		out.Results = append(out.Results, v1.ReportedItem{JobID: id, Status: status})
	}
	if f := in.Filter; f != nil {
		for _, j := range slices.Clone(q.Jobs) {
			if in.Limit > 0 && out.Count == uint64(in.Limit) {
				break
			}
			if out.Count == atOnce {
				out.NextCursor = in.Cursor + "+"
				break
			}
			if matches(f, j) && q.change(j, to) == v1.ItemOK {
				out.Count++
			}
		}
	}
	answer(w, out)
}

func matches(f *v1.Filter, j *v1.Job) bool {
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, j.Status)) &&
		(f.Type == nil || *f.Type == j.Type) && (f.Tag == "" || slices.Contains(j.Tags, f.Tag))
}

// change does what the machine would, roughly.
func (q *Fake) change(j *v1.Job, to string) (code string) {
	running, ended := j.Status == v1.StatusInProgress, slices.Contains([]string{v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled, v1.StatusExpired}, j.Status)
	switch {
	case to == "" && !running:
		q.Jobs = slices.DeleteFunc(q.Jobs, func(o *v1.Job) bool { return o == j })
	case to == v1.StatusCancelled && j.Status == to:
		return v1.ItemDuplicate
	case to == v1.StatusCancelled && running:
		j.CancelAt = 1
	case to == v1.StatusCancelled && !ended, to == v1.StatusUnclaimed && (j.Status == v1.StatusDead || j.Status == v1.StatusCancelled || j.Status == v1.StatusExpired):
		j.Status = to
	default:
		return v1.TagWrongStatus
	}
	return v1.ItemOK
}

// Writes returns the requests that changed something, and forgets them.
func (q *Fake) Writes() []Request {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	seen := q.Seen
	q.Seen = nil
	return seen
}
