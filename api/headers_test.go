package api

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// Headers go to the worker in every attempt, and every listing has them.
func TestHeaders(t *testing.T) {
	g := newRig(t)
	want := map[string]string{"traceparent": "00-1-2-01", "x.y": "\u00e9\" \n"}
	job := ok[v1.Enqueued](t, g.do(http.MethodPost, v1.PathJobs, `{"type":"t","headers":{"x.y":"é\" \n","traceparent":"00-1-2-01"}}`))
	for attempt := range 2 {
		claimed := ok[v1.ClaimedJob](t, g.do(http.MethodPost, v1.PathClaim, `{"workerId":"w"}`))
		if !maps.Equal(claimed.Headers, want) {
			t.Fatalf("attempt %d: headers %v", attempt, claimed.Headers)
		}
		if attempt == 0 {
			ok[v1.Reported](t, g.do(http.MethodPost, v1.PathJobs+"/"+job.JobID+"/fail", `{"workerId":"w","error":"no"}`))
		}
	}
	if shown := ok[v1.Job](t, g.do(http.MethodGet, v1.PathJobs+"/"+job.JobID, "")); !maps.Equal(shown.Headers, want) {
		t.Errorf("the job has %v", shown.Headers)
	}
}

// Headers are bounded and have plain names.
func TestInvalidHeaders(t *testing.T) {
	g := newRig(t)
	many := make([]string, 17)
	for i := range many {
		many[i] = `"h` + strings.Repeat("x", i) + `":""`
	}
	for _, headers := range []string{
		`{"Traceparent":"1"}`, `{"":"1"}`, `{"a b":"1"}`, `{"` + strings.Repeat("a", 65) + `":""}`,
		`{"a":"` + strings.Repeat("x", 4096) + `"}`, `{` + strings.Join(many, ",") + `}`, `{"a":1}`, `[]`,
	} {
		refused(t, g.do(http.MethodPost, v1.PathJobs, `{"headers":`+headers+`}`), http.StatusBadRequest, v1.TagBadRequest)
	}
}
