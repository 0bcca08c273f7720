package ui

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
)

// deadScan is the number of dead jobs of a type that one page groups.
const deadScan = 1000

// deadType is a type with dead jobs.
type deadType struct {
	Name string // of v1.QueueName, as a parameter
	Type string
	Dead int
}

type deadGroup struct {
	Error   string // of v1.ErrorGroup
	Count   int
	Last    int64
	Example string // id
}

type deadData struct {
	Types []deadType // with the most dead jobs first

	// Of one type.
	Name, Type string
	Groups     []deadGroup
	Seen       int
	Total      int
	Next       template.URL // query of the next page
	Cursor     string
}

// dead lists the types with dead jobs, or groups the dead jobs of one type by their error.
func dead(q *request) error {
	if name := q.r.URL.Query().Get(v1.ParamType); name != "" {
		return deadOfType(q, name)
	}
	var stats v1.Stats
	if err := q.get(v1.PathStats, url.Values{v1.ParamTypes: {"true"}}, &stats); err != nil {
		return err
	}
	d := deadData{Total: stats.Dead}
	for jobType, s := range stats.Types {
		if s.Dead > 0 {
			d.Types = append(d.Types, deadType{v1.QueueName(jobType), jobType, s.Dead})
		}
	}
	slices.SortFunc(d.Types, func(a, b deadType) int {
		return cmp.Or(cmp.Compare(b.Dead, a.Dead), strings.Compare(a.Type, b.Type))
	})
	return q.render("dead", "Dead jobs", "dead", &d)
}

func deadOfType(q *request, name string) error {
	cursor := q.r.URL.Query().Get(v1.ParamCursor)
	list, err := q.deadJobs(name, cursor)
	if err != nil {
		return err
	}
	d := deadData{Name: name, Type: filter{Type: name}.jobType(), Seen: len(list.Jobs), Total: len(list.Jobs), Cursor: cursor}
	var t v1.Queue
	if q.get(segment(v1.PathQueues, v1.QueueName(d.Type)), nil, &t) == nil {
		d.Total = max(t.Dead, d.Seen)
	}
	groups := map[string]*deadGroup{}
	for i := range list.Jobs {
		j := &list.Jobs[i]
		key := groupOf(j)
		g := groups[key]
		if g == nil {
			g = &deadGroup{Error: key}
			groups[key] = g
		}
		if g.Count++; j.FinishedAt >= g.Last {
			g.Last, g.Example = j.FinishedAt, j.ID
		}
	}
	for _, g := range groups {
		d.Groups = append(d.Groups, *g)
	}
	slices.SortFunc(d.Groups, func(a, b deadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last), strings.Compare(a.Error, b.Error))
	})
	if list.NextCursor != "" {
		d.Next = link(url.Values{v1.ParamType: {name}, v1.ParamCursor: {list.NextCursor}})
	}
	return q.render("dead", "Dead jobs", "dead", &d)
}

// groupOf returns the error of a dead job without what differs between jobs of the same reason.
func groupOf(j *v1.Job) string { return listed(v1.ErrorGroup(strings.TrimSpace(j.LastError))) }

// deadJobs returns dead jobs of a type, the newest first.
func (q *request) deadJobs(name, cursor string) (list v1.JobList, err error) {
	values := url.Values{v1.ParamStatus: {v1.StatusDead}, v1.ParamType: {name}, v1.ParamSort: {v1.SortNewest}, v1.ParamLimit: {strconv.Itoa(deadScan)}}
	if cursor != "" {
		values.Set(v1.ParamCursor, cursor)
	}
	return list, q.get(v1.PathJobs, values, &list)
}

// changeGroup retries or deletes the dead jobs of one group among those that the page shows.
func changeGroup(q *request) error {
	action := q.r.PathValue("action")
	if action != "retry" && action != "delete" {
		return badAction(action)
	}
	form := q.r.PostForm
	list, err := q.deadJobs(form.Get("type"), form.Get(v1.ParamCursor))
	if err != nil {
		return err
	}
	var ids []string
	for i := range list.Jobs {
		if groupOf(&list.Jobs[i]) == form.Get("error") {
			ids = append(ids, list.Jobs[i].ID)
		}
	}
	var changed v1.Changed
	if len(ids) > 0 {
		if err := q.post(changePaths[action], v1.ChangeJobs{IDs: ids}, &changed); err != nil {
			return err
		}
	}
	if changed.Count == 0 {
		action = "none"
	}
	to := url.Values{v1.ParamType: {form.Get("type")}}
	if cursor := form.Get(v1.ParamCursor); cursor != "" {
		to.Set(v1.ParamCursor, cursor)
	}
	return q.back("/dead?"+to.Encode(), action, changed.Count)
}
