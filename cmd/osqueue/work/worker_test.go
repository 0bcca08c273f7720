package work

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// runUntil runs a worker until the fake has no job of type "wait" or others to
// do, then stops it.
func runUntil(t *testing.T, q *clitest.Fake, done func([]v1.Job) bool, args ...string) clitest.Result {
	t.Helper()
	c := osq.Command(t, q.Server.URL)
	ctx, stop := context.WithCancel(c.Ctx)
	c.Ctx = ctx
	go func() {
		for !done(q.All()) && ctx.Err() == nil {
			tick := time.NewTimer(5 * time.Millisecond)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		stop()
	}()
	return c.Run(append([]string{"worker", "--poll-wait", "20ms"}, args...)...)
}

func allEnded(jobs []v1.Job) bool {
	for _, j := range jobs {
		if j.Status == v1.StatusUnclaimed || j.Status == v1.StatusInProgress {
			return false
		}
	}
	return true
}

func TestWorkerRunsCommands(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait", Payload: []byte(`"one two"`)})
	q.Add(v1.NewJob{ID: "j2", Type: "fail"})
	q.Jobs[1].Status = v1.StatusUnclaimed
	got := runUntil(t, q, allEnded, "--exec", "wait=wc -w", "--exec", `fail=sh -c 'echo oh; echo dear >&2; exit 4'`, "--name", "w9")
	jobs := q.All()
	if got.Code != view.ExitOK || string(jobs[0].Result) != "2" || !strings.Contains(jobs[1].LastError, "exit status 4: dear") {
		t.Fatalf("%+v, %+v", got, jobs)
	}
	if *jobs[0].WorkerID != "w9" {
		t.Errorf("worker %s", *jobs[0].WorkerID)
	}
	for _, want := range []string{"completed  j1  wait  attempt 1", "failed     j2  fail  attempt 2", "exit status 4: dear"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if strings.Count(got.Out, "\n") != 2 {
		t.Errorf("%s", got.Out)
	}
}

func TestWorkerTakesEveryType(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait"})
	got := runUntil(t, q, allEnded, "--exec", "*=printenv OSQUEUE_JOB_TYPE", "--json", "--name", "w9")
	if string(q.All()[0].Result) != `"wait"` {
		t.Fatalf("%+v", q.All())
	}
	if !strings.HasPrefix(got.Out, `{"jobId":"j1","type":"wait","attempt":1,"outcome":"completed","tookMs":`) {
		t.Errorf("%s", got.Out)
	}
	var line jobLine
	if err := json.Unmarshal([]byte(got.Out), &line); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-time.Minute).UnixMilli()
	if line.Worker != "w9" || line.Token == 0 || line.StartedAt < began || line.EndedAt < line.StartedAt+line.TookMs {
		t.Errorf("%+v", line)
	}
}

func TestWorkerQuiet(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait"})
	if got := runUntil(t, q, allEnded, "--exec", "*=true", "-q"); got.Out != "" || got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
}

// When the worker stops, it ends a running command and releases its job.
func TestWorkerGivesBackOnStop(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait"})
	running := func(jobs []v1.Job) bool { return jobs[0].Status == v1.StatusInProgress }
	began := time.Now()
	got := runUntil(t, q, running, "--exec", "wait=sleep 600", "--stop-timeout", "0")
	if got.Code != view.ExitOK || q.All()[0].Status != v1.StatusUnclaimed || !strings.Contains(got.Out, "released   j1") {
		t.Fatalf("%+v, %+v", got, q.All())
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWorkersAreListedAndShown(t *testing.T) {
	q := clitest.NewFake(t)
	for line, want := range map[string][]string{
		"worker ls":             {"w1    active  1        ", "mail"},
		"worker show w1":        {"job         j9", "types       mail"},
		"worker ls --json":      {`{"name":"w1",`},
		"worker show w1 --json": {`{"name":"w1"`},
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		for _, text := range want {
			if got.Code != view.ExitOK || !strings.Contains(got.Out, text) {
				t.Errorf("%s: %q is missing: %+v", line, text, got)
			}
		}
	}
}
