package ui

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
)

// jobsShown is the number of jobs on one page.
const jobsShown = 50

// statuses are the choices of the filter, in the order of a job's life.
var statuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress, v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled,
}

// filter has the conditions of a list of jobs, as in the query of the page.
type filter struct {
	Status, Type, Tag, Group, Worker, Batch string
}

func filterOf(values url.Values) filter {
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return filter{
		Status: v1.StatusOf(text("status")), Type: text("type"), Tag: text("tag"), Group: text("group"),
		Worker: text("worker"), Batch: text("batch"),
	}
}

// query returns the conditions as a query of the API and of the page.
func (f filter) query() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		v1.ParamStatus: f.Status, v1.ParamType: f.Type, v1.ParamTag: f.Tag, v1.ParamGroup: f.Group,
		v1.ParamWorker: f.Worker, v1.ParamBatch: f.Batch,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// encode returns the conditions as the query of a path.
func (f filter) encode() string { return f.query().Encode() }

// Query returns the conditions as the query of a link in a template.
func (f filter) Query() template.URL { return link(f.query()) }

// link returns the query of a link. The type keeps the template from escaping it again; the
// encoding of values leaves no character with a meaning in HTML but &.
func link(values url.Values) template.URL { return template.URL(values.Encode()) } //nolint:gosec // see above

// change returns the conditions as those of a change.
func (f filter) change() *v1.Filter {
	out := &v1.Filter{Tag: f.Tag, BatchID: f.Batch}
	if f.Status != "" && f.Status != v1.StatusAll {
		out.Statuses = []string{f.Status}
	}
	if f.Type != "" {
		out.Type = &f.Type
	}
	if f.Group != "" {
		out.Group = &f.Group
	}
	if f.Worker != "" {
		out.WorkerID = &f.Worker
	}
	out.All = f.encode() == "" || f.encode() == "status="+v1.StatusAll
	return out
}

type jobsData struct {
	Filter   filter
	Statuses []string
	Jobs     []v1.Job
	Next     template.URL // the query of the next page
	First    bool
	Actions  []string // that apply to the matching jobs
}

// jobs is the list of jobs.
func jobs(q *request) error {
	given := q.r.URL.Query()
	if id := strings.TrimSpace(given.Get("id")); id != "" {
		return q.find(id)
	}
	d := jobsData{Filter: filterOf(given), Statuses: statuses, First: given.Get(v1.ParamCursor) == ""}
	values := d.Filter.query()
	if d.Filter.Status == "" {
		values.Set(v1.ParamStatus, v1.StatusAll)
	}
	values.Set(v1.ParamLimit, strconv.Itoa(jobsShown))
	if c := given.Get(v1.ParamCursor); c != "" {
		values.Set(v1.ParamCursor, c)
	}
	var list v1.JobList
	if err := q.get(v1.PathJobs, values, &list); err != nil {
		return err
	}
	d.Jobs, d.Actions = list.Jobs, actionsFor(d.Filter.Status)
	if list.NextCursor != "" {
		next := d.Filter.query()
		next.Set(v1.ParamCursor, list.NextCursor)
		d.Next = link(next)
	}
	return q.render("jobs", "Jobs", "jobs", &d)
}

// find opens the job with an id. Text that is no id of a job is searched as a type.
func (q *request) find(id string) error {
	var j v1.Job
	if q.get(segment(v1.PathJobs, id), nil, &j) != nil {
		return q.redirect(jobsOf("type", id))
	}
	return q.redirect(Root + segment("/jobs", id))
}

// actionsFor returns the bulk actions that apply to jobs in a status; "" is any status.
func actionsFor(status string) []string {
	switch status {
	case v1.StatusDead, v1.StatusCancelled:
		return []string{"retry", "delete"}
	case v1.StatusCompleted:
		return []string{"delete"}
	case v1.StatusInProgress:
		return []string{"cancel"}
	case v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusBlocked:
		return []string{"cancel", "delete"}
	}
	return nil
}

// countMax is the number of matching jobs up to which a confirmation counts exactly.
const countMax = 1000

type bulkData struct {
	Filter filter
	Action string
	Count  int
	More   bool // there are more than Count
	Fields []field
}

// field is a hidden field of a form.
type field struct{ Name, Value string }

// confirmBulk asks before a bulk action, with the number of jobs.
func confirmBulk(q *request) error {
	given := q.r.URL.Query()
	d := bulkData{Filter: filterOf(given), Action: given.Get("action")}
	if !slices.Contains(actionsFor(d.Filter.Status), d.Action) {
		return badAction(d.Action)
	}
	var err error
	if d.Count, d.More, err = q.count(d.Filter); err != nil {
		return err
	}
	for name, values := range d.Filter.query() {
		d.Fields = append(d.Fields, field{name, values[0]})
	}
	slices.SortFunc(d.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return q.render("bulk", "Change jobs", "jobs", &d)
}

// count returns the number of jobs that match, exactly if status and type are the only
// conditions, and otherwise up to countMax.
func (q *request) count(f filter) (n int, more bool, err error) {
	if (f == filter{Status: f.Status, Type: f.Type}) && f.Type != "" {
		var t v1.Queue
		err = q.get(segment(v1.PathQueues, v1.QueueName(f.Type)), nil, &t)
		return countOf(&t.TypeStats, f.Status), false, err
	}
	if f == (filter{Status: f.Status}) {
		var s v1.Stats
		err = q.get(v1.PathStats, nil, &s)
		return countOf(&v1.TypeStats{
			Scheduled: s.Scheduled, Unclaimed: s.Unclaimed, InProgress: s.InProgress, Completed: s.Completed,
			Dead: s.Dead, Cancelled: s.Cancelled, Blocked: s.Blocked,
		}, f.Status), false, err
	}
	values := f.query()
	values.Set(v1.ParamLimit, strconv.Itoa(countMax))
	var list v1.JobList
	err = q.get(v1.PathJobs, values, &list)
	return len(list.Jobs), list.NextCursor != "", err
}

func countOf(s *v1.TypeStats, status string) int {
	switch status {
	case v1.StatusScheduled:
		return s.Scheduled
	case v1.StatusUnclaimed:
		return s.Unclaimed
	case v1.StatusInProgress:
		return s.InProgress
	case v1.StatusCompleted:
		return s.Completed
	case v1.StatusDead:
		return s.Dead
	case v1.StatusCancelled:
		return s.Cancelled
	case v1.StatusBlocked:
		return s.Blocked
	}
	return s.Scheduled + s.Unclaimed + s.InProgress + s.Completed + s.Dead + s.Cancelled + s.Blocked
}
