package ui

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// deadScan is the number of dead jobs that one page groups.
const deadScan = 1000

type deadGroup struct {
	Type, Error string
	Count       int
	First, Last int64
	Example     string // id
}

type deadData struct {
	Groups []deadGroup
	Seen   int
	Total  int
	Next   template.URL // query of the next page
	Cursor string
}

// dead groups the dead jobs by type and first line of the error.
func dead(q *request) error {
	cursor := q.r.URL.Query().Get(v1.ParamCursor)
	list, err := q.deadJobs(cursor)
	if err != nil {
		return err
	}
	d := deadData{Seen: len(list.Jobs), Total: list.Dead, Cursor: cursor}
	groups := map[[2]string]*deadGroup{}
	for i := range list.Jobs {
		j := &list.Jobs[i]
		key := [2]string{j.Type, firstLine(j.LastError)}
		g := groups[key]
		if g == nil {
			g = &deadGroup{Type: key[0], Error: key[1], First: j.FinishedAt}
			groups[key] = g
		}
		g.Count++
		g.First = min(g.First, j.FinishedAt)
		if j.FinishedAt >= g.Last {
			g.Last, g.Example = j.FinishedAt, j.ID
		}
	}
	for _, g := range groups {
		d.Groups = append(d.Groups, *g)
	}
	slices.SortFunc(d.Groups, func(a, b deadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Error, b.Error))
	})
	if list.NextCursor != "" {
		d.Next = link(url.Values{v1.ParamCursor: {list.NextCursor}})
	}
	return q.render("dead", "Dead jobs", "dead", &d)
}

func (q *request) deadJobs(cursor string) (list v1.JobList, err error) {
	values := url.Values{v1.ParamStatus: {v1.StatusDead}, v1.ParamLimit: {strconv.Itoa(deadScan)}}
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
	list, err := q.deadJobs(form.Get(v1.ParamCursor))
	if err != nil {
		return err
	}
	var ids []string
	for i := range list.Jobs {
		if j := &list.Jobs[i]; j.Type == form.Get("type") && firstLine(j.LastError) == form.Get("error") {
			ids = append(ids, j.ID)
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
	page := "/dead"
	if cursor := form.Get(v1.ParamCursor); cursor != "" {
		page += "?" + url.Values{v1.ParamCursor: {cursor}}.Encode()
	}
	return q.back(page, action, changed.Count)
}
