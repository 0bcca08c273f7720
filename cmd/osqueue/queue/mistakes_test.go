package queue

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

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
}

// TestAMistakeDoesNotStopTheOthers: a command for several names says which of them it has not done.
func TestAMistakeDoesNotStopTheOthers(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	got := osq.Command(t, srv.URL).Run("queue", "resume", "a", "b", "c", "--timeout", "200ms")
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "not done: b, c") {
		t.Errorf("%+v", got)
	}
}
