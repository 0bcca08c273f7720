package regression

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// standbyTimes are broker times that make a takeover quick.
var standbyTimes = []string{"--broker-timeout", "3s", "--broker-heartbeat", "500ms"}

// pathTo returns a symbolic link to a directory, by which a cluster reaches its bucket. cut
// makes it point to nothing; heal makes it point to the directory again.
func pathTo(t *testing.T, dir string) (path string, cut, heal func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bucket")
	lead := func(to string) func() {
		return func() {
			t.Helper()
			next := path + ".next"
			if err := errors.Join(os.Symlink(to, next), os.Rename(next, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	heal = lead(dir)
	heal()
	return path, lead(filepath.Join(dir, "nowhere")), heal
}

// fenceOf returns the fence of a cluster's only node.
func fenceOf(c *cluster.Cluster, want string) func() error {
	return func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && s.Fence.State != want {
			err = fmt.Errorf("it is %s: %s", s.Fence.State, s.Fence.Reason)
		}
		return err
	}
}

// B2: a cluster is cut off from the bucket, continues to answer, and loses the document to
// another one. When it adopts the document, it still has all writes that it has answered.
func TestFencedClusterKeepsWhatItAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, cut, heal := pathTo(t, dir)
	a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Bucket: "file://" + path, Flags: standbyTimes})
	ids := fill(t, a, 4, 10)
	cut()
	for i := range 26 {
		e, err := a.Client.Enqueue(a.Context(documentPatience), client.NewJob{ID: fmt.Sprintf("answered-%d", i), Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	b := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: "file://" + dir, Flags: standbyTimes})
	e, err := b.Client.Enqueue(client.WithAck(b.Context(documentPatience), client.AckObject), client.NewJob{ID: "of-the-other", Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, e.JobID)
	heal()
	a.Eventually(documentPatience, "the first cluster to be a standby", fenceOf(a, "standby"))
	b.StopAll()
	a.WaitLeader()
	mustHave(t, a, ids)
	s, err := a.Nodes[0].Status()
	if err != nil {
		t.Fatal(err)
	}
	if s.Carried == nil || s.Carried.Jobs != 26 || s.Carried.Kept != 0 {
		t.Errorf("status: %+v", s.Carried)
	}
	t.Logf("%d of %d answered jobs are there", len(ids), len(ids))
}

// B4: a leader that is cut off from the bucket, and knows of a standby, has stopped answering
// when the standby takes over: no client gets an answer from both.
func TestCutOffLeaderRefusesForAStandby(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, cut, _ := pathTo(t, dir)
	flags := append([]string{"--standby-interval", "500ms"}, standbyTimes...)
	a := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "a", Bucket: "file://" + path, Flags: flags})
	b := cluster.New(t, cluster.Options{Nodes: 1, Prefix: "b", Bucket: "file://" + dir, Flags: flags})
	b.Nodes[0].Start()
	a.Eventually(documentPatience, "the leader to know of the standby", func() error {
		s, err := a.Nodes[0].Status()
		if err == nil && s.Standby == "" {
			err = errors.New("it knows of none")
		}
		return err
	})
	cut()
	b.WaitLeader()
	s, err := a.Nodes[0].Status()
	if err != nil || s.Refusing == "" {
		t.Fatalf("the first cluster refuses with %q, %v", s.Refusing, err)
	}
	t.Log(s.Refusing)
	ctx := a.Context(documentPatience / 4)
	if e, err := a.Client.Enqueue(ctx, client.NewJob{ID: "lost", Type: "t"}); err == nil {
		t.Errorf("the first cluster answers %+v after the takeover", e)
	}
}
