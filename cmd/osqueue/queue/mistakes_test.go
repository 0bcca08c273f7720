package queue

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// An error names a wrong argument as the user typed it, and nothing is enqueued.
func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"map", "nowhere", "--", "true"}, view.ExitNotRun, "osqueue: open nowhere: no such file"},
		{[]string{"map", "-", "--name", "a b", "--", "true"}, view.ExitUsage, `osqueue: --name "a b": use visible ASCII`},
		{[]string{"map", "-", "--name", "ä", "--", "true"}, view.ExitUsage, `osqueue: --name "ä": use visible ASCII`},
		{[]string{"map", "-", "--", ""}, view.ExitNotRun, "osqueue: line 1: the command is empty\n"},
		{[]string{"run", "--", ""}, view.ExitUsage, "osqueue: the command is empty\n"},
	} {
		q := clitest.NewFake(t)
		if got := osq.Run(t, q, "x", c.args...); got.Code != c.code || !strings.HasPrefix(got.Err, c.text) || len(q.All()) != 0 {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
	// A line can be a command.
	q := clitest.NewFake(t)
	if got := osq.Run(t, q, "true", "map", "-", "-q", "--", "{}"); got.Code != view.ExitOK || got.Err != "" {
		t.Errorf("%+v", got)
	}
}

// After a bad line it is said how to go on without doing the others twice.
func TestMapAndSubmitGoOnAfterABadLine(t *testing.T) {
	q := clitest.NewFake(t)
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, "a\n")
		for deadline := time.Now().Add(10 * time.Second); len(q.All()) == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(out, "\xff\nb\n")
		_ = out.Close()
	}()
	c := osq.Command(t, q.Server.URL)
	c.Stdin = in
	got := c.Run("map", "-", "--name", "it's", "--", "echo")
	want := `osqueue: not all jobs were sent; correct the cause, and continue with the same command and --name 'it'\''s'` + "\n"
	if got.Code != view.ExitNotRun || got.Out != "a\n" || !strings.HasSuffix(got.Err, want) || !strings.Contains(got.Err, "line 2: the command must be UTF-8") {
		t.Errorf("%+v", got)
	}
	got = osq.Run(t, clitest.NewFake(t), strings.Repeat("1\n", client.MaxBatchJobs)+"oops\n", "submit", "good", "--file", "-", "--wait", "--id", "s")
	if got.Code != view.ExitFailure || strings.Count(got.Out, "\n") != client.MaxBatchJobs || !strings.HasSuffix(got.Err, "the same command and --id s\n") {
		t.Errorf("%d, %s", got.Code, got.Err)
	}
}

func TestOneLineWasNotEnqueued(t *testing.T) {
	q := clitest.NewFake(t)
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.Method == http.MethodGet {
			return nil
		}
		return &v1.Problem{Status: 409, Tag: v1.TagIDTaken, Detail: "taken", Committed: v1.CommittedNo}
	}
	if got := osq.Run(t, q, "1\n", "submit", "a", "--file", "-"); !strings.Contains(got.Err, "line 1 was not enqueued: ") {
		t.Errorf("%+v", got)
	}
}

// A web server that is no node.
func TestAnotherServerAnswers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for _, args := range [][]string{{"stats"}, {"job", "ls"}, {"submit", "a", "1"}} {
		got := osq.Command(t, srv.URL).Run(append(args, "--timeout", "300ms")...)
		if got.Code != view.ExitFailure || !strings.Contains(got.Err, "the server may not be a node of osqueue") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	q := clitest.NewFake(t)
	q.Refuse = func(*http.Request) *v1.Problem {
		return &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "no such job"}
	}
	if got := osq.Run(t, q, "", "job", "show", "j"); strings.Contains(got.Err, "is it a node") {
		t.Errorf("%+v", got)
	}
}

// TestTimeoutIsTheClients: --timeout is never a setting of the job, before the command or after it.
func TestTimeoutIsTheClients(t *testing.T) {
	for _, c := range []struct {
		line, job string
	}{
		{line: "--timeout 5s submit a --id x", job: `{"id":"x","type":"a"}`},
		{line: "--json --timeout=5s submit a --id x", job: `{"id":"x","type":"a"}`},
		{line: "submit a --id x --job-timeout 1d", job: `{"id":"x","type":"a","timeoutMs":86400000}`},
		{line: "submit a --id x --timeout 5s", job: `{"id":"x","type":"a"}`},
		{line: "submit a --id x --timeout 5s --job-timeout 1w", job: `{"id":"x","type":"a","timeoutMs":604800000}`},
	} {
		q := clitest.NewFake(t)
		got := osq.Run(t, q, "", strings.Fields(c.line)...)
		if seen := q.Writes(); got.Code != view.ExitOK || len(seen) != 1 || seen[0].Body != c.job {
			t.Errorf("%s: %+v, %v", c.line, got, seen)
		}
	}
	began := time.Now()
	got := osq.Command(t, "127.0.0.1:1").Run("--timeout", "200ms", "submit", "a", "1")
	if took := time.Since(began); got.Code != view.ExitFailure || took > 5*time.Second {
		t.Errorf("%v, %+v", took, got)
	}
}

// TestRunAtInThePastWarns: a job whose time is over is taken, and runs at once; the
// command says so.
func TestRunAtInThePastWarns(t *testing.T) {
	q := clitest.NewFake(t)
	for _, c := range []struct {
		at   string
		want string
	}{
		{"2020-01-01 00:00", "warning: --run-at 2020-01-01 00:00 is in the past (2020-01-01 00:00:00 "},
		{"90m", ""},
	} {
		drop := osq.Run(t, q, "", "drop", "--new", "--bucket", "file://"+t.TempDir(), "a", "--run-at", c.at)
		for _, got := range []clitest.Result{drop, osq.Run(t, q, "", "submit", "a", "--run-at", c.at)} {
			if got.Code != view.ExitOK || got.Out == "" || c.want == "" && got.Err != "" || !strings.HasPrefix(got.Err, c.want) {
				t.Errorf("%s: %+v", c.at, got)
			}
		}
	}
}

// TestWhatDoesNotExistIsNamed: a misspelt type or batch is neither changed nor shown as an empty one.
func TestWhatDoesNotExistIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"queue pause nosuch":             `type "nosuch" does not exist`,
		"queue resume nosuch":            `type "nosuch" does not exist`,
		"queue show nosuch":              `type "nosuch" does not exist`,
		"queue reset nosuch":             `type "nosuch" does not exist`,
		"queue purge nosuch --yes":       `type "nosuch" does not exist`,
		"job cancel --type nosuch --yes": `type "nosuch" does not exist`,
		"batch cancel nope --yes":        "there is no such batch",
		"job delete --batch nope --yes":  "there is no such batch",
	} {
		q := clitest.NewFake(t)
		got := osq.Run(t, q, "", strings.Fields(line)...)
		if got.Code != view.ExitFailure || got.Out != "" || !strings.Contains(got.Err, want) || len(q.Writes()) != 0 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	q := clitest.NewFake(t)
	if got := osq.Run(t, q, "", "queue", "pause", "nosuch", "--new"); got.Code != view.ExitOK || len(q.Writes()) != 1 {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "queue", "set", "*", "--max-running", "3"); got.Code != view.ExitUsage || len(q.Writes()) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestAMistakeDoesNotStopTheOthers: a command for several names does all that it can, and fails.
func TestAMistakeDoesNotStopTheOthers(t *testing.T) {
	for _, line := range []string{"queue pause a nosuch b", "queue resume nosuch a b", "queue reset a nosuch b", "cron resume a nosuch b"} {
		q := clitest.NewFake(t)
		q.Add(v1.NewJob{ID: "1", Type: "a"})
		q.Add(v1.NewJob{ID: "2", Type: "b"})
		q.Refuse = func(r *http.Request) *v1.Problem {
			if !strings.Contains(r.URL.Path, "crons/nosuch") {
				return nil
			}
			return &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: `schedule "nosuch" does not exist`, Committed: v1.CommittedNo}
		}
		got := osq.Run(t, q, "", strings.Fields(line)...)
		if got.Code != view.ExitFailure || !strings.Contains(got.Err, `"nosuch" does not exist`) || strings.Count(got.Out, "\n") != 2 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	got := osq.Command(t, srv.URL).Run("queue", "resume", "a", "b", "c", "--timeout", "200ms")
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "not done: b, c") {
		t.Errorf("%+v", got)
	}
}

// TestStatusesByTheirWords: filters take the words of the tables, and the older names of the wire.
func TestStatusesByTheirWords(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "w", Type: "wait"})
	for _, name := range []string{"available", "unclaimed", "running,available"} {
		got := osq.Run(t, q, "", "job", "ls", "--status", name)
		if got.Code != view.ExitOK || !strings.Contains(got.Out, "w   wait  available") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := osq.Run(t, q, "", "job", "ls", "--status", "waiting"); got.Code != view.ExitUsage || !strings.Contains(got.Err, "available, running") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "job", "show", "w"); !strings.Contains(got.Out, "available (no worker takes this type)") {
		t.Errorf("%+v", got)
	}
}

// TestSeveralTagsCount: a change by several tags is one of the jobs that have all of them.
func TestSeveralTagsCount(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "both", Type: "wait", Tags: []string{"a", "b"}})
	q.Add(v1.NewJob{ID: "one", Type: "wait", Tags: []string{"a"}})
	got := osq.Run(t, q, "", strings.Fields("job cancel --tag a --tag b --yes")...)
	if got.Code != view.ExitOK || got.Out != "1 job cancelled\n" || q.Find("both").Status != v1.StatusCancelled || q.Find("one").Status != v1.StatusUnclaimed {
		t.Errorf("%+v", got)
	}
}
