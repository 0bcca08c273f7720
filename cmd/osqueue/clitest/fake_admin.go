package clitest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

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
	cron := v1.Cron{
		Name: "nightly", NewCron: v1.NewCron{Spec: "0 3 * * *", TimeZone: "Europe/Berlin", Job: v1.NewJob{Type: "report", Payload: []byte("1"), UniqueKey: "n"}},
		NextAt: 1_700_000_000_000, Fired: 7, Skipped: 1, LastError: "job j has not ended",
	}
	always(mux, "GET /v1/crons", v1.CronList{Crons: []v1.Cron{cron, {Name: "idle", NewCron: v1.NewCron{Spec: "@daily", Paused: true}}}})
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
	always(mux, "GET /v1/stats", v1.Stats{Unclaimed: 3, Blocked: 2, CompletedTotal: 99, Workers: 1, Bytes: 1 << 20, Types: map[string]v1.TypeStats{"mail": {Unclaimed: 3}, "": {Blocked: 2}}})
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
			if q.AtOnce > 0 && out.Count == uint64(q.AtOnce) {
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
	running, ended := j.Status == v1.StatusInProgress, slices.Contains([]string{v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled}, j.Status)
	switch {
	case to == "" && !running:
		q.Jobs = slices.DeleteFunc(q.Jobs, func(o *v1.Job) bool { return o == j })
	case to == v1.StatusCancelled && j.Status == to:
		return v1.ItemDuplicate
	case to == v1.StatusCancelled && running:
		j.CancelAt = 1
	case to == v1.StatusCancelled && !ended, to == v1.StatusUnclaimed && (j.Status == v1.StatusDead || j.Status == v1.StatusCancelled):
		j.Status = to
	default:
		return v1.TagWrongStatus
	}
	return v1.ItemOK
}

// answerChange is the answer to the change of one job.
func (q *Fake) answerChange(w http.ResponseWriter, r *http.Request, j *v1.Job) {
	to := map[string]string{v1.ActionCancel: v1.StatusCancelled, v1.ActionRetry: v1.StatusUnclaimed}[r.PathValue("action")]
	code := q.change(j, to)
	if code == v1.TagWrongStatus {
		problem(w, &v1.Problem{Status: 409, Tag: code, Detail: "the job is " + j.Status, Committed: v1.CommittedNo})
		return
	}
	answer(w, v1.Reported{LSN: "3-2", Status: j.Status, Duplicate: code == v1.ItemDuplicate})
}

// Writes are the requests that changed something, and forgets them.
func (q *Fake) Writes() []Request {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	seen := q.Seen
	q.Seen = nil
	return seen
}
