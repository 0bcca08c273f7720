package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// The idle workers of a kind.
const (
	idleGo     = 40
	idleScript = 25 // of Python, and of JavaScript
	idleCLI    = 10
	idleAll    = idleGo + 2*idleScript + idleCLI
)

// The bounds of an idle worker and of a cluster.
const (
	keepalivePause = 20 * time.Second // half of --worker-timeout
	heartbeatPause = 3 * time.Second  // between writes of the leader to the bucket
)

// 100 idle workers of all clients, with 8 slots each, write at most one log entry in each half of
// --worker-timeout, and cause no write to the bucket, also when the first deadline of each worker
// passes. Both bounds hold for the time between the two readings, so a slow machine cannot break them.
func TestIdleWorkersOfAllClients(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 50 s")
	}
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{
		"--worker-timeout", (2 * keepalivePause).String(), "--broker-heartbeat", heartbeatPause.String(),
	}})
	startIdleGo(t, c)
	for i := range idleCLI {
		c.StartWorker(fmt.Sprint("cli-", i), "--exec", "nothing=true", "--concurrency", "8")
	}
	startIdleScript(t, c, "python3", "clients/python/osqueue.py", "idle.py")
	startIdleScript(t, c, "node", "clients/js/osqueue.mjs", "idle.mjs")
	n := c.Nodes[0]
	c.Eventually(longPatience, "the workers to be registered", func() error {
		s, err := n.Status()
		if err == nil && s.Workers != idleAll {
			err = fmt.Errorf("%d of %d are", s.Workers, idleAll)
		}
		return err
	})

	startWritten(t, c, n, heartbeatPause)
	began := time.Now()
	before := reading(t, n)
	time.Sleep(2*keepalivePause + time.Second) // the window that is measured: each worker is due twice
	after := reading(t, n)
	passed := time.Since(began)

	entries, most := after.CommitIndex-before.CommitIndex, idleAll*(uint64(passed/keepalivePause)+1)
	puts, mostPuts := putsOf(after)-putsOf(before), uint64(passed/heartbeatPause)+5
	t.Logf("in %v %d idle workers wrote %d log entries; the leader wrote to the bucket %d times", passed.Round(time.Second), idleAll, entries, puts)
	if entries > most || entries == 0 {
		t.Errorf("%d log entries, want 1 to %d", entries, most)
	}
	if puts > mostPuts {
		t.Errorf("%d writes to the bucket, at most %d are for the leader's heartbeat; requests before and after: %v, %v",
			puts, mostPuts, before.Bucket.Requests, after.Bucket.Requests)
	}
	if after.Workers != idleAll {
		t.Errorf("%d workers are registered, want %d", after.Workers, idleAll)
	}
}

// startIdleGo runs workers in this process until the test ends.
func startIdleGo(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for i := range idleGo {
		w, err := worker.New(c.Client, worker.Config{Name: fmt.Sprint("go-", i), Concurrency: 8})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("nothing", func(context.Context, worker.Job) (json.RawMessage, error) { return nil, nil })
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
}

// startIdleScript runs workers of a client in a process of their own.
func startIdleScript(t *testing.T, c *cluster.Cluster, interpreter, client, program string) {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, file := range []string{filepath.Join("..", "..", client), filepath.Join("testdata", program)} {
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	cmd := exec.Command(interpreter, program, strconv.Itoa(idleScript))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), "OSQUEUE_SERVERS="+strings.Join(c.Servers(), ","))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", program, out.String())
		}
	})
}

func reading(t *testing.T, n *cluster.Node) v1.Status {
	t.Helper()
	var s v1.Status
	err := cluster.Poll(10*time.Second, func() (err error) {
		s, err = n.Status()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startWritten waits until n has written to the bucket what its start, and the load before, cause.
func startWritten(t *testing.T, c *cluster.Cluster, n *cluster.Node, heartbeat time.Duration) {
	t.Helper()
	c.Eventually(longPatience, "the writes of the start to be in the bucket", func() error {
		before := putsOf(reading(t, n))
		time.Sleep(heartbeat) // a window that is measured
		if puts := putsOf(reading(t, n)) - before; puts > 2 {
			return fmt.Errorf("%d writes in %v", puts, heartbeat)
		}
		return nil
	})
}

// putsOf returns the number of writes to the bucket, of objects of any kind.
func putsOf(s v1.Status) (n uint64) {
	for op, count := range s.Bucket.Requests {
		if strings.HasPrefix(op, "put") {
			n += count
		}
	}
	return n
}
