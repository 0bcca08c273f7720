package ui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
)

// flowShown is the number of jobs on the page of a batch.
const flowShown = 100

type batchData struct {
	Batch v1.BatchInfo
	Jobs  []flowJob // a job comes after those that it runs after
	More  bool      // the batch has more jobs
	Graph *graph    // nil: the jobs do not run after each other, or are more than graphMax
}

// flowJob is a job of a batch, with the names of the jobs of the batch that it runs after.
type flowJob struct {
	v1.Job
	Earlier []flowLink
}

type flowLink struct{ ID, Name string }

// batch is the page of a batch: its oldest jobs, in the order in which they may run.
func batch(q *request) error {
	var d batchData
	id := q.r.PathValue("id")
	if err := q.get(segment(v1.PathBatches, id), nil, &d.Batch); err != nil {
		return err
	}
	var list v1.JobList
	values := url.Values{v1.ParamBatch: {id}, v1.ParamStatus: {v1.StatusAll}, v1.ParamSort: {v1.SortOldest}, v1.ParamLimit: {strconv.Itoa(flowShown)}}
	if err := q.get(v1.PathJobs, values, &list); err != nil {
		return err
	}
	d.More = list.NextCursor != ""
	d.Jobs, d.Graph = flowOf(list.Jobs)
	return q.render("batch", "Batch "+shortID(id), "batches", &d)
}

// nameIn returns the name of a job in its batch.
func nameIn(j *v1.Job) string { return cmp.Or(j.Step, shortID(j.ID)) }

// flowOf puts jobs into the order of their dependencies, and draws those.
func flowOf(jobs []v1.Job) (flow []flowJob, g *graph) {
	var in v1.Graph
	names := make(map[string]string)
	for i := range jobs {
		j := &jobs[i]
		names[j.ID] = nameIn(j)
		in.Jobs = append(in.Jobs, v1.GraphJob{ID: j.ID, Status: j.Status, Type: j.Type})
	}
	for i := range jobs {
		one := flowJob{Job: jobs[i]}
		for _, id := range one.After {
			if name, there := names[id]; there {
				one.Earlier = append(one.Earlier, flowLink{id, name})
				in.Edges = append(in.Edges, v1.GraphEdge{Kind: v1.EdgeAfter, From: id, To: one.ID, Waiting: slices.Contains(one.WaitsFor, id)})
			}
		}
		flow = append(flow, one)
	}
	boxes := boxesOf(&in)
	level := levels(&in, boxes)
	slices.SortStableFunc(flow, func(a, b flowJob) int { return cmp.Compare(level[a.ID], level[b.ID]) })
	if len(in.Edges) == 0 || len(jobs) > graphMax {
		return flow, nil
	}
	for id, b := range boxes {
		b.Name = names[id]
	}
	return flow, draw(&in, boxes)
}

// changeBatch cancels a batch, or retries one of its jobs and those that run after it.
func changeBatch(q *request) error {
	id, action := q.r.PathValue("id"), q.r.PathValue("action")
	var n uint64
	rest := false
	var err error
	switch action {
	case v1.ActionCancel:
		n, rest, err = q.changeAll(action, &v1.Filter{BatchID: id})
	case v1.ActionRetry:
		var out v1.FlowRetried
		err = q.post(segment(v1.PathBatches, id, action), v1.RetryFlow{From: q.r.PostForm.Get("from")}, &out)
		n = out.Count
	default:
		return badAction(action)
	}
	if err != nil {
		return err
	}
	return q.back(segment("/batches", id), noticeFor(action, rest), n)
}

// signal sends a signal to a job.
func signal(q *request) error {
	const notSent = "Signal not sent: "
	id, name, value := q.r.PathValue("name"), q.r.PostForm.Get("name"), strings.TrimSpace(q.r.PostForm.Get("value"))
	if name == "" {
		return q.jobPage(id, &jobData{Status: http.StatusBadRequest, Problem: notSent + "give its name."})
	}
	var in v1.NewSignal
	if value != "" {
		in.Value = json.RawMessage(value)
	}
	if value != "" && !json.Valid(in.Value) {
		return q.jobPage(id, &jobData{Status: http.StatusBadRequest, Problem: notSent + "the value is not JSON. Text stands in quotes."})
	}
	err := q.post(segment(segment(v1.PathJobs, id, v1.ActionSignals), name), in, nil)
	if e := badForm(err); e != nil {
		return q.jobPage(id, &jobData{Status: e.Status, Problem: notSent + e.Detail})
	}
	if err != nil {
		return err
	}
	return q.back(segment("/jobs", id), "signal", 0)
}

// signalLink makes a link that sends a signal to a job. Only the page that follows shows it.
func signalLink(q *request) error {
	id := q.r.PathValue("name")
	d := jobData{Status: http.StatusOK, Link: new(v1.Link)}
	err := q.post(segment(v1.PathJobs, id, v1.ActionLinks), v1.NewLink{Signal: q.r.PostForm.Get("name")}, d.Link)
	if e := badForm(err); e != nil {
		return q.jobPage(id, &jobData{Status: e.Status, Problem: "No link: " + e.Detail})
	}
	if err != nil {
		return err
	}
	q.still = true // its address shows the page without the link
	return q.jobPage(id, &d)
}

// holds are the lengths of a hold to choose from, in ms.
var holds = []int64{minuteMs, 15 * minuteMs, 60 * minuteMs, 24 * 60 * minuteMs}

// limits is the page of the limits by key.
func limits(q *request) error {
	var list v1.LimitList
	if err := q.get(v1.PathLimits, q.pageOf(), &list); err != nil {
		return err
	}
	return q.render("limits", "Limits", "limits", &struct {
		v1.LimitList
		Holds []int64
	}{list, holds})
}

// holdLimit lets no job start under a key for a time; 0 ends this.
func holdLimit(q *request) error {
	text := q.r.PostForm.Get("for")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return &apiError{Status: http.StatusBadRequest, Title: "Not held", Detail: strconv.Quote(text) + " is not a time in milliseconds."}
	}
	if err := q.post(segment(v1.PathLimits, q.r.PathValue("name"), v1.ActionHold), v1.HoldLimit{ForMs: &ms}, nil); err != nil {
		return err
	}
	notice := "hold"
	if ms == 0 {
		notice = "release"
	}
	return q.back("/limits", notice, 0)
}
