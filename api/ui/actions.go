package ui

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// bulkTime bounds the time of one bulk action. The rest needs another click.
const bulkTime = 5 * time.Second

func badAction(name string) error {
	return &apiError{Status: http.StatusBadRequest, Title: "The action is not possible", Detail: "There is no action " + strconv.Quote(name) + " for these jobs."}
}

func (q *request) redirect(path string) error {
	http.Redirect(q.w, q.r, path, http.StatusSeeOther)
	return nil
}

// changePaths are the paths of the API that change jobs by a filter.
var changePaths = map[string]string{"retry": v1.PathRetry, "cancel": v1.PathCancel, "delete": v1.PathDelete}

// bulk retries, cancels or deletes all jobs that match a filter.
func bulk(q *request) error {
	f, action := filterOf(q.r.PostForm), q.r.PostForm.Get("action")
	if !slices.Contains(actionsFor(f.Status), action) {
		return badAction(action)
	}
	change := q.changeAll
	if f.byID() {
		change = func(action string, _ *v1.Filter) (uint64, bool, error) { return q.changeListed(action, f) }
	}
	n, rest, err := change(action, f.change())
	if err != nil {
		return err
	}
	return q.back("/jobs?"+f.encode(), noticeFor(action, rest), n)
}

func noticeFor(action string, rest bool) string {
	if rest {
		return "continues"
	}
	return action
}

// changeAll changes all jobs of a filter, in requests that the API bounds. rest reports that
// the time was over before the last job.
func (q *request) changeAll(action string, f *v1.Filter) (n uint64, rest bool, err error) {
	in := v1.ChangeJobs{Filter: f}
	for end := time.Now().Add(bulkTime); time.Now().Before(end); {
		var out v1.Changed
		if err := q.post(changePaths[action], in, &out); err != nil {
			return n, true, err
		}
		n += out.Count
		if in.Cursor = out.NextCursor; in.Cursor == "" {
			return n, false, nil
		}
	}
	return n, true, nil
}

// changeListed changes the jobs of a list by their ids, page by page. A changed job may leave
// the list; the cursor is a position, so that no other job is skipped.
func (q *request) changeListed(action string, f filter) (n uint64, rest bool, err error) {
	values := f.list(time.Now())
	for end := time.Now().Add(bulkTime); time.Now().Before(end); {
		var page v1.JobList
		if err := q.get(v1.PathJobs, values, &page); err != nil {
			return n, true, err
		}
		var in v1.ChangeJobs
		for i := range page.Jobs {
			in.IDs = append(in.IDs, page.Jobs[i].ID)
		}
		if len(in.IDs) > 0 {
			var out v1.Changed
			if err := q.post(changePaths[action], in, &out); err != nil {
				return n, true, err
			}
			n += out.Count
		}
		if page.NextCursor == "" {
			return n, false, nil
		}
		values.Set(v1.ParamCursor, page.NextCursor)
	}
	return n, true, nil
}

// effect is what an action does to an object: a call of the API, and the page after it.
type effect struct {
	method, action string // of the API
	own            bool   // the page of the object follows, and not that of the list
}

// act returns the actions on the objects of a path of the API, which have the pages below page.
func act(api, page string, effects map[string]effect) func(*request) error {
	return func(q *request) error {
		name, action := q.r.PathValue("name"), q.r.PathValue("action")
		e, ok := effects[action]
		if !ok {
			return badAction(action)
		}
		path, next := segment(api, name), page
		if e.action != "" {
			path += "/" + e.action
		}
		if e.own {
			next = segment(page, name)
		}
		if err := q.write(e.method, path, nil, nil); err != nil {
			return err
		}
		return q.back(next, action, 0)
	}
}

// clone enqueues a copy of a job.
func clone(q *request) error {
	var j v1.Job
	if err := q.get(segment(v1.PathJobs, q.r.PathValue("name")), nil, &j); err != nil {
		return err
	}
	var made v1.Enqueued
	if err := q.post(v1.PathJobs, copyOf(&j), &made); err != nil {
		return err
	}
	return q.back(segment("/jobs", made.JobID), "clone", 0)
}

func changeQueue(q *request) error {
	name, action := q.r.PathValue("type"), q.r.PathValue("action")
	if action != v1.ActionPause && action != v1.ActionResume {
		return badAction(action)
	}
	var body any
	if action == v1.ActionPause {
		var pause v1.NewPause
		pause.Reason = strings.TrimSpace(q.r.PostForm.Get("reason"))
		if text := q.r.PostForm.Get("for"); text != "" {
			var err error
			if pause.ForMs, err = strconv.ParseInt(text, 10, 64); err != nil {
				return &apiError{Status: http.StatusBadRequest, Title: "Not paused", Detail: strconv.Quote(text) + " is not a time in milliseconds."}
			}
		}
		body = pause
	}
	err := q.post(segment(v1.PathQueues, name, action), body, nil)
	if e := badForm(err); e != nil {
		return q.queuePage(e.Status, "Not paused: "+e.Detail)
	}
	if err != nil {
		return err
	}
	return q.back(segment("/queues", name), action, 0)
}

// setLimits changes the limits of a queue. An empty field removes the limit.
func setLimits(q *request) error {
	const notSaved = "Limits not saved: "
	patch := make(map[string]any)
	fields := limitsOf(new(v1.QueueSettings))
	for _, l := range fields {
		text := strings.TrimSpace(q.r.PostForm.Get(l.Name))
		n, ok := numberIn(l.Name, text)
		if !ok {
			return q.queuePage(http.StatusBadRequest, notSaved+l.Label+" is "+strconv.Quote(text)+"; write a number, or leave the field empty for no limit.")
		}
		patch[l.Name] = n
	}
	name := q.r.PathValue("type")
	err := q.write(http.MethodPatch, segment(v1.PathQueues, name), patch, nil)
	if e := badForm(err); e != nil {
		detail := strings.Replace(e.Detail, "or null for", "or empty for", 1)
		for _, l := range fields {
			if rest, ok := strings.CutPrefix(detail, l.Name+" "); ok {
				detail = l.Label + " " + rest
			}
		}
		return q.queuePage(e.Status, notSaved+detail)
	}
	if err != nil {
		return err
	}
	return q.back(segment("/queues", name), "limits", 0)
}

// numberIn returns the value of a limit, which is nil for no limit.
func numberIn(name, text string) (n any, ok bool) {
	if text == "" {
		return nil, true
	}
	if name == rateLimit {
		rate, err := strconv.ParseFloat(text, 64)
		return rate, err == nil && !math.IsNaN(rate) && !math.IsInf(rate, 0)
	}
	whole, err := strconv.ParseInt(text, 10, 64)
	return whole, err == nil && whole >= 0
}

// badForm returns err if the API refused the values of a form, otherwise nil.
func badForm(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok && e.Status == http.StatusBadRequest {
		return e
	}
	return nil
}

// purge deletes the jobs of a queue that do not run. The form repeats the name of the queue.
func purge(q *request) error {
	name := q.r.PathValue("type")
	jobType, ok := v1.QueueType(name)
	if !ok || q.r.PostForm.Get("confirm") != name {
		return &apiError{Status: http.StatusBadRequest, Title: "Not purged", Detail: "Write " + strconv.Quote(name) + " to confirm."}
	}
	n, rest, err := q.changeAll("delete", &v1.Filter{Type: &jobType})
	if err != nil {
		return err
	}
	return q.back(segment("/queues", name), noticeFor("purge", rest), n)
}
