package ui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
)

type jobData struct {
	Job     v1.Job
	Curl    string
	CanStop bool
	CanRun  bool
	CanDrop bool
	Steps   []step
	Reports []v1.ProgressPoint // newest first
	Graph   *graph             // nil: there is none

	Status  int      // of the page
	Problem string   // the form was refused
	Link    *v1.Link // was made by the form; nil: none
	Origin  string   // of this node, for links
	Signal  string   // the fields of the form
	Value   string

	Paused   bool // the job is available, and its queue is paused
	NoWorker bool // the job is available, and no worker takes its type
}

// step is one line of the timeline of a job.
type step struct {
	At    int64
	Kind  string // CSS class
	Title string
	Text  string // an error
	Took  int64  // ms; 0: not known
}

// job is the page of one job.
func job(q *request) error { return q.jobPage(q.r.PathValue("id"), &jobData{Status: http.StatusOK}) }

// jobPage is the page of a job. After its form it shows what came of it, and the fields keep their values.
func (q *request) jobPage(id string, d *jobData) error {
	if err := q.get(segment(v1.PathJobs, id), nil, &d.Job); err != nil {
		return err
	}
	j := &d.Job
	d.Signal, d.Value = cmp.Or(q.r.PostForm.Get("name"), j.Awaits), q.r.PostForm.Get("value")
	d.Steps = timeline(j)
	d.Reports = slices.Clone(j.ProgressHistory)
	slices.Reverse(d.Reports)
	d.CanStop = j.Status == v1.StatusScheduled || j.Status == v1.StatusUnclaimed || j.Status == v1.StatusBlocked ||
		j.Status == v1.StatusInProgress && j.CancelAt == 0
	d.CanRun = j.Status == v1.StatusDead || j.Status == v1.StatusCancelled || j.Status == v1.StatusExpired || j.Status == v1.StatusScheduled
	d.CanDrop = j.Status != v1.StatusInProgress
	if j.Status == v1.StatusUnclaimed {
		q.explainWait(d)
	}
	var err error
	if d.Graph, err = q.graphOf(j.ID); err != nil {
		return err
	}
	d.Origin = "http://" + q.r.Host
	if q.r.TLS != nil {
		d.Origin = "https://" + q.r.Host
	}
	var body strings.Builder
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // a shell reads it
	if err := enc.Encode(copyOf(j)); err != nil {
		return err
	}
	access := ""
	if q.r.TLS != nil {
		access += ` --cacert "$OSQUEUE_CA"`
	}
	if q.authorization() != "" {
		access += ` -H "Authorization: Bearer $OSQUEUE_TOKEN"`
	}
	d.Curl = "curl -X POST " + d.Origin + v1.PathJobs + access + " -H 'Content-Type: application/json' -d " + quoted(strings.TrimSpace(body.String()))
	return q.renderAs(d.Status, "job", "Job "+shortID(j.ID), "jobs", d)
}

// explainWait finds out why an available job may not be claimed. Without an answer the page shows
// no reason.
func (q *request) explainWait(d *jobData) {
	var t v1.Queue
	if q.get(segment(v1.PathQueues, v1.QueueName(d.Job.Type)), nil, &t) == nil {
		d.Paused, d.NoWorker = t.Settings.Paused, q.withoutWorker([]v1.Queue{t})[t.Type]
	}
}

// quoted returns a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// copyOf returns a new job like j, without id, times, dependencies and unique key.
func copyOf(j *v1.Job) v1.NewJob {
	n := v1.NewJob{
		Type: j.Type, Payload: j.Payload, Priority: j.Priority, Backoff: j.Backoff, TimeoutMs: j.TimeoutMs, RetainMs: j.RetainMs, OnError: j.OnError,
		Group: j.Group, Tags: j.Tags, Headers: j.Headers, Limits: j.Limits, Sequence: j.Sequence,
	}
	if j.Status != v1.StatusInProgress { // a running job has the lease of its claim
		n.LeaseMs = j.LeaseMs
	}
	if j.MaxAttempts > 0 {
		n.MaxAttempts = &j.MaxAttempts
	}
	return n
}

// timeline returns what happened to a job, oldest first.
func timeline(j *v1.Job) []step {
	steps := []step{{At: j.CreatedAt, Kind: "made", Title: "Enqueued"}}
	if j.Cron != "" {
		steps[0].Title = "Enqueued by schedule " + j.Cron
	}
	for _, a := range j.History {
		steps = append(steps, step{
			At: a.EndedAt, Kind: "failed", Title: "Attempt " + num(int64(a.Number)) + " " + endWord(a.End) + ofClass(a.Class) + by(a.WorkerID),
			Text: a.Error, Took: a.EndedAt - a.StartedAt,
		})
	}
	if j.CancelAt != 0 {
		steps = append(steps, step{At: j.CancelAt, Kind: "made", Title: "Cancellation requested"})
	}
	switch j.Status {
	case v1.StatusInProgress:
		steps = append(steps, step{At: j.ClaimedAt, Kind: "running", Title: "Attempt " + num(int64(j.Attempts)) + " runs" + by(j.WorkerID)})
	case v1.StatusCompleted:
		steps = append(steps, step{
			At: j.FinishedAt, Kind: "completed", Title: "Completed" + by(j.WorkerID), Took: took(j),
		})
	case v1.StatusDead:
		steps = append(steps, step{At: j.FinishedAt, Kind: "dead", Title: "Dead after " + attempts(j.Attempts)})
	case v1.StatusCancelled:
		steps = append(steps, step{At: j.FinishedAt, Kind: "cancelled", Title: "Cancelled"})
	case v1.StatusExpired:
		steps = append(steps, step{At: j.FinishedAt, Kind: "cancelled", Title: "Expired"})
	case v1.StatusScheduled:
		steps = append(steps, step{At: j.RunAt, Kind: "made", Title: "Due"})
	}
	for _, a := range j.Actions {
		steps = addAction(steps, a)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

// actionTitles are the beginnings of the steps of actions.
var actionTitles = map[string]string{
	v1.EventEnqueued: "Enqueued", v1.EventCancelling: "Cancellation requested", v1.EventEdited: "Edited", v1.EventCancelled: "Cancelled",
	v1.EventRetried: "Retried", v1.EventDue: "Made due", v1.EventSignalled: "Signalled",
}

// addAction adds the actor of an action to its step, or a step if the job does not have one.
func addAction(steps []step, a v1.JobAction) []step {
	title, actor := cmp.Or(actionTitles[a.Kind], a.Kind), ""
	if a.Actor != "" {
		actor = " by " + a.Actor
	}
	for i := range steps {
		if steps[i].At == a.At && strings.HasPrefix(steps[i].Title, title) {
			steps[i].Title += actor
			return steps
		}
	}
	return append(steps, step{At: a.At, Kind: "made", Title: title + actor})
}

func ofClass(class string) string {
	if class == "" {
		return ""
	}
	return " (" + class + ")"
}

func took(j *v1.Job) int64 {
	if j.ClaimedAt == 0 {
		return 0
	}
	return j.FinishedAt - j.ClaimedAt
}

func attempts(n int32) string {
	if n == 1 {
		return "1 attempt"
	}
	return num(int64(n)) + " attempts"
}

func by(worker *string) string {
	if worker == nil || *worker == "" {
		return ""
	}
	return " on " + *worker
}

func endWord(end string) string {
	return cmp.Or(map[string]string{"lease_expired": "lost its lease", "timed_out": "timed out"}[end], end)
}
