package ui

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// jobsShown is the number of jobs on one page.
const jobsShown = 50

// statuses are the choices of the filter, in the order of a job's life.
var statuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress, v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled, v1.StatusExpired,
}

// filter has the conditions of a list of jobs, as in the query of the page. Type is a name of
// v1.QueueName, or a type that begins with ~ and that v1.QueueName would write in another way.
type filter struct {
	Status, Type, Tag, Group, Worker, Batch, Cron string
	Search                                        string
	Time                                          string // one of times
}

// paramTime is the field for filter.Time.
const paramTime = "time"

// times are the choices of filter.Time: the start of a range that ends now.
var times = []timeChoice{
	{"created-1h", "created in the last hour", v1.ParamCreatedFrom, time.Hour},
	{"created-24h", "created in the last 24 h", v1.ParamCreatedFrom, 24 * time.Hour},
	{"created-7d", "created in the last 7 days", v1.ParamCreatedFrom, 7 * 24 * time.Hour},
	{"ended-1h", "ended in the last hour", v1.ParamFinishedFrom, time.Hour},
	{"ended-24h", "ended in the last 24 h", v1.ParamFinishedFrom, 24 * time.Hour},
	{"ended-7d", "ended in the last 7 days", v1.ParamFinishedFrom, 7 * 24 * time.Hour},
}

type timeChoice struct {
	Name, Text string
	param      string // of the API
	length     time.Duration
}

func filterOf(values url.Values) filter {
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f := filter{
		Status: v1.StatusOf(text("status")), Type: text("type"), Tag: text("tag"), Group: text("group"),
		Worker: text("worker"), Batch: text("batch"), Cron: text(v1.ParamCron), Search: text(v1.ParamSearch), Time: text(paramTime),
	}
	if !slices.ContainsFunc(times, func(c timeChoice) bool { return c.Name == f.Time }) {
		f.Time = ""
	}
	return f
}

// query returns the conditions as the query of the page.
func (f filter) query() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		v1.ParamStatus: f.Status, v1.ParamType: f.Type, v1.ParamTag: f.Tag, v1.ParamGroup: f.Group,
		v1.ParamWorker: f.Worker, v1.ParamBatch: f.Batch, v1.ParamCron: f.Cron, v1.ParamSearch: f.Search, paramTime: f.Time,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// list returns the conditions as a query of the API. All statuses are listed unless the
// filter has one.
func (f filter) list(now time.Time) url.Values {
	values := f.query()
	values.Del(paramTime)
	for _, c := range times {
		if c.Name == f.Time {
			values.Set(c.param, strconv.FormatInt(now.Add(-c.length).UnixMilli(), 10))
		}
	}
	if f.Status == "" {
		values.Set(v1.ParamStatus, v1.StatusAll)
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

// byID reports whether a change cannot have the conditions of the filter, so that it names
// the jobs.
func (f filter) byID() bool { return f.Search+f.Time+f.Cron != "" }

// jobType returns the type that f.Type names, as lists of the API read it.
func (f filter) jobType() string {
	if jobType, ok := v1.QueueType(f.Type); ok {
		return jobType
	}
	return f.Type
}

// change returns the conditions as those of a change.
func (f filter) change() *v1.Filter {
	out := &v1.Filter{Tag: f.Tag, BatchID: f.Batch}
	if f.Status != "" && f.Status != v1.StatusAll {
		out.Statuses = []string{f.Status}
	}
	if f.Type != "" {
		out.Type = new(f.jobType())
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
	Times    []timeChoice
	Oldest   bool         // the oldest job first; otherwise the newest
	Next     template.URL // the query of the next page
	First    bool
	Problem  string   // the list was refused
	Actions  []string // that apply to the matching jobs
}

// refusal puts the refusal of a list onto its page, so that the caller can change the filter: a token
// that is limited to some types must name one. It returns the status of the page, or another error.
func (d *jobsData) refusal(err error) (int, error) {
	if refused, ok := errors.AsType[*apiError](err); ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusBadRequest) {
		d.Problem = refused.Error()
		return refused.Status, nil
	}
	return http.StatusOK, err
}

// jobs is the list of jobs.
func jobs(q *request) error {
	given := q.r.URL.Query()
	if id := strings.TrimSpace(given.Get("id")); id != "" {
		return q.find(id)
	}
	d := jobsData{
		Filter: filterOf(given), Statuses: statuses, Times: times, First: given.Get(v1.ParamCursor) == "",
		Oldest: given.Get(v1.ParamSort) == v1.SortOldest,
	}
	order := v1.SortNewest
	if d.Oldest {
		order = v1.SortOldest
	}
	values := d.Filter.list(q.shownTime())
	values.Set(v1.ParamSort, order)
	values.Set(v1.ParamLimit, strconv.Itoa(jobsShown))
	if c := given.Get(v1.ParamCursor); c != "" {
		values.Set(v1.ParamCursor, c)
	}
	list, err := q.firstJobs(values)
	status, err := d.refusal(err)
	if err != nil {
		return err
	}
	d.Jobs, d.Actions = list.Jobs, actionsFor(d.Filter.Status)
	if list.NextCursor != "" {
		next := d.Filter.query()
		next.Set(v1.ParamSort, order)
		next.Set(v1.ParamCursor, list.NextCursor)
		d.Next = link(next)
	}
	return q.renderAs(status, "jobs", "Jobs", "jobs", &d)
}

// firstTime bounds the time before the last request of firstJobs.
const firstTime = 50 * time.Millisecond

// firstJobs lists the first page that has a job, as far as it is found within firstTime: a request of
// the API looks at a bounded number of jobs. A page that took several requests does not refresh.
func (q *request) firstJobs(values url.Values) (list v1.JobList, err error) {
	for end := time.Now().Add(firstTime); ; {
		var next v1.JobList
		if err = q.get(v1.PathJobs, values, &next); err != nil && list.NextCursor != "" {
			return list, nil // what was looked at is not lost
		}
		list = next
		if err != nil || len(list.Jobs) > 0 || list.NextCursor == "" || time.Now().After(end) {
			return list, err
		}
		q.still = true
		values.Set(v1.ParamCursor, list.NextCursor)
	}
}

// find opens the job with an id. Text that is no id of a job is searched as a type.
func (q *request) find(id string) error {
	var j v1.Job
	if q.get(segment(v1.PathJobs, id), nil, &j) != nil {
		return q.redirect(q.base + jobsOf("type", id))
	}
	return q.redirect(q.base + segment("jobs", id))
}

// actionsFor returns the bulk actions that apply to jobs in a status; "" is any status.
func actionsFor(status string) []string {
	switch status {
	case v1.StatusDead, v1.StatusCancelled, v1.StatusExpired:
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

// countTime bounds the time in which a confirmation counts the jobs.
const countTime = time.Second

type bulkData struct {
	Filter filter
	Action string
	Count  int
	More   bool // there are more than Count
	Fields []field
}

// field is a hidden field of a form, and its text on the page.
type field struct{ Name, Value, Text string }

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
		one := field{name, values[0], values[0]}
		switch name {
		case v1.ParamStatus:
			one.Text = v1.StatusWord(one.Value)
		case v1.ParamType:
			one.Text = typeName(d.Filter.jobType())
		}
		d.Fields = append(d.Fields, one)
	}
	slices.SortFunc(d.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return q.render("bulk", "Change jobs", "jobs", &d)
}

// count returns the number of jobs that match. more reports that the time was over before the
// last one.
func (q *request) count(f filter) (n int, more bool, err error) {
	if (f == filter{Status: f.Status, Type: f.Type}) && f.Type != "" {
		var t v1.Queue
		err = q.get(segment(v1.PathQueues, v1.QueueName(f.jobType())), nil, &t)
		return countOf(&t.TypeStats, f.Status), false, err
	}
	values := f.list(time.Now())
	for end := time.Now().Add(countTime); ; {
		var part v1.JobCount
		if err := q.get(v1.PathCount, values, &part); err != nil {
			return 0, false, err
		}
		n += int(part.Count)
		if part.NextCursor == "" || time.Now().After(end) {
			return n, part.NextCursor != "", nil
		}
		values.Set(v1.ParamCursor, part.NextCursor)
	}
}

// countOf returns the number of jobs in a status, or else of all.
func countOf(s *v1.TypeStats, status string) (n int) {
	counts := map[string]int{
		v1.StatusScheduled: s.Scheduled, v1.StatusUnclaimed: s.Unclaimed, v1.StatusInProgress: s.InProgress, v1.StatusCompleted: s.Completed,
		v1.StatusDead: s.Dead, v1.StatusCancelled: s.Cancelled, v1.StatusBlocked: s.Blocked, v1.StatusExpired: s.Expired,
	}
	if one, known := counts[status]; known {
		return one
	}
	for _, one := range counts {
		n += one
	}
	return n
}
