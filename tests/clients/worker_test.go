package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

var errNotYet = errors.New("not yet")

// enqueue adds a job of a type and limits of the test's own, and returns its id.
func enqueue(t *testing.T, c *cluster.Cluster, job client.NewJob) string {
	t.Helper()
	job.Type = c.Own(job.Type)
	for i, name := range job.Limits {
		job.Limits[i] = c.Own(name)
	}
	got, err := c.Client.Enqueue(c.Context(30*time.Second), job)
	if err != nil {
		t.Fatal(err)
	}
	return got.JobID
}

// ending waits for the end of a job.
func ending(t *testing.T, c *cluster.Cluster, id string) v1.Job {
	t.Helper()
	job, err := c.Client.WaitJob(c.Context(time.Minute), id, 30*time.Second)
	if err != nil && !errors.As(err, new(*client.JobError)) {
		t.Fatal(err)
	}
	return job
}

// text returns a payload that is a string.
func text(s string) json.RawMessage {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return v
}

// gated enqueues a job that runs until the returned function is called.
func gated(t *testing.T, c *cluster.Cluster) (id string, open func()) {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	return enqueue(t, c, client.NewJob{Type: "gate", Payload: text(gate)}), func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// mustResult checks how a job has ended.
func mustResult(t *testing.T, job v1.Job, want string) {
	t.Helper()
	if job.Status != v1.StatusCompleted || string(job.Result) != want {
		t.Errorf("job %s is %s with %s, want %s", job.ID, job.Status, job.Result, want)
	}
}

// byWorker returns the result of the handler gate.
func (l language) byWorker(c *cluster.Cluster, name string) string {
	name = c.Own(name)
	if l.name == "js" {
		return fmt.Sprintf(`{"by":%q,"why":""}`, name)
	}
	return fmt.Sprintf(`{"by": %q, "why": ""}`, name)
}

// A worker dies while it runs a job, and another one gets the job when the lease has ended, not
// before.
func TestWorkerKilled(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		id, open := gated(t, c)
		first := l.workerOf(t, c, "first", "LEASE_MS=3000")
		held := first.mustBegin(id)
		first.kill()
		killed := time.Now()
		second := l.workerOf(t, c, "second")
		again := second.mustBegin(id)
		// The last heartbeat was at most a third of the lease before the kill.
		if after := time.Since(killed); after < 1500*time.Millisecond {
			t.Errorf("the job was claimed again %v after the kill, within its lease", after)
		}
		if again.token <= held.token || again.attempt != 2 {
			t.Errorf("attempt %d with token %d follows token %d", again.attempt, again.token, held.token)
		}
		open()
		mustResult(t, ending(t, c, id), l.byWorker(c, "second"))
	})
}

// A worker that was frozen for longer than its lease has lost its job: its later reports do not
// count.
func TestFrozenWorker(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		id, open := gated(t, c)
		// It must not have a claim at the server while it is frozen, which would get the job again.
		first := l.workerOf(t, c, "first", "LEASE_MS=2000", "CONCURRENCY=1")
		first.mustBegin(id)
		first.signal(syscall.SIGSTOP)
		second := l.workerOf(t, c, "second")
		second.mustBegin(id)
		open()
		mustResult(t, ending(t, c, id), l.byWorker(c, "second"))
		first.signal(syscall.SIGCONT)
		first.signal(syscall.SIGTERM)
		first.ended(20 * time.Second)
		mustResult(t, ending(t, c, id), l.byWorker(c, "second"))
		if n := len(first.begun()) + len(second.begun()); n != 2 {
			t.Errorf("the job was begun %d times, want once by each", n)
		}
		completed := "job " + id + ": complete"
		eventually(t, "the second worker to log the end of the job", func() error {
			if !strings.Contains(second.out.String(), completed) {
				return errNotYet
			}
			return nil
		})
		if strings.Contains(first.out.String(), completed) {
			t.Errorf("the frozen worker believes that it has completed the job:\n%s", first.out.String())
		}
	})
}

// A worker that is frozen while its claim waits is given a job, and never starts it. If that is
// the job's last attempt, it does not count.
func TestFrozenWorkerWithAnOpenClaim(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		first := l.workerOf(t, c, "first", "LEASE_MS=2000", "POLL_MS=20000")
		var id string
		eventually(t, "the frozen worker to be given a job", func() error {
			first.signal(syscall.SIGSTOP)
			id = enqueue(t, c, client.NewJob{Type: "square", Payload: json.RawMessage("3"), MaxAttempts: new(int32(1))})
			if job, err := c.Client.Job(c.Context(time.Second), id); err == nil && job.Status == "in_progress" {
				return nil
			}
			first.signal(syscall.SIGCONT) // its claim did not wait yet
			ending(t, c, id)
			return errNotYet
		})
		second := l.workerOf(t, c, "second")
		second.mustBegin(id)
		if job := ending(t, c, id); job.Status != "completed" {
			t.Errorf("the job is %s: %s", job.Status, job.LastError)
		}
		first.signal(syscall.SIGKILL)
	})
}

// Heartbeats keep a job for several times its lease, and carry its progress.
func TestHeartbeats(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		id, open := gated(t, c)
		w := l.workerOf(t, c, "w", "LEASE_MS=4500")
		began := w.mustBegin(id)
		time.Sleep(13500 * time.Millisecond) // three leases
		job, err := c.Client.Job(c.Context(10*time.Second), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.Status != v1.StatusInProgress || job.Token != began.token {
			t.Errorf("the job is %s with token %d, claimed with %d", job.Status, job.Token, began.token)
		}
		if job.Progress == nil || job.Progress.Percent != 50 || job.Progress.Message != "at the gate" {
			t.Errorf("progress %+v", job.Progress)
		}
		open()
		if job := ending(t, c, id); job.Attempts != 1 {
			t.Errorf("%d attempts", job.Attempts)
		}
	})
}

// Lines that a handler logs reach a follower while it runs, once and in order, and are kept with
// the job.
func TestLiveLog(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		gate := filepath.Join(t.TempDir(), "gate")
		id := enqueue(t, c, client.NewJob{Type: "talk", Payload: text(gate)})
		l.workerOf(t, c, "w")
		const lines = 30
		var want, got strings.Builder
		for i := range lines {
			fmt.Fprintf(&want, "%d é\n", i)
		}
		for chunk, err := range c.Client.FollowLogs(c.Context(time.Minute), id) {
			if err != nil {
				t.Fatal(err)
			}
			if chunk.Lost > 0 {
				t.Errorf("%d bytes are lost", chunk.Lost)
			}
			got.WriteString(chunk.Text)
			if got.Len() == want.Len() { // all of it came while the job runs
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got.String() != want.String() {
			t.Errorf("followed\n%s", got.String())
		}
		if job := ending(t, c, id); job.Log+"\n" != want.String() {
			t.Errorf("the log is\n%s", job.Log)
		}
	})
}

// An exception in a handler fails the attempt, and the error names the place.
func TestFailures(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		l.workerOf(t, c, "w")
		two := int32(2)
		add := func(kind string) string {
			return enqueue(t, c, client.NewJob{Type: kind, Payload: text("alas"), MaxAttempts: &two})
		}
		broken, hopeless, noJSON, tooMuch := add("broken"), add("hopeless"), add("no-json"), add("too-much")
		for _, want := range []struct {
			id       string
			attempts int32
			errors   []string
		}{
			{id: broken, attempts: 2, errors: []string{"no such luck: alas", l.trace, "worker" + l.extension}},
			{id: hopeless, attempts: 1, errors: []string{"never again"}},
			{id: noJSON, attempts: 2, errors: []string{"TypeError"}},
			{id: tooMuch, attempts: 1, errors: []string{"the result was refused"}},
		} {
			job := ending(t, c, want.id)
			if job.Status != v1.StatusDead || job.Attempts != want.attempts {
				t.Errorf("%s job is %s after %d attempts, want it dead after %d", job.Type, job.Status, job.Attempts, want.attempts)
			}
			if first, _, _ := strings.Cut(job.LastError, "\n"); !strings.Contains(first, want.errors[0]) || want.id == hopeless && job.LastError != "never again" {
				t.Errorf("%s job: the first line of its error does not say what failed:\n%s", job.Type, job.LastError)
			}
			for _, part := range want.errors {
				if !strings.Contains(job.LastError, part) {
					t.Errorf("%s job: error without %q:\n%s", job.Type, part, job.LastError)
				}
			}
		}
		later, snoozed := add("later"), add("snooze")
		eventually(t, "the delayed attempts", func() error {
			for id, attempts := range map[string]int32{later: 1, snoozed: 0} {
				job, err := c.Client.Job(c.Context(10*time.Second), id)
				if err != nil {
					return err
				}
				if wait := time.Until(time.UnixMilli(job.RunAt)); job.Status != v1.StatusScheduled || wait < 50*time.Minute || job.Attempts != attempts {
					return fmt.Errorf("%s is %s, for %v, after %d attempts", job.Type, job.Status, wait, job.Attempts)
				}
			}
			return nil
		})
		throttled := enqueue(t, c, client.NewJob{Type: "throttle", Payload: text("alas"), Limits: []string{"api"}})
		if job := ending(t, c, throttled); job.Status != v1.StatusCompleted {
			t.Errorf("the job that throttles is %s: %s", job.Status, job.LastError)
		}
		held, err := c.Client.Limit(c.Context(10*time.Second), c.Own("api"))
		if wait := time.Until(time.UnixMilli(held.HeldUntil)); err != nil || wait < 50*time.Minute {
			t.Errorf("the limit is held for %v: %+v, %v", wait, held, err)
		}
	})
}

// A delay that the cluster refuses is changed to a valid one, or left out: the attempt ends
// nevertheless, and the job is not leased without end.
func TestOddDelays(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		l.workerOf(t, c, "w", "CONCURRENCY=1")
		for _, delay := range []string{"2.5", "-1", "1e18", `"soon"`} {
			two := int32(2)
			id := enqueue(t, c, client.NewJob{Type: "odd", Payload: json.RawMessage(delay), MaxAttempts: &two})
			if job := ending(t, c, id); job.Status != v1.StatusDead || !strings.Contains(job.LastError, "an odd delay") {
				t.Errorf("delay %s: the job is %s: %s", delay, job.Status, job.LastError)
			}
		}
	})
}

// An invalid or very long progress message does not cost the worker its leases.
func TestOddProgress(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		file := filepath.Join(t.TempDir(), "gate")
		id := enqueue(t, c, client.NewJob{Type: "babble", Payload: text(file)})
		l.workerOf(t, c, "w", "LEASE_MS=4500").mustBegin(id)
		eventually(t, "the progress", func() error {
			job, err := c.Client.Job(c.Context(10*time.Second), id)
			if err == nil && (job.Progress == nil || job.Progress.Message == "") {
				err = errNotYet
			}
			return err
		})
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mustResult(t, ending(t, c, id), l.byWorker(c, "w"))
	})
}

// The handler of a running job learns of a cancellation.
func TestCancelled(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		w := l.workerOf(t, c, "w", "LEASE_MS=4500")
		id := enqueue(t, c, client.NewJob{Type: "until-stopped"})
		w.mustBegin(id)
		if _, err := c.Client.Cancel(c.Context(10*time.Second), id); err != nil {
			t.Fatal(err)
		}
		if job := ending(t, c, id); job.Status != v1.StatusCancelled || job.LastError != "cancelled" {
			t.Errorf("the job is %s: %s", job.Status, job.LastError)
		}
	})
}

// An idle worker stops soon after the signal.
func TestStopIdle(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		w := l.workerOf(t, c, "w")
		ending(t, c, enqueue(t, c, client.NewJob{Type: "square", Payload: json.RawMessage("3")})) // it is at work
		w.signal(syscall.SIGTERM)
		w.ended(10 * time.Second)
	})
}

// A worker that is stopped finishes the jobs that it can, releases the others, and claims no
// more.
func TestStop(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		short, open := gated(t, c)
		stubborn, _ := gated(t, c) // its handler does not look whether it is to end
		long := enqueue(t, c, client.NewJob{Type: "until-stopped"})
		w := l.workerOf(t, c, "w", "STOP_MS=8000")
		for _, id := range []string{short, stubborn, long} {
			w.mustBegin(id)
		}
		w.signal(syscall.SIGTERM)
		open()
		mustResult(t, ending(t, c, short), l.byWorker(c, "w"))
		// From now on two slots are free, and the worker knows that it must stop.
		eventually(t, "the long job to be given back", func() error {
			job, err := c.Client.Job(c.Context(10*time.Second), long)
			if err == nil && job.Status != v1.StatusUnclaimed {
				err = errNotYet
			}
			return err
		})
		after := enqueue(t, c, client.NewJob{Type: "square", Payload: json.RawMessage("3")})
		w.ended(30 * time.Second)
		for _, id := range []string{stubborn, long} {
			job, err := c.Client.Job(c.Context(10*time.Second), id)
			if err != nil {
				t.Fatal(err)
			}
			// The attempt of a released job does not count.
			if job.Status != v1.StatusUnclaimed || job.Attempts != 0 {
				t.Errorf("%s is %s after %d attempts, want it given back", id, job.Status, job.Attempts)
			}
		}
		job, err := c.Client.Job(c.Context(10*time.Second), after)
		if err != nil {
			t.Fatal(err)
		}
		if job.Status != v1.StatusUnclaimed {
			t.Errorf("a job that came while the worker was stopping is %s", job.Status)
		}
	})
}

// A worker without a handler must not claim: no types would stand for all jobs, and it
// would fail them.
func TestWorkerWithoutTypes(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		command := []string{"python3", "-c", `
from osqueue import Client, Worker
try: Worker(Client(["127.0.0.1:1"])).run()
except ValueError as e: print(e)`}
		if l.name == "js" {
			command = []string{"node", "--input-type=module", "-e", `
import { Client, Worker } from "./osqueue.mjs";
await new Worker(new Client(["127.0.0.1:1"])).run().catch((e) => console.log(e.message));`}
		}
		const want = "a worker needs a handler: claiming no types would be claiming all\n"
		if out := run(t, l.desk(t), nil, command...); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	})
}
