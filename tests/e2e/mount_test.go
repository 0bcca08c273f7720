package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// mountOf returns a path by which a cluster reaches a bucket, as by a mount. away puts an empty
// directory there, the one below the mount point, and back undoes it.
func mountOf(t *testing.T, dir string) (path, bare string, away, back func()) {
	t.Helper()
	bare = t.TempDir()
	path = filepath.Join(t.TempDir(), "mount")
	lead := func(to string) func() {
		return func() {
			t.Helper()
			if err := errors.Join(os.Symlink(to, path+".next"), os.Rename(path+".next", path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	lead(dir)()
	return path, bare, lead(bare), lead(dir)
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the directory below the mount point has %v, %v", entries, err)
	}
}

// While the mount of a directory bucket is away, no write is confirmed as written to the bucket,
// nothing is written below the mount point, and everything is in the bucket when it is back.
func TestMountGoesAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, bare, away, back := mountOf(t, dir)
	c := cluster.Start(t, cluster.Options{Bucket: "file://" + path, Flags: standbyTimes})
	ids := fill(t, c, 4, 10)
	away()
	during := 0
	for i := range 5 {
		id := fmt.Sprintf("during-%d", i)
		var r client.Receipt
		ctx, cancel := context.WithTimeout(client.WithReceipt(client.WithAck(t.Context(), client.AckObject), &r), time.Second)
		_, err := c.Client.Enqueue(ctx, client.NewJob{ID: id, Type: "t"})
		if cancel(); err == nil && r.Committed() == client.AckObject {
			t.Errorf("%s was confirmed as written to the bucket", id)
		}
		if err == nil {
			ids, during = append(ids, id), during+1
		}
	}
	isEmpty(t, bare)
	back()
	if _, err := c.Client.Enqueue(client.WithAck(c.Context(patience), client.AckObject), client.NewJob{ID: "after", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	mustHave(t, c, append(ids, "after"))
	isEmpty(t, bare)
	t.Logf("the quorum took %d of 5 writes while the mount was away", during)
}

// A node that has state does not use the directory below a mount point after a start without the
// mount, and needs no restart when the mount is there.
func TestStartWithoutTheMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, bare, away, back := mountOf(t, dir)
	c := cluster.Start(t, cluster.Options{Nodes: 1, Bucket: "file://" + path, Flags: standbyTimes})
	ids := fill(t, c, 4, 10)
	c.StopAll()
	away()
	c.Nodes[0].Start()
	c.Eventually(patience, "the reason in the status", func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && !strings.Contains(s.Fence.Reason, "is it mounted?") {
			err = fmt.Errorf("it is %s: %s", s.Fence.State, s.Fence.Reason)
		}
		return err
	})
	isEmpty(t, bare)
	back()
	c.WaitLeader()
	mustHave(t, c, ids)
	isEmpty(t, bare)
}
