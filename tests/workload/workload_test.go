package workload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
	"osqueue/tests/model"
	"osqueue/tests/workload"
)

// TestLoadThroughAFailover lets the load run through the death of a leader. All checkers accept
// the record, and it contains each kind of operation.
func TestLoadThroughAFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	c := cluster.Start(t, cluster.Options{Flags: []string{"--raft-snapshot-threshold", "1000000"}})
	var out bytes.Buffer
	rec := history.NewRecorder(&out, history.Run{Seed: 1, Nodes: 3, Lease: history.Time(time.Second)})
	var dialled atomic.Int64
	load, err := workload.Start(workload.Config{
		Seed: 1, Lease: time.Second, CancelRate: 5,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}, c.Servers(), rec)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Close()
	goesOn(t, c, load, 400)
	killed := c.WaitLeader()
	fault := rec.Fault("leader-killed", killed.Name)
	killed.Kill()
	fault.Hit("it has ended")
	c.WaitOtherLeader(killed)
	goesOn(t, c, load, 200)
	killed.Start()
	fault.End()
	goesOn(t, c, load, 400)
	if err := load.Drain(c.Context(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := load.Finals(c.Context(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	load.Close()
	if dialled.Load() == 0 {
		t.Error("the connections were not made by Dial")
	}
	c.StopAll()
	noteLogs(t, c, rec)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, h)
	counts(t, h)
}

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

// noteLogs replays the logs of all nodes.
func noteLogs(t *testing.T, c *cluster.Cluster, rec *history.Recorder) {
	t.Helper()
	for _, n := range c.Nodes {
		log, err := n.RaftLog()
		if err != nil {
			t.Fatal(err)
		}
		lines, states, err := model.Applied(n.Name, log, fsm.LSN{})
		if err != nil {
			t.Fatal(err)
		}
		rec.Applied(lines...)
		rec.State(states...)
	}
}

func judge(t *testing.T, h *history.History) {
	t.Helper()
	for _, v := range model.Check(h, model.Options{}) {
		t.Logf("%-13s %-10s %6d checked %s", v.Checker, v.Result, v.Checked, v.Note)
		void := v.Checker == "Documents" || v.Checker == "Safe" // no bucket was looked at
		if v.Result != model.OK && !void {
			t.Errorf("%s: %s %s", v.Checker, v.Result, v.Note)
		}
		for _, x := range v.Violations[:min(5, len(v.Violations))] {
			t.Errorf("  %s %v", x.Text, x.Ops)
		}
	}
}

// counts checks that every kind of operation was tried and answered, and that writes request
// their levels.
func counts(t *testing.T, h *history.History) {
	t.Helper()
	ok := make(map[history.Kind]int)
	all := make(map[string]int)
	for _, op := range h.Ops {
		all[string(op.Kind)+" "+string(op.Outcome)]++
		if op.Outcome == history.OK {
			ok[op.Kind]++
		}
		if op.Protocol != "" {
			all["over "+op.Protocol]++
		}
		if op.Ack == "object" && op.Outcome == history.OK && op.Committed == "object" {
			all["in the bucket"]++
		}
		if op.Kind != history.GetJob && op.Kind != history.Stats && op.Request == "" {
			t.Errorf("operation %d has no key", op.ID)
		}
	}
	t.Log(all)
	for _, k := range []history.Kind{
		history.Enqueue, history.Claim, history.Heartbeat, history.Complete, history.Fail, history.Release, history.Cancel,
		history.GetJob, history.Stats,
	} {
		if ok[k] == 0 {
			t.Errorf("no %s was answered", k)
		}
	}
	for _, p := range []string{history.ProtocolHTTP, history.ProtocolStream} {
		if all["over "+p] == 0 {
			t.Errorf("no write was answered over %s", p)
		}
	}
	if all["in the bucket"] == 0 {
		t.Error("no write waited for the bucket")
	}
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
