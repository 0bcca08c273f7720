package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// bucketFile returns the path of an object of a cluster whose bucket is a directory.
func bucketFile(c *cluster.Cluster, key string) string {
	return filepath.Join(strings.TrimPrefix(c.Bucket(), "file://"), filepath.FromSlash(key))
}

// command runs the program, and returns its output and its exit status.
func command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	data, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(data), code
}

// noise is n characters that cannot be compressed well.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// fill adds jobs with payloads of so many bytes, and waits until the bucket has them.
func fill(t *testing.T, c *cluster.Cluster, n, payload int) (ids []string) {
	t.Helper()
	for i := range n {
		e, err := c.Client.Enqueue(client.WithAck(c.Context(patience), client.AckObject), client.NewJob{
			ID: fmt.Sprintf("job-%d", i), Type: "t", Payload: fmt.Appendf(nil, "%q", noise(payload)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	return ids
}

// mustHave checks that every job is there.
func mustHave(t *testing.T, c *cluster.Cluster, ids []string) {
	t.Helper()
	for _, id := range ids {
		if _, err := c.Client.Job(c.Context(patience), id); err != nil {
			t.Fatalf("job %s of %d: %v", id, len(ids), err)
		}
	}
}

// X1: a repair of the damaged document of a small queue does not leave an empty one, and nodes
// with intact disks keep their jobs; the steps that the command prints restore them.
func TestRepairOfADamagedDocumentKeepsAllJobs(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	ids := fill(t, c, 20, 10)
	c.StopAll()

	path := bucketFile(c, "queue.json")
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, code := command(t, "verify", c.Bucket(), "--repair")
	if code != 1 || !strings.Contains(out, "move queue.json away and start the nodes") {
		t.Errorf("without --force: %d\n%s", code, out)
	}
	out, code = command(t, "verify", c.Bucket(), "--repair", "--force")
	if code != 1 || !strings.Contains(out, "no complete state is left in the archive, and nothing was written") || strings.Contains(out, "Repaired") {
		t.Errorf("with --force: %d\n%s", code, out)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.Nodes[0].Start()
	c.WaitLeader()
	mustHave(t, c, ids)
}

// B11: a missing document is rebuilt from the archive of a large queue, and an empty cluster
// does not begin another queue there before.
func TestAMissingDocumentIsRepaired(t *testing.T) {
	t.Parallel()
	flags := []string{"--broker-timeout", "2s", "--broker-heartbeat", "500ms", "--standby-retry", "500ms", "--max-flush-lag", "5s"}
	first := cluster.Start(t, cluster.Options{Nodes: 1, Flags: flags})
	fill(t, first, 20, 20_000)
	first.StopAll()
	if err := os.Remove(bucketFile(first, "queue.json")); err != nil {
		t.Fatal(err)
	}

	second := cluster.New(t, cluster.Options{Nodes: 1, Prefix: "m", Bucket: first.Bucket(), Flags: flags})
	second.Nodes[0].Start()
	second.Eventually(patience, "the refusal", func() error {
		s, err := second.Nodes[0].Status()
		if err == nil && !strings.Contains(s.Fence.Reason, "osqueue verify BUCKET-URL --repair") {
			err = fmt.Errorf("fence %s: %s", s.Fence.State, s.Fence.Reason)
		}
		return err
	})
	if out, code := command(t, "verify", first.Bucket()); code != 1 || !strings.Contains(out, "--repair") {
		t.Errorf("verify: %d\n%s", code, out)
	}
	if out, code := command(t, "verify", first.Bucket(), "--repair"); code != 0 || !strings.Contains(out, "Repaired") {
		t.Fatalf("repair: %d\n%s", code, out)
	}
	second.WaitLeader()
	mustHave(t, second, []string{"job-0"})
}
