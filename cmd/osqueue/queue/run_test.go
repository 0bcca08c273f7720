package queue

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestRun(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"run -- echo a -b":                 {Out: "a -b"},
		"run echo --json -- {}":            {Out: "--json -- {}"}, // what follows the command is its own
		"run -- exit 7":                    {Err: "exiting", Code: 7},
		"run -- exit 1":                    {Err: "exiting", Code: 1},
		"run -- exit 2":                    {Err: "exiting", Code: 2},
		"run -- exit 300":                  {Err: "exiting", Code: 255},
		"run -- exit -1":                   {Err: "exiting", Code: 255},
		"run --env A=b=c -- env A":         {Out: "b=c\n"},
		"run --env HERE -- env HERE":       {Out: "here\n"},
		"run -- cat":                       {Out: "piped\nin"},
		"run --no-stdin -- cat":            {},
		"run --id j --json -- exit 3":      {Out: `{"id":"j","status":"completed","exit":3,"stdout":"","stderr":"exiting"}` + "\n", Code: 3},
		"run --id j --json -- die":         {Out: `{"id":"j","status":"dead","stdout":"","stderr":"","error":"job j is dead: the worker is gone"}` + "\n", Err: `{"error":"job j is dead: the worker is gone"}` + "\n", Code: view.ExitNotRun},
		"run --id j -- die":                {Err: "osqueue: job j is dead: the worker is gone\n", Code: view.ExitNotRun},
		"run --id j -- odd":                {Err: "osqueue: job j has completed, but: ", Code: view.ExitNotRun},
		"run --id j --wait-for 500ms wait": {Err: "osqueue: job j is enqueued and available, but: the job has not finished in time\n1 job continues; wait for it again with: osqueue job wait j\n", Code: view.ExitNotRun},
	} {
		q := clitest.NewFake(t)
		c := osq.Command(t, q.Server.URL)
		c.Env["HERE"] = "here"
		c.Stdin = strings.NewReader("piped\nin")
		got := c.Run(strings.Fields(line)...)
		if got.Code != want.Code || got.Out != want.Out || !strings.HasPrefix(got.Err, want.Err) || (want.Err == "" && got.Err != "") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestRunFlags(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "", strings.Fields("run --type cmd --job-timeout 5s --max-attempts 1 --priority 3 --tag x --id j --wait-for 1s -- true {}")...)
	j := q.All()[0]
	if j.Type != "cmd" || string(j.Payload) != `{"argv":["true","{}"]}` || j.MaxAttempts != 1 || j.Priority != 3 || !slices.Equal(j.Tags, []string{"x"}) {
		t.Errorf("%+v, %+v", j, got)
	}
}

func TestRunStdinIsBounded(t *testing.T) {
	for stdin, want := range map[string]string{strings.Repeat("x", maxPayload+1): "more than", strings.Repeat("\x01", maxPayload/2): "more than", "\xff": "not UTF-8"} {
		q := clitest.NewFake(t)
		if got := osq.Run(t, q, stdin, "run", "--", "cat"); got.Code != view.ExitNotRun || !strings.Contains(got.Err, want) || len(q.All()) != 0 {
			t.Errorf("%+v", got)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	q := clitest.NewFake(t)
	c := osq.Command(t, q.Server.URL)
	c.Stdin = null
	if got := c.Run("run", "--", "cat"); got.Code != view.ExitOK || got.Out != "" {
		t.Errorf("%+v", got)
	}
}

// The same command with the same id is not run again.
func TestRunIsTakenUp(t *testing.T) {
	q := clitest.NewFake(t)
	for range 2 {
		if got := osq.Run(t, q, "", "run", "--id", "j", "--", "exit", "4"); got.Code != 4 {
			t.Errorf("%+v", got)
		}
	}
	if n := len(q.All()); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// Ctrl-C cancels the job, and its worker ends it.
func TestRunInterrupted(t *testing.T) {
	q := clitest.NewFake(t)
	got := interruptedAt(t, q, 1, "", "run", "--id", "j", "--", "wait")
	if got.Code != view.ExitInterrupted || !strings.HasSuffix(got.Err, "osqueue: job j is cancelled\n") || q.All()[0].Status != v1.StatusCancelled {
		t.Errorf("%+v, %+v", got, q.All()[0])
	}
}

func TestRunSaysThatThereIsNoWorker(t *testing.T) {
	t.Parallel()
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "", "run", "--wait-for", "2500ms", "--", "wait")
	if !strings.Contains(got.Err, "no worker takes jobs of type command; start one with: osqueue worker --commands command\n") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "a", "map", "-", "--wait-for", "2500ms", "--", "wait"); !strings.Contains(got.Err, "no worker takes jobs") {
		t.Errorf("%+v", got)
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

func TestMap(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"map - --keep-order --quiet -- echo":           {Out: "a b\n$x; 'y\nlast\n"},
		"map - --keep-order -q -- echo <{}|{}>":        {Out: "<a b|a b>\n<$x; 'y|$x; 'y>\n<last|last>\n"},
		"map - --keep-order -q -n 1 -- echo {} --json": {Out: "a b --json\n$x; 'y --json\nlast --json\n"},
		"map - --keep-order -q --env A=1 -- env A {}":  {Out: "1\n1\n1\n"},
		"map - -q -- exit 3 {}":                        {Err: "exiting\nexiting\nexiting\n", Code: view.ExitSomeFailed},
		"map - -q -- die":                              {Code: view.ExitSomeFailed},
	} {
		q := clitest.NewFake(t)
		got := osq.Run(t, q, "a b\n\n$x; 'y\n  \nlast", strings.Fields(line)...)
		if got != want {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestMapSaysWhichLinesFailed(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "0\n\n5\n", "map", "-", "--keep-order", "--", "exit")
	if got.Code != view.ExitSomeFailed || !strings.Contains(got.Err, "line 3: exit status 5\n") || !strings.Contains(got.Err, "2 of 2 commands have ended in") || !strings.Contains(got.Err, "; 1 failed") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "x", "map", "-", "--", "die"); !strings.Contains(got.Err, "is dead: the worker is gone") {
		t.Errorf("%+v", got)
	}
}

func TestMapJSON(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "0\n\n5\n", "map", "-", "--name", "n", "--keep-order", "--json", "--", "exit")
	want := `{"line":1,"input":"0","id":"n-1","status":"completed","exit":0,"stdout":"","stderr":"exiting"}` + "\n" +
		`{"line":3,"input":"5","id":"n-3","status":"completed","exit":5,"stdout":"","stderr":"exiting"}` + "\n"
	if got.Out != want || got.Code != view.ExitSomeFailed {
		t.Errorf("%+v", got)
	}
	for _, j := range q.All() {
		if !slices.Equal(j.Tags, []string{"n"}) {
			t.Errorf("%s: tags %v", j.ID, j.Tags)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			lines, requests = lines+len(b), requests+1
			synctest.Wait() // the request, during which the reader fills its channel
		}
		if lines != n || requests > 2+n/linesAhead {
			t.Errorf("%d lines of %d in %d batches", lines, n, requests)
		}
	})
}

// Another command under the same name is refused, with what to do.
func TestMapNameOfAnotherRun(t *testing.T) {
	q := clitest.NewFake(t)
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.URL.Path != v1.PathJobsBatch {
			return nil
		}
		return &v1.Problem{Status: 409, Tag: v1.TagIDTaken, Detail: "taken", Committed: v1.CommittedNo}
	}
	got := osq.Run(t, q, "1", "map", "-", "--name", "n", "--", "echo")
	if got.Code != view.ExitNotRun || !strings.Contains(got.Err, "choose another --name") {
		t.Errorf("%+v", got)
	}
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
