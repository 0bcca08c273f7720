package regression

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// A leader that is frozen in the middle of a write to a directory does not keep the next leader
// from becoming active, and overwrites nothing when it continues.
func TestFrozenLeaderOnAFileBucket(t *testing.T) {
	t.Parallel()
	const rounds = 4
	c := cluster.Start(t, cluster.Options{Flags: []string{"--flush-interval", "20ms"}})
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				call, cancel := context.WithTimeout(ctx, time.Second)
				_, err := c.Client.Enqueue(call, client.NewJob{Type: "t", Payload: []byte(fmt.Sprint(i, ".", n))})
				cancel()
				if err != nil { // no leader just now
					select {
					case <-time.After(10 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	defer load.Wait()
	defer stop()
	dir := strings.TrimPrefix(c.Bucket(), "file://")
	inWrite := 0
	for range rounds {
		old := c.WaitLeader()
		inWrite += pauseInWrite(old, dir)
		start := time.Now()
		next := c.WaitOtherLeader(old)
		t.Logf("%s was frozen, %s is the active leader after %v", old.Name, next.Name, time.Since(start))
		old.Continue()
	}
	if inWrite == 0 {
		t.Skip("no leader was caught in the middle of a write")
	}
	t.Logf("%d of %d leaders were in the middle of a write", inWrite, rounds)
	stop()
	load.Wait()
	if _, err := os.Stat(filepath.Join(dir, "conflicts")); err == nil {
		t.Error("a write of a frozen leader was taken for an edit")
	}
	c.Eventually(time.Minute, "a write that is answered when the bucket has it", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		e, err := c.Client.Enqueue(client.WithAck(ctx, client.AckObject), client.NewJob{Type: "t"})
		if err == nil && e.Committed != client.AckObject {
			err = fmt.Errorf("it is committed as %s", e.Committed)
		}
		return err
	})
}

// pauseInWrite freezes a node when a write of queue.json is under way, and
// reports whether it was still under way then; it tries for two seconds.
func pauseInWrite(n *cluster.Node, dir string) int {
	deadline := time.Now().Add(2 * time.Second)
	for {
		n.Pause()
		if staged, _ := filepath.Glob(filepath.Join(dir, ".osqueue", "chain", ".queue.json", "d*")); len(staged) > 0 {
			return 1
		}
		if time.Now().After(deadline) {
			return 0
		}
		n.Continue()
		time.Sleep(3 * time.Millisecond)
	}
}
