package clients

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// osqueue runs the command line program against the cluster.
func osqueue(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, t.TempDir(), []string{servers(c)}, append([]string{binary}, args...)...)
}

// Workers are listed with their types, also while all slots are busy and no lease
// is due. One that dies loses its job long before the lease ends, and one that is
// stopped takes itself from the list.
func TestWorkersAreListed(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		const silence = 14 * time.Second
		c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--worker-timeout", silence.String()}})
		id, open := gated(t, c)
		first := l.workerOf(t, c, "first", "LEASE_MS=600000", "CONCURRENCY=1")
		held := first.mustBegin(id)
		listed(t, c, "first", func(_ time.Duration, running int) bool { return running == 1 })
		if out := osqueue(t, c, "worker", "ls"); !strings.Contains(out, "first") || !strings.Contains(out, "hopeless") || !strings.Contains(out, " 1/1 ") {
			t.Errorf("osqueue worker ls says\n%s", out)
		}
		listed(t, c, "first", func(seen time.Duration, running int) bool { return seen > silence && running == 1 })
		first.kill()
		second := l.workerOf(t, c, "second", "LEASE_MS=600000")
		if again := second.mustBegin(id); again.token <= held.token {
			t.Errorf("token %d follows %d", again.token, held.token)
		}
		open()
		mustResult(t, ending(t, c, id), l.byWorker(c, "second"))
		second.signal(syscall.SIGTERM)
		second.ended(20 * time.Second)
		if _, err := c.Client.Worker(c.Context(10*time.Second), "second"); !client.IsNotFound(err) {
			t.Errorf("the worker that was stopped is listed: %v", err)
		}
	})
}

// listed waits until the worker is on the list, as wanted: seen is how long after
// its registration the cluster last heard of it.
func listed(t *testing.T, c *cluster.Cluster, name string, wanted func(seen time.Duration, running int) bool) {
	t.Helper()
	eventually(t, name+" to be listed", func() error {
		w, err := c.Client.Worker(c.Context(10*time.Second), name)
		if err != nil {
			return err
		}
		if !wanted(time.Duration(w.LastSeen-w.RegisteredAt)*time.Millisecond, w.Running) {
			return fmt.Errorf("it is %+v", w)
		}
		return nil
	})
}

// The lease of a job that a repeated claim has brought began with the first one.
func TestAgeOfALease(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		const raw = `{"jobId": "j", "token": 1, "attempts": 1, "leaseMs": 6000, "leaseAgeMs": 5000}`
		command := []string{"python3", "-c", `
from osqueue import Job, now
before = now()
job = Job("w", ` + raw + `)
print(before - 5 <= job.renewed <= now() - 5, round(job.due - job.renewed, 3))`}
		want := "True 2.0\n"
		if l.name == "js" {
			command = []string{"node", "--input-type=module", "-e", `
import { Job } from "./osqueue.mjs";
const before = performance.now(), job = new Job("w", ` + raw + `);
const { renewed, due } = job;
console.log(before - 5000 <= renewed && renewed <= performance.now() - 5000, due - renewed >= 2000);`}
			want = "true true\n"
		}
		if out := run(t, l.desk(t), nil, command...); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	})
}
