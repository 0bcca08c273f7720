package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// lagging is the API of a node that has not applied the newest entry, in which the job "new" is.
type lagging struct {
	leaderGone bool
	slow       bool // it does not reach a given LSN in time
	seen       []string
}

const newestLSN = "3-9"

func (l *lagging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	l.seen = append(l.seen, r.URL.Path+" "+values.Get(v1.ParamConsistency)+values.Get(v1.ParamMinLSN))
	refuse := func(status int, tag string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v1.Problem{Status: status, Tag: tag, Title: "Refused", Detail: "because of " + tag})
	}
	leader := values.Get(v1.ParamConsistency) == v1.ConsistencyLeader
	applied := values.Get(v1.ParamMinLSN) == newestLSN
	switch {
	case applied && l.slow:
		refuse(http.StatusGatewayTimeout, v1.TagTimeout)
	case leader && l.leaderGone:
		refuse(http.StatusServiceUnavailable, v1.TagLeaderGone)
	case r.URL.Path == v1.PathJobs+"/new" && (leader || applied):
		w.Header().Set(v1.HeaderLSN, newestLSN)
		_ = json.NewEncoder(w).Encode(v1.Job{ID: "new", Type: "mail", Status: v1.StatusCompleted})
	case r.URL.Path == v1.PathJobs+"/new", strings.HasSuffix(r.URL.Path, "/none"):
		refuse(http.StatusNotFound, v1.TagNotFound)
	default:
		_, _ = w.Write([]byte("{}"))
	}
}

func show(api http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	New(Config{API: api}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Root+path, nil))
	return w
}

// The page of a job that this node has not applied yet comes from the leader, and the rest of the
// page waits for the state of the leader.
func TestPageOfAJobThatIsNotAppliedYet(t *testing.T) {
	l := &lagging{}
	if w := show(l, "/jobs/new"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Job new") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	want := []string{"/v1/jobs/new local", "/v1/jobs/new leader"}
	if got := l.seen[:2]; got[0] != want[0] || got[1] != want[1] {
		t.Errorf("the page reads %q first, want %q", got, want)
	}
	for _, read := range l.seen[2:] {
		if strings.HasPrefix(read, v1.PathJobs) && !strings.HasSuffix(read, newestLSN) {
			t.Errorf("%q does not wait for the state of the leader", read)
		}
	}
	if w := show(l, "/jobs/none"); w.Code != http.StatusNotFound || w.Header().Get("Refresh") != "" {
		t.Errorf("a job that the leader does not have either: %d, Refresh %q", w.Code, w.Header().Get("Refresh"))
	}
}

// A node that cannot ask the leader says so, and the page tries again.
func TestPageOfAJobWithoutLeader(t *testing.T) {
	w := show(&lagging{leaderGone: true}, "/jobs/new")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") == "" || !strings.Contains(w.Body.String(), "the leader did not answer") {
		t.Errorf("%d, Refresh %q, %s", w.Code, w.Header().Get("Refresh"), w.Body)
	}
}

// After an action the page waits for its LSN, with a bound, and then says so and tries again.
func TestPageAfterAnAction(t *testing.T) {
	if w := show(&lagging{}, "/jobs/new?notice=clone&lsn="+newestLSN); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := show(&lagging{slow: true}, "/jobs/new?notice=clone&lsn="+newestLSN)
	if w.Code != http.StatusGatewayTimeout || w.Header().Get("Refresh") == "" || !strings.Contains(w.Body.String(), "This node is behind") {
		t.Errorf("%d, Refresh %q, %s", w.Code, w.Header().Get("Refresh"), w.Body)
	}
}
