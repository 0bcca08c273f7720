package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// workerLease is short, so that tests do not wait long for its end.
const workerLease = 3 * time.Second

// workerEnv has the servers and the name of the worker if this process is to run a worker
// instead of tests.
const workerEnv = "OSQUEUE_TEST_WORKER"

// note is a line that a worker process writes to stderr; stdout belongs to the test framework.
type note struct {
	What    string         `json:"what"` // noteStarted or noteFinished
	JobID   string         `json:"jobId"`
	Token   uint64         `json:"token"`
	Outcome worker.Outcome `json:"outcome,omitempty"`
}

const (
	noteStarted  = "started"
	noteFinished = "finished"
)

// TestWorkerProcess is not a test: it is the worker of the tests below, in a process of its
// own. A handler runs until its stdin has a line or is closed. It ignores its context, like
// code that cannot be interrupted.
func TestWorkerProcess(t *testing.T) {
	given := os.Getenv(workerEnv)
	if given == "" {
		t.Skip("only as the process of other tests")
	}
	name, servers, _ := strings.Cut(given, "=")
	c, err := client.New(client.Config{Servers: strings.Split(servers, ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	say := func(n note) {
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewEncoder(os.Stderr).Encode(n); err != nil {
			t.Error(err)
		}
	}
	w, err := worker.New(c, worker.Config{
		Name: name, Concurrency: 1, Lease: workerLease, PollWait: time.Second,
		Finished: func(f worker.Finished) {
			say(note{What: noteFinished, JobID: f.Job.ID, Token: f.Job.Token, Outcome: f.Outcome})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(os.Stdin)
	w.Handle("t", func(_ context.Context, job worker.Job) (json.RawMessage, error) {
		say(note{What: noteStarted, JobID: job.ID, Token: job.Token})
		if _, err := in.ReadString('\n'); err != nil {
			return nil, err
		}
		return jsontext.AppendQuote(nil, name)
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}

// workerProcess is a worker in a process of its own.
type workerProcess struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	notes chan note // closed at its end
	ended bool
}

func startWorkerProcess(t *testing.T, c *cluster.Cluster, name string) *workerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$")
	cmd.Env = append(os.Environ(), workerEnv+"="+name+"="+strings.Join(c.Servers(), ","))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &workerProcess{t: t, name: name, cmd: cmd, in: in, notes: make(chan note, 100)}
	go func() {
		defer close(p.notes)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n note
			if json.Unmarshal(lines.Bytes(), &n) == nil {
				p.notes <- n
			}
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// expect waits for the next note of the process.
func (p *workerProcess) expect(what string) note {
	p.t.Helper()
	select {
	case n, ok := <-p.notes:
		if !ok || n.What != what {
			p.t.Fatalf("%s says %+v; %q was expected", p.name, n, what)
		}
		return n
	case <-time.After(60 * time.Second):
		p.t.Fatalf("%s says nothing; %q was expected", p.name, what)
	}
	return note{}
}

// finish lets the handler return.
func (p *workerProcess) finish() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *workerProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (p *workerProcess) kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Kill() // it may have ended
	for range p.notes {      // until it says no more
	}
	_ = p.cmd.Wait() // an error: it was killed
}

// A worker is killed while it runs a job: another one gets the job when the lease has ended,
// with a greater token, and a completion with the old token is refused.
func TestWorkerIsKilledInMidJob(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	submitType(t, c, "t", 1)
	first := startWorkerProcess(t, c, "first")
	was := first.expect(noteStarted)
	began := time.Now()
	first.kill()
	second := startWorkerProcess(t, c, "second")
	is := second.expect(noteStarted)
	t.Logf("another worker had the job after %v", time.Since(began).Round(time.Millisecond))
	if is.JobID != was.JobID || is.Token <= was.Token {
		t.Fatalf("first %+v, then %+v", was, is)
	}
	lateIsRefused(t, c, "first", was)
	second.finish()
	if n := second.expect(noteFinished); n.Outcome != worker.Completed || n.Token != is.Token {
		t.Fatalf("%+v", n)
	}
	lateIsRefused(t, c, "first", was)
	completedOnce(t, c, is, "second")
}

// A worker is stopped for longer than its lease, and continues. Its later report of the job
// does not count, and the worker learns this.
func TestWorkerIsStoppedForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	submitType(t, c, "t", 1)
	first := startWorkerProcess(t, c, "first")
	was := first.expect(noteStarted)
	first.signal(syscall.SIGSTOP)
	second := startWorkerProcess(t, c, "second")
	is := second.expect(noteStarted)
	if is.JobID != was.JobID || is.Token <= was.Token {
		t.Fatalf("first %+v, then %+v", was, is)
	}
	first.signal(syscall.SIGCONT)
	first.finish() // the work was done, too late
	if n := first.expect(noteFinished); n.Outcome != worker.Lost || n.Token != was.Token {
		t.Fatalf("%+v", n)
	}
	second.finish()
	if n := second.expect(noteFinished); n.Outcome != worker.Completed || n.Token != is.Token {
		t.Fatalf("%+v", n)
	}
	lateIsRefused(t, c, "first", was)
	completedOnce(t, c, is, "second")
}

// lateIsRefused checks that a completion with an expired claim is refused.
func lateIsRefused(t *testing.T, c *cluster.Cluster, name string, was note) {
	t.Helper()
	lease := client.Lease{JobID: was.JobID, Worker: name, Token: was.Token}
	err := c.Client.Complete(c.Context(10*time.Second), lease, json.RawMessage(`"late"`))
	if !client.HasTag(err, v1.TagStaleToken) {
		t.Fatalf("the late completion: %v", err)
	}
}

// completedOnce checks that the job has the result of the valid claim.
func completedOnce(t *testing.T, c *cluster.Cluster, is note, name string) {
	t.Helper()
	jobs := jobsByID(t, c)
	j := jobs[is.JobID]
	s, err := c.Client.Stats(c.Context(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if j.Status != v1.StatusCompleted || j.Token != is.Token || string(j.Result) != fmt.Sprintf("%q", name) || s.CompletedTotal != 1 {
		t.Fatalf("%+v, %d completions", j, s.CompletedTotal)
	}
	if j.Attempts != 2 || len(jobs) != 1 {
		t.Fatalf("%d attempts, %d jobs", j.Attempts, len(jobs))
	}
}
