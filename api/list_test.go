package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

// Every list is a part of the list of all jobs, in the same order, whichever index and page
// size it uses, and a cursor of one filter continues in another.
func TestListsAreCutsOfTheWholeList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t)
		drawJobs(rt, g)
		all := ok[v1.JobList](t, g.do("GET", "/v1/jobs?status=all", "")).Jobs
		q := drawQuery(rt)
		newest := rapid.Bool().Draw(rt, "newest")
		if newest {
			q.Set(v1.ParamSort, v1.SortNewest)
			slices.Reverse(all)
		}
		var want []string
		for i := range all {
			if wanted := q; matchesQuery(&all[i], wanted) {
				want = append(want, all[i].ID)
			}
		}
		g.s.Config.Limits.ListScan = rapid.IntRange(1, 50).Draw(rt, "scan")
		var got []string
		for range 500 {
			ids, next := g.listed("?" + q.Encode())
			got = append(got, ids...)
			if next == "" {
				break
			}
			q.Set(v1.ParamCursor, next)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%s: got %v, want %v", q.Encode(), got, want)
		}
		if n := g.counted(q); n != len(want) {
			rt.Fatalf("%s: counted %d, want %d", q.Encode(), n, len(want))
		}
	})
}

// drawJobs fills the queue with jobs of every kind.
func drawJobs(rt *rapid.T, g *rig) {
	short := rapid.SampledFrom([]string{"", "a", "b"})
	ok[v1.BatchCreated](g.t, g.do("POST", "/v1/batches", `{"id":"batch","jobs":[{"id":"open","delayMs":1000000}]}`))
	for i := range rapid.IntRange(0, 25).Draw(rt, "jobs") {
		id := "j" + strconv.Itoa(i)
		job := v1.NewJob{ID: id, Type: short.Draw(rt, "type"), Group: short.Draw(rt, "group")}
		if tag := short.Draw(rt, "tag"); tag != "" {
			job.Tags = []string{tag, "every"}
		}
		if rapid.Bool().Draw(rt, "in the batch") {
			job.BatchID = "batch"
		}
		if rapid.IntRange(0, 4).Draw(rt, "later") == 0 {
			job.DelayMs = 1_000_000
		}
		body, _ := json.Marshal(job)
		ok[v1.Enqueued](g.t, g.do("POST", "/v1/jobs", string(body)))
		switch rapid.IntRange(0, 5).Draw(rt, "then") {
		case 0:
			g.do("POST", "/v1/jobs/"+id+"/cancel", "")
		case 1, 2:
			g.do("POST", "/v1/jobs/claim", `{"workerId":"w`+short.Draw(rt, "worker")+`"}`)
		case 3:
			j := ok[v1.ClaimedJob](g.t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w"}`))
			if j.JobID != "" {
				g.do("POST", "/v1/jobs/"+j.JobID+"/fail", `{"workerId":"w","retryable":false}`)
			}
		case 4:
			g.node.tick(time.Second)
		}
	}
}

func drawQuery(rt *rapid.T) url.Values {
	q := url.Values{}
	statuses := rapid.SliceOfNDistinct(rapid.SampledFrom(statusNames()), 1, 4, rapid.ID[string]).Draw(rt, "statuses")
	q.Set(v1.ParamStatus, strings.Join(statuses, ","))
	for name, values := range map[string][]string{
		v1.ParamType: {"a", "b", "~", "nope"}, v1.ParamTag: {"a", "every"}, v1.ParamGroup: {"a", "b"}, v1.ParamBatch: {"batch", "nope"},
		v1.ParamWorker: {"w", "wa"}, v1.ParamCron: {"nope"},
		v1.ParamCreatedFrom:   {strconv.Itoa(startMs + 1000), strconv.Itoa(startMs + 3000)},
		v1.ParamCreatedBefore: {strconv.Itoa(startMs + 1), strconv.Itoa(startMs + 3000)},
		v1.ParamFinishedFrom:  {strconv.Itoa(startMs + 2000)}, v1.ParamFinishedBefore: {strconv.Itoa(startMs + 4000)},
		v1.ParamSearch: {"EVER", "j1", "null", "no such text"},
	} {
		if rapid.IntRange(0, 3).Draw(rt, "by "+name) == 0 {
			q.Set(name, rapid.SampledFrom(values).Draw(rt, name))
		}
	}
	if q.Has(v1.ParamTag) && rapid.Bool().Draw(rt, "two tags") {
		q.Add(v1.ParamTag, "every")
	}
	q.Set(v1.ParamLimit, strconv.Itoa(rapid.IntRange(1, 30).Draw(rt, "limit")))
	return q
}

func matchesQuery(j *v1.Job, q url.Values) bool {
	at := func(name string, otherwise int64) int64 {
		if n, err := strconv.ParseInt(q.Get(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	is := func(name, value string) bool { return q.Get(name) == "" || q.Get(name) == value }
	worker := ""
	if j.WorkerID != nil {
		worker = *j.WorkerID
	}
	lacks := func(tag string) bool { return !slices.Contains(j.Tags, tag) }
	return slices.Contains(strings.Split(q.Get(v1.ParamStatus), ","), j.Status) && is(v1.ParamType, v1.QueueName(j.Type)) &&
		is(v1.ParamGroup, j.Group) && is(v1.ParamBatch, j.BatchID) && is(v1.ParamWorker, worker) && is(v1.ParamCron, j.Cron) &&
		!slices.ContainsFunc(q[v1.ParamTag], lacks) &&
		j.CreatedAt >= at(v1.ParamCreatedFrom, 0) && j.CreatedAt < at(v1.ParamCreatedBefore, startMs*2) &&
		(!q.Has(v1.ParamFinishedFrom) && !q.Has(v1.ParamFinishedBefore) || j.FinishedAt != 0) &&
		j.FinishedAt >= at(v1.ParamFinishedFrom, 0) && j.FinishedAt < at(v1.ParamFinishedBefore, startMs*2) &&
		strings.Contains(strings.ToLower(strings.Join(append(j.Tags, j.ID, j.Type, j.LastError, string(j.Payload)), "\n")), strings.ToLower(q.Get(v1.ParamSearch)))
}

// counted adds up the counts of the jobs that a query selects.
func (g *rig) counted(q url.Values) (n int) {
	g.t.Helper()
	q = maps.Clone(q)
	q.Del(v1.ParamCursor)
	for range 500 {
		part := ok[v1.JobCount](g.t, g.do("GET", v1.PathCount+"?"+q.Encode(), ""))
		n += int(part.Count)
		if part.NextCursor == "" {
			return n
		}
		q.Set(v1.ParamCursor, part.NextCursor)
	}
	g.t.Fatal("the count does not end")
	return 0
}

// inside makes a read of this program.
func (g *rig) inside(target string) answer {
	g.t.Helper()
	w := httptest.NewRecorder()
	if !(within{g.s}).Pass(g.t.Context(), "GET", target, "192.0.2.1:5", nil, w) {
		g.t.Fatalf("the answer to %s breaks off", target)
	}
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

// Reads for clients of the legacy broker are answered also while the bucket takes no writes. Others are not.
func TestReadsForLegacyClients(t *testing.T) {
	g := newRig(t)
	g.submit("j", "t")
	const legacy = "?" + v1.ParamConsistency + "=" + v1.ConsistencyLegacy
	for _, path := range []string{v1.PathJobs, v1.PathStats, v1.PathState} {
		refused(t, g.do("GET", path+legacy, ""), http.StatusBadRequest, v1.TagBadRequest)
		for err, status := range map[error]int{nil: 200, cluster.ErrFlushLag: 200, cluster.ErrNotLeader: 503} {
			g.node.set(func(f *fakeNode) { f.linearErr = err })
			if a := g.inside(path + legacy); a.status != status {
				t.Errorf("%s, %v: answered %d %s", path, err, a.status, a.body)
			}
			if a := g.inside(path); (a.status == http.StatusOK) != (err == nil) {
				t.Errorf("%s without it, %v: answered %d %s", path, err, a.status, a.body)
			}
		}
	}
}

// This program gets all pages of a list in one answer, for clients of the legacy broker, up to a bound. Others do not.
func TestListOfAllPages(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Limits.ListJobs, c.Limits.AllBytes = 2, 6*core.ShortJob })
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("j%d", i))
		g.submit(want[i], "t")
	}
	const whole = v1.PathJobs + "?" + v1.ParamLimit + "=" + v1.LimitAll
	refused(t, g.do("GET", whole, ""), http.StatusBadRequest, v1.TagBadRequest)
	for _, path := range []string{whole, whole + "&" + v1.ParamConsistency + "=" + v1.ConsistencyLegacy} {
		var got []string
		next, answers := "", 0
		for answers == 0 || next != "" {
			list := ok[v1.JobList](t, g.inside(path+"&cursor="+next))
			for i := range list.Jobs {
				got = append(got, list.Jobs[i].ID)
			}
			next = list.NextCursor
			answers++
		}
		if !slices.Equal(got, want) || answers != 2 {
			t.Errorf("%s: %d answers with %v", path, answers, got)
		}
	}
}

// A page whose time is over ends early, and the next one continues: the pages together have
// every job once.
func TestPagesEndWhenTheirTimeIsOver(t *testing.T) {
	g := newRig(t)
	for range 3 * 16 {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"a"}`))
	}
	g.s.Config.Timeouts.List = -time.Second
	for _, sort := range []string{v1.SortOldest, v1.SortNewest} {
		seen, pages, next := map[string]bool{}, 0, ""
		for {
			ids, after := g.listed("?" + url.Values{v1.ParamSort: {sort}, v1.ParamCursor: {next}}.Encode())
			for _, id := range ids {
				seen[id] = true
			}
			if pages++; after == "" {
				break
			}
			next = after
		}
		if len(seen) != 3*16 || pages < 3 {
			t.Errorf("%s: %d jobs on %d pages", sort, len(seen), pages)
		}
	}
}

// A browser at / gets to the dashboard; all other clients get 404, as from the legacy broker.
func TestRootOfABrowser(t *testing.T) {
	g := newRig(t)
	get := func(g *rig, method, path, accept string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Accept", accept)
		g.s.ServeHTTP(w, r)
		return w
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	with := newRig(t, func(c *core.Config) { c.Internal = map[string]http.Handler{"/ui": http.NotFoundHandler()} })
	if w := get(with, http.MethodGet, "/", browser); w.Code != http.StatusFound || w.Header().Get("Location") != "/ui" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, c := range [][2]string{{http.MethodGet, "*/*"}, {http.MethodPost, browser}} {
		if w := get(with, c[0], "/", c[1]); w.Code != http.StatusNotFound {
			t.Errorf("%v: %d, want 404", c, w.Code)
		}
	}
	if w := get(g, http.MethodGet, "/", browser); w.Code != http.StatusNotFound {
		t.Errorf("without the dashboard: %d, want 404", w.Code)
	}
}

// A job of a schedule has the time for which it was enqueued, also for its worker.
func TestCronAt(t *testing.T) {
	g := newRig(t)
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", `{"spec":"@every 1m","job":{"type":"t"}}`))
	next := g.cron("c").NextAt
	id, err := crontab.NewID(next)
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
		Name: "c", DueMs: next, AtMs: next, NextMs: next + 60_000, JobId: id,
	}}})
	if err != nil || res[0].Code != fsm.OK {
		t.Fatal(res, err)
	}
	claimed := ok[v1.Claimed](t, g.do("POST", "/v1/jobs/claim", `{"types":["t"],"max":1}`))
	if len(claimed.Jobs) != 1 || claimed.Jobs[0].CronAt != next || claimed.Jobs[0].Cron != "c" {
		t.Errorf("claimed %+v, want the time %d", claimed.Jobs, next)
	}
	if job := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+id, "")); job.CronAt != next {
		t.Errorf("%+v, want the time %d", job, next)
	}
	g.do("POST", "/v1/jobs", `{"id":"`+strings.Replace(id, id[24:], "000000000001", 1)+`","type":"t"}`)
	if job := ok[v1.Job](t, g.do("GET", "/v1/jobs/"+strings.Replace(id, id[24:], "000000000001", 1), "")); job.CronAt != 0 {
		t.Errorf("%+v is of no schedule", job)
	}
}
