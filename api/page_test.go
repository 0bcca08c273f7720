package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
)

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
