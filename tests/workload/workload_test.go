package workload_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
	"osqueue/tests/workload"
)

// TestDrainLosesNoEnqueue checks that Drain knows the outcome of every enqueue: one that is given
// up could commit after the last look at the queue.
func TestDrainLosesNoEnqueue(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	rec := history.NewRecorder(nil, history.Run{})
	load, err := workload.Start(workload.Config{Seed: 1, JobRate: 200, Dial: dialSlow}, c.Servers(), rec)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Close()
	goesOn(t, c, load, 20)
	if err := load.Drain(c.Context(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, op := range rec.History().Ops {
		if op.Kind == history.Enqueue && op.Outcome != history.OK {
			t.Errorf("the enqueue of %s is %s: %s", op.Job, op.Outcome, op.Error)
		}
	}
}

// dialSlow opens a connection whose answers are late, so that calls are in progress at any time.
func dialSlow(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return slowConn{c}, err
}

type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(100 * time.Millisecond) // the delay of the network that is simulated
	return n, err
}

// goesOn waits until so many more operations have been answered.
func goesOn(t *testing.T, c *cluster.Cluster, load *workload.Load, n int64) {
	t.Helper()
	goal := load.Sent() + n
	c.Eventually(30*time.Second, "the load to go on", func() error {
		if got := load.Sent(); got < goal {
			return fmt.Errorf("%d of %d", got, goal)
		}
		return nil
	})
}

var errNoWay = errors.New("no way")

// TestNobodyThere checks that, without a cluster, no operation is reported as done, every call
// ends, and the load ends.
func TestNobodyThere(t *testing.T) {
	rec := history.NewRecorder(nil, history.Run{})
	load, err := workload.Start(workload.Config{
		Patience: 200 * time.Millisecond,
		Dial:     func(context.Context, string, string) (net.Conn, error) { return nil, errNoWay },
	}, []string{"192.0.2.1:1", "192.0.2.2:1"}, rec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := load.Drain(ctx); err == nil {
		t.Error("it says that it has drained")
	}
	load.Close()
	load.Close()
	if n := load.Sent(); n != 0 {
		t.Errorf("%d answers", n)
	}
	for _, op := range rec.History().Ops {
		if op.Outcome == history.OK {
			t.Errorf("operation %d was answered", op.ID)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	rec := history.NewRecorder(nil, history.Run{})
	if _, err := workload.Start(workload.Config{JobRate: -1}, []string{"192.0.2.1:1"}, rec); err == nil {
		t.Error("a negative rate is taken")
	}
	if _, err := workload.Start(workload.Config{}, nil, rec); err == nil {
		t.Error("no servers are taken")
	}
}
