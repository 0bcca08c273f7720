package queue

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestRunStdinIsBounded(t *testing.T) {
	for stdin, want := range map[string]string{strings.Repeat("x", maxPayload+1): "more than", strings.Repeat("\x01", maxPayload/2): "more than", "\xff": "not UTF-8"} {
		q := clitest.NewFake(t)
		if got := osq.Run(t, q, stdin, "run", "--", "cat"); got.Code != view.ExitNotRun || !strings.Contains(got.Err, want) || len(q.All()) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// The null device is neither an input nor a terminal.
func TestNullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	if view.IsTerminal(null) || view.IsTerminal(strings.NewReader("y\n")) {
		t.Error("that is no terminal")
	}
	q := clitest.NewFake(t)
	for _, line := range []string{"run -- cat", "submit a"} {
		c := osq.Command(t, q.Server.URL)
		c.Stdin = null
		if got := c.Run(strings.Fields(line)...); got.Code != view.ExitOK {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if jobs := q.All(); string(jobs[0].Payload) != `{"argv":["cat"]}` || jobs[1].Payload != nil {
		t.Errorf("%+v", jobs)
	}
}

// A failover at the time when it is to be said that there is no worker.
func TestRunWithoutLeader(t *testing.T) {
	t.Parallel()
	q := clitest.NewFake(t)
	back := time.Now().Add(idleNotice + time.Second)
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.Method != http.MethodGet || time.Now().After(back) {
			return nil
		}
		return &v1.Problem{Status: 503, Tag: v1.TagNoLeader, Detail: "no leader", Committed: v1.CommittedNo}
	}
	if got := osq.Run(t, q, "", "run", "--", "echo", "x"); got.Code != view.ExitOK || got.Out != "x" {
		t.Errorf("%+v", got)
	}
}

// The same name takes up the same run: what was run is not run again.
func TestMapIsTakenUp(t *testing.T) {
	q := clitest.NewFake(t)
	got := interruptedAt(t, q, 2, "1\n2\n3\n4\n", "map", "-", "--name", "n", "-n", "2", "--", "wait")
	if got.Code != view.ExitInterrupted || !strings.Contains(got.Err, "2 jobs continue; resume the run with the same command and --name n, or end it with: osqueue job cancel --tag n --yes") {
		t.Fatalf("%+v", got)
	}
	q.Mu.Lock()
	for _, j := range q.Jobs {
		zero := 0
		j.Status = v1.StatusCompleted
		j.Result, _ = json.Marshal(commandResult{Exit: &zero, Stdout: "done before"})
	}
	q.Mu.Unlock()
	c := osq.Command(t, q.Server.URL)
	c.Stdin = strings.NewReader("1\n2\n3\n4\n")
	go func() {
		for len(q.All()) < 4 && c.Ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		q.EndAll(v1.StatusCancelled)
	}()
	got = c.Run("map", "-", "--name", "n", "-n", "2", "--", "wait")
	if n := len(q.All()); n != 4 || got.Out != "done before\ndone before\n" || got.Code != view.ExitSomeFailed || !strings.Contains(got.Err, "2 of them existed already") {
		t.Errorf("%d jobs, %+v", n, got)
	}
}

// There are never more jobs than --in-flight says, and a slow source does not
// make its first line wait.
func TestMapInFlight(t *testing.T) {
	q := clitest.NewFake(t)
	c := osq.Command(t, q.Server.URL)
	lines, source, err := os.Pipe()
	check(t, err)
	defer lines.Close()
	c.Stdin = lines
	ran := make(chan clitest.Result, 1)
	go func() { ran <- c.Run("map", "-", "-n", "3", "--name", "n", "--", "wait") }()
	wait := func(n int) {
		t.Helper()
		for len(q.All()) < n && c.Ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		if got := len(q.All()); got != n {
			t.Errorf("%d jobs, not %d", got, n)
		}
	}
	source.WriteString("1\n")
	wait(1)
	source.WriteString("2\n3\n4\n5\n6\n7\n")
	wait(3)
	for n := 6; n <= 7; n++ {
		if open := unended(q); open > 3 {
			t.Errorf("%d at a time", open)
		}
		q.EndAll(v1.StatusCancelled)
		wait(n)
	}
	q.EndAll(v1.StatusCancelled)
	source.Close()
	if got := <-ran; got.Code != view.ExitSomeFailed || !strings.Contains(got.Err, "7 of 7 commands have ended") {
		t.Errorf("%+v", got)
	}
}

func unended(q *clitest.Fake) (n int) {
	for _, j := range q.All() {
		if j.Status == v1.StatusUnclaimed {
			n++
		}
	}
	return n
}

// Lines that arrive during a request go together in the next one.
func TestLinesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		f := &mapFlags{argv: []string{"echo"}}
		lines, requests := 0, 0
		for b, err := range batches(t.Context(), linesOf(strings.NewReader(numbered(n)), f.parse), maxBatchBytes, false) {
			check(t, err)
			lines, requests = lines+len(b), requests+1
			synctest.Wait() // the request, during which the reader fills its channel
		}
		if lines != n || requests > 2+n/linesAhead {
			t.Errorf("%d lines of %d in %d batches", lines, n, requests)
		}
	})
}

// The source of lines ends with the pipeline, also while it is full.
func TestWhatIsThereEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &mapFlags{argv: []string{"echo"}}
	for b, err := range batches(ctx, linesOf(strings.NewReader(numbered(10*linesAhead)), f.parse), maxBatchBytes, false) {
		if err != nil || len(b) == 0 || b[0].number != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		break
	}
	cancel() // goleak finds what is left
}

func TestHelpOfCommandsTellsTheExitStatus(t *testing.T) {
	for name, want := range map[string]string{"run": runExitHelp, "map": mapExitHelp} {
		if got := osq.Command(t, "127.0.0.1:1").Run(name, "--help"); got.Code != view.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
