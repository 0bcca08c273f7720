package work

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// runUntil runs a worker until the fake has no job of type "wait" or others to
// do, then stops it.
func runUntil(t *testing.T, q *clitest.Fake, done func([]v1.Job) bool, args ...string) clitest.Result {
	t.Helper()
	c := osq.Command(t, q.Server.URL)
	c.Ctx = endedBy(c.Ctx, q, done)
	return c.Run(append([]string{"worker", "--poll-wait", "20ms"}, args...)...)
}

// endedBy returns a context that ends when the fake's jobs are as they shall be.
func endedBy(ctx context.Context, q *clitest.Fake, done func([]v1.Job) bool) context.Context {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		for !done(q.All()) && ctx.Err() == nil {
			tick := time.NewTimer(5 * time.Millisecond)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return ctx
}

// The scripts have a command worker, which ends when all jobs have ended.
func TestScripts(t *testing.T) {
	osq.Scripts(t, map[string]clitest.Cmd{"worker": func(ts *testscript.TestScript, _ bool, args []string) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		osq.Exits(endedBy(ctx, clitest.FakeOf(ts), allEnded), ts, view.ExitOK, append([]string{"worker", "--poll-wait", "20ms"}, args...)...)
	}})
}

func allEnded(jobs []v1.Job) bool {
	for _, j := range jobs {
		if j.Status == v1.StatusUnclaimed || j.Status == v1.StatusInProgress {
			return false
		}
	}
	return true
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
	check(t, json.Unmarshal([]byte(got.Out), &line))
	began := time.Now().Add(-time.Minute).UnixMilli()
	if line.Worker != "w9" || line.Token == 0 || line.StartedAt < began || line.EndedAt < line.StartedAt+line.TookMs {
		t.Errorf("%+v", line)
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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
