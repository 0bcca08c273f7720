package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// try runs a command line to its end and returns its stdout and exit status.
func (d *devProcess) try(args ...string) (out string, code int) {
	d.t.Helper()
	out, stderr, err := d.output(args...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, view.ExitOK
	case !errors.As(err, &exit), exit.ExitCode() != view.ExitFailure:
		d.t.Fatalf("%v: %v: %s", args, err, stderr)
	}
	return out, view.ExitFailure
}

// ended waits for a job to end, and says how.
func (d *devProcess) ended(id string) (job v1.Job) {
	d.t.Helper()
	out, _ := d.try("job", "wait", id, "--wait-for", "30s", "--json")
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		d.t.Fatalf("job %s: %v: %s", id, err, out)
	}
	return job
}

// worker runs "osqueue worker" until the test ends.
func (d *devProcess) worker(args ...string) {
	d.t.Helper()
	cmd := d.command(append([]string{"worker", "--name", "w1", "--concurrency", "4"}, args...)...)
	cmd.Stdout, cmd.Stderr = &d.out, &d.out
	d.background(cmd)
}

// background runs a command until the test ends, or the returned function is
// called. It must end well on Ctrl-C.
func (d *devProcess) background(cmd *exec.Cmd) (stop func()) {
	d.t.Helper()
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		limit := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("%v: %v", cmd.Args, err)
		}
	})
	d.t.Cleanup(stop)
	return stop
}

// eventLog is the output of "osqueue events --json".
type eventLog struct {
	out  clitest.Buffer
	stop func()
}

func (d *devProcess) follow() *eventLog {
	l := &eventLog{}
	cmd := d.command("events", "--since", "start", "--json")
	cmd.Stdout, cmd.Stderr = &l.out, &d.out
	l.stop = d.background(cmd)
	return l
}

// has reports whether there was an event of that kind about that job or thing.
func (l *eventLog) has(kind, about string) bool {
	for _, line := range strings.Split(l.out.String(), "\n") {
		var e v1.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == kind && (e.JobID == about || e.Name == about) {
			return true
		}
	}
	return false
}

// A walk through the whole queue by its command line, on three nodes and with a
// worker that runs commands.
func TestWholeQueue(t *testing.T) { //nolint:tparallel // the parts share a cluster
	t.Parallel()
	d := newDevProcess(t)
	d.start()
	file := func(name string) string { return filepath.Join(d.dir, name) }
	d.worker(
		"--exec", "wc=wc -w", "--exec", "done=cat", "--exec", "tick=true",
		"--exec", fmt.Sprintf("mended=test -e %s", file("mended")),
		"--exec", fmt.Sprintf("slow=sh -c 'echo $$ > %s; exec sleep 600'", file("pid")),
	)
	d.eventually("the worker to be listed", func() bool { return strings.Contains(d.run("worker", "ls"), "w1 ") })
	events := d.follow()
	t.Run("schedule", d.walkSchedule)
	t.Run("pause, unique, after", d.walkPause)
	t.Run("idempotency key", d.walkKey)
	t.Run("cancel", func(t *testing.T) { d.walkCancel(t, file("pid")) })
	t.Run("dead and retried", func(t *testing.T) { d.walkDead(t, file("mended")) })
	t.Run("batch", func(t *testing.T) { d.walkBatch(t, file("lines")) })
	t.Run("read-only commands", func(t *testing.T) { d.walkReadOnly(t, events) })
}

func (d *devProcess) walkSchedule(t *testing.T) {
	d.run("cron", "put", "often", "@every 1s", "--type", "tick", "--payload", "1", "--tag", "by-cron")
	var job v1.Job
	d.eventually("the schedule to fire", func() bool {
		out := d.run("job", "ls", "--cron", "often", "--status", "completed", "--limit", "1", "--json")
		return out != "" && json.Unmarshal([]byte(out), &job) == nil
	})
	if job.Type != "tick" || job.Cron != "often" || string(job.Payload) != "1" {
		t.Errorf("%+v", job)
	}
	d.run("cron", "pause", "often")
	if out := d.run("cron", "ls"); !strings.Contains(out, "paused") {
		t.Errorf("%s", out)
	}
	if job := d.ended(d.run("cron", "trigger", "often")); job.Status != v1.StatusCompleted {
		t.Errorf("triggered: %+v", job)
	}
	d.eventually("the schedule to be in the bucket", func() bool {
		return strings.Contains(d.run("cron", "ls", "--bucket", "file://"+filepath.Join(d.dir, "dev", "bucket")), "often  @every 1s")
	})
	d.run("cron", "rm", "often")
}

func (d *devProcess) walkPause(t *testing.T) {
	d.run("queue", "pause", "wc")
	first := d.run("submit", "wc", `"three little words"`, "--unique", "k", "--tag", "walk")
	if second := d.run("submit", "wc", `"another"`, "--unique", "k"); second != first {
		t.Errorf("%s was added beside %s", second, first)
	}
	behind := d.run("submit", "wc", `"two words"`, "--after", first)
	if _, code := d.try("job", "wait", first, "--wait-for", "1s"); code != view.ExitFailure {
		t.Errorf("a job of a paused type ended: %d", code)
	}
	if out := d.run("queue", "ls"); !strings.Contains(out, "paused") {
		t.Errorf("%s", out)
	}
	if out := d.run("job", "show", behind); !strings.Contains(out, "blocked") || !strings.Contains(out, first) {
		t.Errorf("%s", out)
	}
	d.run("queue", "resume", "wc")
	if out, code := d.try("job", "wait", first, behind); code != view.ExitOK || out != first+"\tcompleted\t3\n"+behind+"\tcompleted\t2" {
		t.Errorf("%d: %s", code, out)
	}
	if again := d.run("submit", "wc", `"again"`, "--unique", "k"); again == first {
		t.Error("a job that has ended still holds its key")
	}
}

// walkKey repeats a command whose job has been removed meanwhile: it is not
// done again, nor is a whole file.
func (d *devProcess) walkKey(t *testing.T) {
	submit := []string{"submit", "wc", `"paid"`, "--idempotency-key", "order-7"}
	id := d.run(submit...)
	d.ended(id)
	d.run("job", "delete", id)
	if again := d.run(submit...); again != id {
		t.Errorf("%s instead of %s", again, id)
	}
	if out, code := d.try("job", "show", id); code != view.ExitFailure {
		t.Errorf("the job is back: %s", out)
	}
}

// walkCancel cancels a running job, and lets another one run out of its time:
// both commands end.
func (d *devProcess) walkCancel(t *testing.T, pidFile string) {
	started := func() (pid int) {
		d.eventually("the command to run", func() bool {
			text, _ := os.ReadFile(pidFile)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		})
		if err := os.Remove(pidFile); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	gone := func(pid int) {
		d.eventually("the command to be gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	id := d.run("submit", "slow", "1", "--lease", "3s")
	pid := started()
	if out := d.run("job", "cancel", id); !strings.Contains(out, "cancellation requested") {
		t.Errorf("%s", out)
	}
	if out, code := d.try("job", "wait", id); code != view.ExitFailure || out != "" {
		t.Errorf("%d: %s", code, out)
	}
	gone(pid)
	if job := d.ended(id); job.Status != v1.StatusCancelled || job.Attempts != 1 {
		t.Errorf("%+v", job)
	}
	id = d.run("submit", "slow", "1", "--job-timeout", "3s", "--max-attempts", "1")
	pid = started()
	if job := d.ended(id); job.Status != v1.StatusDead || len(job.History) != 1 || job.History[0].End != "timed_out" {
		t.Errorf("%+v", job)
	}
	gone(pid)
}

func (d *devProcess) walkDead(t *testing.T, mended string) {
	id := d.run("submit", "mended", "--max-attempts", "2", "--backoff", "fixed:50ms")
	if job := d.ended(id); job.Status != v1.StatusDead || job.Attempts != 2 || len(job.History) != 2 {
		t.Fatalf("%+v", job)
	}
	if out := d.run("dead", "ls", "--type", "mended"); !strings.Contains(out, "exit status 1") {
		t.Errorf("%s", out)
	}
	if _, stderr, err := d.output("dead", "retry", "--type", "mended"); err == nil || !strings.Contains(stderr, "--yes") {
		t.Errorf("it did not ask: %v %s", err, stderr)
	}
	if err := os.WriteFile(mended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := d.run("dead", "retry", "--type", "mended", "--yes"); out != "1 job retried" {
		t.Errorf("%s", out)
	}
	if job := d.ended(id); job.Status != v1.StatusCompleted || job.Attempts != 1 {
		t.Errorf("%+v", job)
	}
}

func (d *devProcess) walkBatch(t *testing.T, lines string) {
	if err := os.WriteFile(lines, []byte("one\ntwo words\nand three words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.run("batch", "create", lines, "--id", "b1", "--type", "wc", "--text", "--callback-type", "done", "--callback-payload", `{"batch":"b1"}`)
	var b v1.BatchInfo
	d.eventually("the batch to end", func() bool {
		return json.Unmarshal([]byte(d.run("batch", "show", "b1", "--json")), &b) == nil && b.EndedAt != 0
	})
	if b.Total != 3 || b.Completed != 3 || !b.Called {
		t.Errorf("%+v", b)
	}
	if job := d.ended(b.CallbackID); job.Status != v1.StatusCompleted || string(job.Result) != `{"batch":"b1"}` {
		t.Errorf("the callback: %+v", job)
	}
	if out, _ := d.try("job", "wait", "b1-1", "b1-2", "b1-3"); out != "b1-1\tcompleted\t1\nb1-2\tcompleted\t2\nb1-3\tcompleted\t3" {
		t.Errorf("%s", out)
	}
}

// walkReadOnly checks the output of the read-only commands, also after a kill of the leader.
func (d *devProcess) walkReadOnly(t *testing.T, events *eventLog) {
	for kind, about := range map[string]string{
		v1.EventCronPut: "often", v1.EventCronFired: "often", v1.EventCronDeleted: "often", v1.EventQueueSet: "wc",
		v1.EventBatchEnded: "b1", v1.EventEnqueued: "b1-1", v1.EventCompleted: "b1-3", v1.EventWorkerRegistered: "w1",
	} {
		d.eventually(kind+" of "+about, func() bool { return events.has(kind, about) })
	}
	var s v1.Stats
	if err := json.Unmarshal([]byte(d.run("stats", "--json")), &s); err != nil || s.DeadTotal != 2 || s.CancelledTotal != 1 || s.Workers != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	old := d.leader("")
	if err := syscall.Kill(old.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if out := d.run("submit", "wc", `"after the kill"`, "--id", "survivor", "--wait"); out != "3" {
		t.Errorf("%s", out)
	}
	d.eventually("the stream to go on from another node", func() bool { return events.has(v1.EventCompleted, "survivor") })
	events.stop()
	if out := d.run("job", "delete", "--all", "--yes"); !strings.HasSuffix(out, "jobs deleted") {
		t.Errorf("%s", out)
	}
	if out := d.run("job", "ls", "--status", "all"); strings.Count(out, "\n") != 0 {
		t.Errorf("%s", out)
	}
}
