package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// What was typed wrongly is named as it was typed, and nothing is enqueued.
func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"map", "nowhere", "--", "true"}, exitNotRun, "osqueue: open nowhere: no such file"},
		{[]string{"map", "-", "--name", "a b", "--", "true"}, exitUsage, `osqueue: --name "a b": use visible ASCII`},
		{[]string{"map", "-", "--name", "ä", "--", "true"}, exitUsage, `osqueue: --name "ä": use visible ASCII`},
		{[]string{"map", "-", "--", ""}, exitNotRun, "osqueue: line 1: the command is empty\n"},
		{[]string{"run", "--", ""}, exitUsage, "osqueue: the command is empty\n"},
	} {
		q := newQueueFake(t)
		if got := osq(t, q, "x", c.args...); got.code != c.code || !strings.HasPrefix(got.err, c.text) || len(q.all()) != 0 {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
	// A line can be a command.
	q := newQueueFake(t)
	if got := osq(t, q, "true", "map", "-", "-q", "--", "{}"); got.code != exitOK || got.err != "" {
		t.Errorf("%+v", got)
	}
}

// After a bad line it is said how to go on without doing the others twice.
func TestMapAndSubmitGoOnAfterABadLine(t *testing.T) {
	q := newQueueFake(t)
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, "a\n")
		for deadline := time.Now().Add(10 * time.Second); len(q.all()) == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(out, "\xff\nb\n")
		_ = out.Close()
	}()
	c := newCommand(t, q.srv.URL)
	c.stdin = in
	got := c.run("map", "-", "--name", "it's", "--", "echo")
	want := `osqueue: not all lines were sent; when that is mended, go on with the same command and --name 'it'\''s'` + "\n"
	if got.code != exitNotRun || got.out != "a\n" || !strings.HasSuffix(got.err, want) {
		t.Errorf("%+v", got)
	}
	got = osq(t, newQueueFake(t), strings.Repeat("1\n", client.MaxBatchJobs)+"oops\n", "submit", "good", "--file", "-", "--wait", "--id", "s")
	if got.code != exitFailure || strings.Count(got.out, "\n") != client.MaxBatchJobs || !strings.HasSuffix(got.err, "the same command and --id s\n") {
		t.Errorf("%d, %s", got.code, got.err)
	}
}

func TestOneLineWasNotEnqueued(t *testing.T) {
	q := newQueueFake(t)
	q.refuse = func(r *http.Request) *v1.Problem {
		if r.Method == http.MethodGet {
			return nil
		}
		return &v1.Problem{Status: 409, Tag: v1.TagIDTaken, Detail: "taken", Committed: v1.CommittedNo}
	}
	if got := osq(t, q, "1\n", "submit", "a", "--file", "-"); !strings.Contains(got.err, "line 1 was not enqueued: ") {
		t.Errorf("%+v", got)
	}
}

func TestWorkerFileWithUnknownSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("concurency: 3\njobs:\n  - type: a\n    exce: cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := osq(t, newQueueFake(t), "", "worker", "--config", file)
	want := "osqueue: " + file + ": line 1: there is no setting concurency; line 4: there is no setting exce\n"
	if got.code != exitUsage || got.err != want {
		t.Errorf("%+v", got)
	}
}

// A web server that is no node.
func TestAnotherServerAnswers(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for _, args := range [][]string{{"stats"}, {"job", "ls"}, {"submit", "a", "1"}} {
		got := newCommand(t, srv.URL).run(append(args, "--timeout", "300ms")...)
		if slices.Contains(args, "submit") {
			got = newCommand(t, srv.URL).run(append(args, "--answer-timeout", "300ms")...)
		}
		if got.code != exitFailure || !strings.Contains(got.err, "is it a node of osqueue that answers there?") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	q := newQueueFake(t)
	q.refuse = func(*http.Request) *v1.Problem {
		return &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "no such job"}
	}
	if got := osq(t, q, "", "job", "show", "j"); strings.Contains(got.err, "is it a node") {
		t.Errorf("%+v", got)
	}
}

// A worker says at its start that no node answers, or that its name is taken.
func TestWorkerGreets(t *testing.T) {
	greeted := func(server, name string) string {
		t.Helper()
		c, err := client.New(client.Config{Servers: []string{server}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var log strings.Builder
		greet(t.Context(), c, name, hclog.New(&hclog.LoggerOptions{Output: &log}))
		return log.String()
	}
	q := newQueueFake(t)
	if got := greeted(q.srv.URL, "w1"); !strings.Contains(got, "a worker of this name was heard of") {
		t.Error(got)
	}
	q.refuse = func(*http.Request) *v1.Problem {
		return &v1.Problem{Status: 404, Tag: v1.TagNotFound, Detail: "no such worker"}
	}
	if got := greeted(q.srv.URL, "w1"); got != "" {
		t.Error(got)
	}
	q.srv.Close()
	if got := greeted(q.srv.URL, "w1"); !strings.Contains(got, "no node has answered yet") || !strings.Contains(got, startHint) {
		t.Error(got)
	}
}
