package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/election"
	"osqueue/storage/document"
	"osqueue/storage/file"
)

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
