package queue

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// withJobs is a fake with jobs w0… that wait, c0… completed and d0… dead.
func withJobs(t *testing.T, waiting, completed, dead int) *clitest.Fake {
	t.Helper()
	q := clitest.NewFake(t)
	for i := range waiting {
		q.Add(v1.NewJob{ID: fmt.Sprintf("w%d", i), Type: "wait", Tags: []string{fmt.Sprint("t", i%2)}})
	}
	for i := range completed {
		q.Add(v1.NewJob{ID: fmt.Sprintf("c%d", i), Type: "good"})
	}
	for i := range dead {
		q.Add(v1.NewJob{ID: fmt.Sprintf("d%d", i), Type: "bad"})
	}
	return q
}

func countStatuses(q *clitest.Fake) map[string]int {
	n := make(map[string]int)
	for _, j := range q.All() {
		n[j.Status]++
	}
	return n
}

func TestChangeByID(t *testing.T) {
	q := withJobs(t, 3, 1, 2)
	q.Jobs[2].Status = v1.StatusInProgress
	for _, c := range []struct {
		line, out, err string
		code           int
	}{
		{"job cancel w0", "w0  cancelled\n", "", view.ExitOK},
		{"job cancel w0", "w0  cancelled before\n", "", view.ExitOK},
		{"job cancel w2", "cancellation requested", "", view.ExitOK},
		{"job cancel c0", "", "the job is completed", view.ExitFailure},
		{"job cancel nobody", "", "no such job", view.ExitFailure},
		{"job cancel w1 c0 nobody", "w1  cancelled\nc0  not cancelled: its status does not allow it\nnobody  the job does not exist\n", "2 of 3 jobs could not be cancelled", view.ExitFailure},
		{"job retry d0", "d0  retried\n", "", view.ExitOK},
		{"job delete c0", "c0  deleted\n", "", view.ExitOK},
		{"job rm w2", "", "in_progress", view.ExitFailure},
		{"dead rm w1", "", "job w1 is cancelled, not dead", view.ExitFailure},
		{"dead retry d1", "d1  retried\n", "", view.ExitOK},
		{"job cancel d1 --json", `{"jobId":"d1","changed":true,"status":"cancelled"}` + "\n", "", view.ExitOK},
		{"job cancel d1 nobody --json", `{"jobId":"d1","changed":false,"duplicate":true}` + "\n" + `{"jobId":"nobody","changed":false,"_tag":"not_found"}`, "could not", view.ExitFailure},
	} {
		got := osq.Run(t, q, "", strings.Fields(c.line)...)
		if got.Code != c.code || !strings.Contains(got.Out, c.out) || !strings.Contains(got.Err, c.err) || (c.err == "") != (got.Err == "") {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
	if job := q.Find("w1"); job == nil {
		t.Error("dead rm removed a job that was not dead")
	}
}

func TestChangeByFilterAsks(t *testing.T) {
	run := func(q *clitest.Fake, answer, line string) clitest.Result {
		c := osq.Command(t, q.Server.URL)
		c.Tty, c.Stdin = true, strings.NewReader(answer)
		return c.Run(strings.Fields(line)...)
	}
	q := withJobs(t, 4, 3, 2)
	for _, answer := range []string{"", "\n", "n\n", "no\n", "yesterday\n"} {
		got := run(q, answer, "job delete --all")
		if got.Code != view.ExitFailure || !strings.Contains(got.Err, "Delete 9 jobs (4 available, 3 completed, 2 dead)? [y/N]") || !strings.Contains(got.Err, "nothing was changed") {
			t.Errorf("%q: %+v", answer, got)
		}
	}
	if len(q.Writes()) != 0 {
		t.Fatal("something was changed in spite of a no")
	}
	if got := run(q, "y\n", "job cancel --tag t1"); got.Code != view.ExitOK || got.Out != "2 jobs cancelled\n" {
		t.Errorf("%+v", got)
	}
	if got := run(q, " YES \n", "dead retry --all"); got.Code != view.ExitOK || got.Out != "2 jobs retried\n" {
		t.Errorf("%+v", got)
	}
	if got := run(q, "y\n", "dead rm --all"); got.Code != view.ExitOK || got.Out != "no job matches; nothing was changed\n" {
		t.Errorf("%+v", got)
	}
	if n := countStatuses(q); n[v1.StatusCancelled] != 2 || n[v1.StatusUnclaimed] != 4 || n[v1.StatusCompleted] != 3 {
		t.Errorf("%v", n)
	}
	// A retry without --status leaves what waits for its time alone.
	q = withJobs(t, 0, 0, 1)
	q.Jobs[0].Status = v1.StatusScheduled
	if got := run(q, "y\n", "job retry --type bad"); got.Code != view.ExitOK || !strings.Contains(got.Out, "no job matches") {
		t.Errorf("%+v", got)
	}
}

func TestChangeByFilterWithoutTerminal(t *testing.T) {
	q := withJobs(t, 4, 0, 0)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if view.IsTerminal(null) || view.IsTerminal(strings.NewReader("y\n")) {
		t.Error("that is no terminal")
	}
	for _, line := range []string{"job cancel --all", "queue purge wait", "batch cancel b1", "dead rm --all"} {
		got := osq.Run(t, q, "y\n", strings.Fields(line)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, "osqueue "+line[:8]) || !strings.Contains(got.Err, "--yes") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if len(q.Writes()) != 0 {
		t.Fatal("something was changed")
	}
	if got := osq.Run(t, q, "", "job", "cancel", "--all", "--yes", "--limit", "3", "--json"); got.Out != `{"count":3}`+"\n" {
		t.Errorf("%+v", got)
	}
}

// Filter flags become these requests on the wire.
func TestChangeByFilterOnTheWire(t *testing.T) {
	q := clitest.NewFake(t)
	for line, want := range map[string]request{
		"job cancel --type a --tag b --group c --worker d --batch e --created-after 2026-01-02T03:04:05Z --created-before 2026-01-03T00:00:00Z --yes": {
			"POST /v1/jobs/cancel", `{"filter":{"statuses":["blocked","scheduled","unclaimed","in_progress"],"type":"a","tag":"b","group":"c","batchId":"e","workerId":"d","createdFrom":1767323045000,"createdBefore":1767398400000}}`,
		},
		"job retry --all --yes":                          {"POST /v1/jobs/retry", `{"filter":{"statuses":["dead","cancelled"]}}`},
		"job retry --status all --yes":                   {"POST /v1/jobs/retry", `{"filter":{"statuses":["dead","cancelled","scheduled"]}}`},
		"job delete --status dead,completed --all --yes": {"POST /v1/jobs/delete", `{"filter":{"statuses":["dead","completed"]}}`},
		"dead retry --type a --yes --limit 7":            {"POST /v1/jobs/retry", `{"filter":{"statuses":["dead"],"type":"a"},"limit":7}`},
		"queue purge a --yes":                            {"POST /v1/jobs/delete", `{"filter":{"statuses":["blocked","scheduled","unclaimed"],"type":"a"}}`},
		"batch cancel b1 --yes":                          {"POST /v1/jobs/cancel", `{"filter":{"statuses":["blocked","scheduled","unclaimed","in_progress"],"batchId":"b1"}}`},
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		if seen := writes(q); got.Code != view.ExitOK || !slices.Equal(seen, []request{want}) {
			t.Errorf("%s: %+v\n%v", line, got, seen)
		}
	}
}

// A failure half way says how far it has come.
func TestChangeByFilterFailsHalfWay(t *testing.T) {
	q := withJobs(t, 9, 0, 0)
	q.AtOnce = 4
	if got := osq.Run(t, q, "", "job", "cancel", "--tag", "t0", "--yes"); got.Out != "5 jobs cancelled\n" {
		t.Fatalf("%+v", got)
	}
	q = withJobs(t, 9, 0, 0)
	q.AtOnce = 4
	calls := 0
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.URL.Path != v1.PathCancel {
			return nil
		}
		if calls++; calls == 2 {
			return &v1.Problem{Status: 400, Tag: v1.TagBadRequest, Detail: "enough", Committed: v1.CommittedNo}
		}
		return nil
	}
	got := osq.Run(t, q, "", "job", "cancel", "--all", "--yes")
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "enough") || !strings.Contains(got.Err, "4 jobs were cancelled before the error") {
		t.Errorf("%+v", got)
	}
}

func TestDeadList(t *testing.T) {
	q := withJobs(t, 2, 2, 2)
	got := osq.Run(t, q, "", "dead", "ls")
	if lines := strings.Split(strings.TrimSpace(got.Out), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "no luck") || strings.Contains(lines[1], "at all") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "dead", "show", "d0"); !strings.Contains(got.Out, "no luck\n            at all") {
		t.Errorf("%+v", got)
	}
}

// --errors counts the dead jobs by what their errors have in common.
func TestDeadErrors(t *testing.T) {
	q := withJobs(t, 2, 2, 3)
	const trace = "Traceback (most recent call last):\n  File \"x.py\", line 3\n"
	for i, text := range []string{trace + "ValueError: order 17", trace + "ValueError: order 18", "no such user"} {
		for k := range q.Jobs {
			if q.Jobs[k].ID == fmt.Sprint("d", i) {
				q.Jobs[k].LastError = text
			}
		}
	}
	got := osq.Run(t, q, "", "dead", "ls", "--errors", "--limit", "1")
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "2 ") || !strings.Contains(lines[1], "ValueError: order #") || !strings.Contains(lines[2], "no such user") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "dead", "ls", "--errors", "--json"); !strings.Contains(got.Out, `"error":"ValueError: order #","count":2`) {
		t.Errorf("%+v", got)
	}
}

func TestJobWait(t *testing.T) {
	q := withJobs(t, 1, 2, 1)
	q.Jobs[1].Result = []byte("[7]")
	for _, c := range []struct {
		line, out, err string
		code           int
	}{
		{"job wait c0", "[7]\n", "", view.ExitOK},
		{"job wait c0 c1", "c0\tcompleted\t[7]\nc1\tcompleted\t\n", "", view.ExitOK},
		{"job wait d0", "", "job d0 is dead: no luck", view.ExitFailure},
		{"job wait c0 d0", "c0\tcompleted\t[7]\nd0\tdead\tno luck\n", "", view.ExitFailure},
		{"job wait w0 --wait-for 50ms", "", "available", view.ExitFailure},
		{"job wait c1 w0 --wait-for 50ms", "c1\tcompleted\t\n", "job w0: ", view.ExitFailure},
		{"job wait nobody", "", "no such job", view.ExitFailure},
		{"job wait c0 --json", `{"id":"c0","status":"completed"`, "", view.ExitOK},
	} {
		got := osq.Run(t, q, "", strings.Fields(c.line)...)
		if got.Code != c.code || !strings.HasPrefix(got.Out, c.out) || !strings.Contains(got.Err, c.err) {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
}
