package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// listShown is the number of items on one page of the other lists.
const listShown = 50

// pageOf returns the query of one page of a list.
func (q *request) pageOf() url.Values {
	values := url.Values{v1.ParamLimit: {strconv.Itoa(listShown)}}
	if c := q.r.URL.Query().Get(v1.ParamCursor); c != "" {
		values.Set(v1.ParamCursor, c)
	}
	return values
}

func queues(q *request) error {
	var list v1.QueueList
	if err := q.get(v1.PathQueues, q.pageOf(), &list); err != nil {
		return err
	}
	return q.render("queues", "Queues", "queues", &queuesData{list, q.withoutWorker(list.Queues)})
}

type queuesData struct {
	v1.QueueList
	NoWorker map[string]bool // the types with available jobs that no worker takes
}

// workersSeen bounds the workers that are read to find one for each type.
const workersSeen = 1000

// withoutWorker returns the types that have available jobs which no worker takes. It returns
// none if the caller may not list the workers, or if there are more than workersSeen.
func (q *request) withoutWorker(types []v1.Queue) map[string]bool {
	if !slices.ContainsFunc(types, func(t v1.Queue) bool { return t.LacksWorker(nil) }) {
		return nil
	}
	var list v1.WorkerList
	if q.get(v1.PathWorkers, url.Values{v1.ParamLimit: {strconv.Itoa(workersSeen)}}, &list) != nil || list.NextCursor != "" {
		return nil
	}
	out := make(map[string]bool)
	for _, t := range types {
		out[t.Type] = t.LacksWorker(list.Workers)
	}
	return out
}

type queueData struct {
	Queue  v1.Queue
	Name   string // in paths
	Chart  *chart // nil: the token is limited to groups, of which there is no history
	Limits []limit
	Pauses []pauseChoice
	Reason string // of a new pause

	NoWorker bool   // it has available jobs that no worker takes
	Problem  string // the form was refused
}

// limit is a field of the form with the limits.
type limit struct{ Name, Label, Value string }

// rateLimit is the only limit that may have a fraction.
const rateLimit = "ratePerSecond"

// limitsOf returns the limits that the page of a queue changes. 0 is no limit.
func limitsOf(s *v1.QueueSettings) []limit {
	orNone := func(n string) string {
		if n == "0" {
			return ""
		}
		return n
	}
	whole := func(n int64) string { return orNone(strconv.FormatInt(n, 10)) }
	return []limit{
		{"maxRunning", "Running at once", whole(s.MaxRunning)},
		{"maxRunningPerGroup", "Running per group", whole(s.MaxRunningPerGroup)},
		{rateLimit, "Claims per second", orNone(decimal(s.RatePerSecond))},
		{"maxJobs", "Jobs that have not ended", whole(s.MaxJobs)},
	}
}

// pauseChoice is a length of a pause, in ms.
type pauseChoice struct {
	Ms     int64
	Chosen bool
}

// pauses are the lengths of a pause to choose from, in ms.
var pauses = []int64{15 * minuteMs, 60 * minuteMs, 4 * 60 * minuteMs, 24 * 60 * minuteMs}

const minuteMs = 60_000

func (q *request) queue() (v1.Queue, error) {
	var one v1.Queue
	return one, q.get(segment(v1.PathQueues, q.r.PathValue("type")), nil, &one)
}

func queue(q *request) error { return q.queuePage(http.StatusOK, "") }

// queuePage is the page of a queue. If its form was refused, it shows the problem, and the fields keep
// the values that the user entered.
func (q *request) queuePage(status int, problem string) error {
	one, err := q.queue()
	if err != nil {
		return err
	}
	d := queueData{
		NoWorker: q.withoutWorker([]v1.Queue{one})[one.Type], Queue: one, Name: q.r.PathValue("type"), Problem: problem,
		Limits: limitsOf(&one.Settings), Reason: q.r.PostForm.Get("reason"),
	}
	for _, ms := range pauses {
		d.Pauses = append(d.Pauses, pauseChoice{ms, strconv.FormatInt(ms, 10) == q.r.PostForm.Get("for")})
	}
	for i := range d.Limits {
		if l := &d.Limits[i]; q.r.PostForm.Has(l.Name) {
			l.Value = q.r.PostForm.Get(l.Name)
		}
	}
	var refused *apiError
	switch h, err := q.history(one.Type, false); {
	case err == nil:
		d.Chart = new(newChart(h, 720, 120, "Jobs per minute in the last hour"))
	case !errors.As(err, &refused) || refused.Status != http.StatusForbidden:
		return err
	}
	return q.renderAs(status, "queue", "Queue "+typeName(one.Type), "queues", &d)
}

func confirmPurge(q *request) error {
	one, err := q.queue()
	if err != nil {
		return err
	}
	return q.render("purge", "Purge queue "+typeName(one.Type), "queues", &queueData{Queue: one, Name: q.r.PathValue("type")})
}

// listOf returns the page of a list of the API. name is that of the page in the menu and of its template.
func listOf[T any](path, name, title string) func(*request) error {
	return func(q *request) error {
		list := new(T)
		if err := q.get(path, q.pageOf(), list); err != nil {
			return err
		}
		return q.render(name, title, name, list)
	}
}

func schedule(q *request) error {
	var one v1.Cron
	if err := q.get(segment(v1.PathCrons, q.r.PathValue("name")), nil, &one); err != nil {
		return err
	}
	return q.render("schedule", "Schedule "+one.Name, "schedules", &one)
}

func worker(q *request) error {
	var one v1.Worker
	if err := q.get(segment(v1.PathWorkers, q.r.PathValue("name")), nil, &one); err != nil {
		return err
	}
	var list v1.JobList
	values := url.Values{v1.ParamWorker: {one.Name}, v1.ParamStatus: {v1.StatusInProgress}, v1.ParamLimit: {strconv.Itoa(listShown)}}
	if err := q.get(v1.PathJobs, values, &list); err != nil {
		return err
	}
	return q.render("worker", "Worker "+one.Name, "workers", &struct {
		Worker v1.Worker
		Jobs   []v1.Job
	}{one, list.Jobs})
}

func events(q *request) error { return q.render("events", "Events", "events", nil) }

func cluster(q *request) error { return q.render("cluster", "Cluster", "cluster", nil) }

type hookData struct {
	Hook       v1.Hook
	Deliveries v1.HookDeliveries
}

// hook is the page of one webhook, with its deliveries.
func hook(q *request) error {
	var d hookData
	path := segment(v1.PathHooks, q.r.PathValue("name"))
	if err := q.get(path, nil, &d.Hook); err != nil {
		return err
	}
	// The leader delivers, so that it knows the attempts. Without a leader there are none.
	var refused *apiError
	err := q.call(http.MethodGet, path+"/"+v1.ActionDeliveries, url.Values{}, nil, &d.Deliveries)
	if err != nil && (!errors.As(err, &refused) || refused.Status < http.StatusInternalServerError) {
		return err
	}
	return q.render("hook", "Hook "+d.Hook.Name, "hooks", &d)
}
