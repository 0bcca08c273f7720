package e2e

import (
	"bytes"
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
	"osqueue/election"
	"osqueue/storage/document"
	"osqueue/storage/file"
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
		if err := end(cmd); err != nil {
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

// guideScript are the commands of the guide, with another port, as a script that
// ends at the first one that fails.
func guideScript(t *testing.T, port int) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"set -ex -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"}
	for _, line := range strings.Split(string(guide), "\n") {
		if cmd, ok := strings.CutPrefix(line, "    $ "); ok {
			lines = append(lines, strings.ReplaceAll(cmd, ":8080", ":"+strconv.Itoa(port)))
		}
	}
	if len(lines) < 60 {
		t.Fatalf("the guide has only %d commands", len(lines))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Every command of docs/guide.md works, in their order.
func TestGuide(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide needs %s: %v", tool, err)
		}
	}
	d := newDevProcess(t)
	// What the guide asks curl or status has no second try: a busy machine must not cost
	// the cluster its leader meanwhile.
	d.start("--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "3s")
	if err := os.Symlink(d.binary, filepath.Join(d.dir, "osqueue")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(d.dir, "guide.sh")
	if err := os.WriteFile(script, []byte(guideScript(t, d.http)), 0o600); err != nil {
		t.Fatal(err)
	}
	bash := exec.Command("bash", script)
	bash.Dir = t.TempDir() // the guide makes files
	bash.Env = append(d.command().Env, "PATH="+d.dir+":"+os.Getenv("PATH"), "BUCKET="+d.bucket())
	var out bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &out
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers end with it: they hold its output open
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	if err := bash.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, problem := range []string{"bad_request", "unknown_member", "not_found", "internal_error", "wrong_status"} {
		if strings.Contains(out.String(), problem) {
			t.Errorf("an answer says %s:\n%s", problem, out.String())
		}
	}
}

// bucket is the URL of the cluster's bucket.
func (d *devProcess) bucket() string { return "file://" + filepath.Join(d.dir, "dev", "bucket") }

// stop ends the cluster as Ctrl-C does.
func (d *devProcess) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("dev: %v", err)
	}
}

// A queue is restored to an empty bucket, an empty cluster starts on it, and does
// nothing before it is resumed. Then the old queue is rewound in place: the nodes
// of the old cluster refuse it, and say why and what to do.
func TestRestoreIsAdoptedAndRefused(t *testing.T) {
	t.Parallel()
	old := newDevProcess(t)
	old.start()
	letter := old.run("submit", "mail", `"first"`, "--id", "letter")
	old.run("cron", "put", "often", "@every 1s", "--type", "tick", "--payload", "1")
	old.run("submit", "mail", `"second"`, "--delay", "1s")
	lines := filepath.Join(old.dir, "lines")
	if err := os.WriteFile(lines, []byte(strings.Repeat(`"`+strings.Repeat("x", 200)+"\"\n", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	old.run("submit", "bulk", "--file", lines)
	last := old.run("submit", "mail", `"third"`)
	lineage := old.flushed(last)
	old.stop()

	next := newDevProcess(t)
	if out := next.run("restore", "--from", old.bucket(), "--to", next.bucket()); !strings.Contains(out, "osqueue queue resume bulk mail tick") {
		t.Errorf("%s", out)
	}
	if doc := next.document(); doc == nil || doc.Viewed || doc.Archive.Checkpoint.Key == "" {
		t.Error("it shows the jobs, or has no checkpoint")
	}
	next.start()
	next.worker("--exec", "mail=wc -w", "--exec", "tick=true")
	next.eventually("the worker to be listed", func() bool { return strings.Contains(next.run("worker", "ls"), "w1 ") })
	if _, code := next.try("job", "wait", letter, "--wait-for", "2s"); code != view.ExitFailure {
		t.Errorf("a job was done before it was resumed")
	}
	if out := next.run("job", "ls", "--status", "in_progress,completed,dead", "--json"); out != "" {
		t.Errorf("something was done: %s", out)
	}
	if out := next.run("job", "ls", "--type", "bulk", "--all", "--json"); strings.Count(out, "\n") != 1999 {
		t.Errorf("%d jobs are there", strings.Count(out, "\n")+1)
	}
	next.run("queue", "resume", "mail", "tick")
	next.run("cron", "resume", "often")
	if job := next.ended(letter); job.Status != v1.StatusCompleted {
		t.Errorf("%+v", job)
	}
	next.eventually("the schedule to fire", func() bool {
		return next.run("job", "ls", "--cron", "often", "--status", "completed", "--json") != ""
	})

	old.run("restore", "--from", old.bucket(), "--to", old.bucket(), "--replace", "--broker-timeout", "1ms")
	old.out = clitest.Buffer{}
	old.launch()
	reason := ""
	old.eventually("the refusal", func() bool {
		for _, s := range old.statuses() {
			if s.Fence.State == "refused" {
				reason = s.Fence.Reason
			}
		}
		return reason != ""
	})
	for _, text := range []string{"osqueue restore", lineage, "empty data directories"} {
		if !strings.Contains(reason, text) {
			t.Errorf("%q does not say %q", reason, text)
		}
	}
	if _, stderr, err := old.output("--timeout", "2s", "submit", "mail", "1"); err == nil {
		t.Errorf("a write was answered: %s", stderr)
	}
}

// document returns the document in the cluster's bucket, or nil.
func (d *devProcess) document() *document.File {
	d.t.Helper()
	bucket, err := file.OpenDir(d.t.Context(), filepath.Join(d.dir, "dev", "bucket"))
	if err != nil {
		d.t.Fatal(err)
	}
	seen, err := election.Read(d.t.Context(), bucket, "queue.json")
	if err != nil {
		return nil
	}
	return seen.Doc
}

// flushed waits until a job is in the bucket, and returns the document's lineage.
func (d *devProcess) flushed(id string) (lineage string) {
	d.t.Helper()
	d.eventually(id+" to be in the bucket", func() bool {
		doc := d.document()
		if doc == nil {
			return false
		}
		lineage = doc.Lineage()
		_, _, missing := d.output("job", "show", id, "--bucket", d.bucket())
		return missing == nil
	})
	return lineage
}
