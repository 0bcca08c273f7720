package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// statusAPI is the API of a node with this status.
type statusAPI v1.Status

func (s *statusAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == v1.PathStatus {
		_ = json.NewEncoder(w).Encode((*v1.Status)(s))
		return
	}
	_, _ = w.Write([]byte(`{"id":"j","type":"mail","security":"on"}`))
}

// The leader's page says which nodes do not answer it, also those that it has never heard; pages of
// other nodes do not know, and say where it is known.
func TestNodesWithoutContact(t *testing.T) {
	heard, silent, leader := int64(40), int64(60_000), "n1"
	s := &statusAPI{NodeID: "n1", Version: "1", RaftState: "Leader", State: v1.StateLeader, Leader: &leader, LeaderAddress: &leader, Peers: []v1.Peer{
		{Name: "n1", Leader: true, Voter: true},
		{Name: "n2", Voter: true, LastContactMs: &heard},
		{Name: "n3", Voter: true, LastContactMs: &silent},
		{Name: "n4", Voter: true},
	}}
	page := show(s, "/cluster").Body.String()
	if n := strings.Count(page, ">no contact<"); n != 2 {
		t.Errorf("%d of 2 nodes have no contact: %s", n, page)
	}
	s.RaftState, s.State = "Follower", v1.StateFollower
	page = show(s, "/cluster").Body.String()
	if strings.Contains(page, ">no contact<") || strings.Contains(page, "a month") || !strings.Contains(page, ">shown on the leader<") {
		t.Errorf("the page of a follower: %s", page)
	}
}

// The chips of the head do not depend on the page.
func TestWhere(t *testing.T) {
	s := &statusAPI{NodeID: "n1", Refusing: `"the bucket"`}
	w := show(s, "/where")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), `<a href="/ui/cluster" class="chip bad"`) ||
		!strings.Contains(w.Body.String(), ">n1 · no leader<") || !strings.Contains(w.Body.String(), `title="&#34;the bucket&#34;">writes refused<`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The command that enqueues a copy of a job has what the node asks for.
func TestCurlWithToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://q.test/ui/jobs/j", nil)
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	New(Config{API: new(statusAPI)}).ServeHTTP(w, r)
	page := w.Body.String()
	if !strings.Contains(page, "curl -X POST https://q.test/v1/jobs --cacert &#34;$OSQUEUE_CA&#34; -H &#34;Authorization: Bearer $OSQUEUE_TOKEN&#34;") || strings.Contains(page, "secret") {
		t.Errorf("%d %s", w.Code, page)
	}
	if page := show(new(statusAPI), "/jobs/j").Body.String(); strings.Contains(page, "Bearer") || strings.Contains(page, "cacert") {
		t.Errorf("without token and TLS: %s", page)
	}
}

// Times that are not kept have no links.
func TestJumpsAreKept(t *testing.T) {
	const minute, wall = 60_000, 1_000 * 60_000
	kept := &v1.Past{Spans: []v1.PastSpan{{From: wall - 15*minute, To: wall}}}
	var names []string
	for _, j := range jumps(kept, wall-2*minute, wall, "") {
		names = append(names, j.Name)
	}
	if got := strings.Join(names, ", "); got != "10 min earlier, 1 min earlier, 1 min later" {
		t.Errorf("%s", got)
	}
}

// A long id or tag does not push the status of the jobs off the page.
func TestLongNamesInTheListOfJobsAreCut(t *testing.T) {
	long := strings.Repeat("n", 120)
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathJobs {
			_ = json.NewEncoder(w).Encode(v1.JobList{Jobs: []v1.Job{{ID: long, Status: v1.StatusDead, Tags: []string{long}}}})
			return
		}
		new(statusAPI).ServeHTTP(w, r)
	})
	w := httptest.NewRecorder()
	New(Config{API: api}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/jobs", nil))
	page := w.Body.String()
	if !strings.Contains(page, ">"+long[:40]+"…</a>") || !strings.Contains(page, ">"+long[:30]+"…</a>") || strings.Contains(page, ">"+long+"<") {
		t.Errorf("%d %s", w.Code, page)
	}
}
