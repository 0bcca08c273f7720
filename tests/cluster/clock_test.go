package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// Jumps of the leader's wall clock expire no lease and freeze no time. Elections are
// calm, so that a busy machine does not move leadership.
func TestTheLeadersClockJumps(t *testing.T) {
	c := cluster.Start(t, cluster.Options{FaultClock: true, Flags: []string{
		"--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "3s",
	}})
	leader := c.WaitLeader()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			id := enqueue(t, c, client.NewJob{Type: "long"})
			long := claim(t, c, 30*time.Second)
			if long.ID != id {
				t.Fatalf("claimed %s, want %s", long.ID, id)
			}
			proof, err := leader.SetClock(jump, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(proof)
			began := time.Now()
			later := enqueue(t, c, client.NewJob{Type: "later", Delay: 2 * time.Second})
			due := claim(t, c, time.Second)
			took := time.Since(began)
			if due.ID != later {
				t.Fatalf("job %s was claimed, want %s: the lease of %s has run out", due.ID, later, id)
			}
			// The clock may be a tenth fast or slow.
			if took < 1700*time.Millisecond || took > 9*time.Second {
				t.Errorf("a job was due in 2s, and came after %v", took)
			}
			// No worker runs the job: its lease expires.
			again := claim(t, c, time.Minute)
			if again.ID != later || again.Token <= due.Token {
				t.Errorf("claimed %s with token %d, want %s with more than %d", again.ID, again.Token, later, due.Token)
			}
			for _, j := range []client.ClaimedJob{long, again} {
				if err := c.Client.Complete(c.Context(patience), j.Lease(), nil); err != nil {
					t.Errorf("the lease of %s: %v", j.ID, err)
				}
			}
			if now, err := c.Leader(); err != nil || now != leader {
				t.Errorf("leadership has moved: %v", err)
			}
		})
	}
}

// A new leader's clock may be far from the last one's, and drift.
func TestLeadershipMovesToAnotherClock(t *testing.T) {
	c := cluster.Start(t, cluster.Options{FaultClock: true})
	old := c.WaitLeader()
	for _, n := range c.Nodes {
		if n == old {
			continue
		}
		if _, err := n.SetClock(time.Hour, 0.5); err != nil {
			t.Fatal(err)
		}
	}
	id := enqueue(t, c, client.NewJob{Type: "t"})
	held := claim(t, c, 30*time.Second)
	old.Kill()
	next := c.WaitOtherLeader(old)
	if at := heartbeat(t, c, next); time.Until(at) < 50*time.Minute {
		t.Errorf("%s leads, whose clock is an hour ahead, and writes a heartbeat of %v", next.Name, at)
	}
	if j, err := c.Client.Job(c.Context(patience), id); err != nil || j.Status != "in_progress" || j.Token != held.Token {
		t.Errorf("the job is %s under token %d, was claimed under %d: %v", j.Status, j.Token, held.Token, err)
	}
	old.Start()
	c.Eventually(patience, old.Name+" to serve", func() error {
		_, err := old.Status()
		return err
	})
	if err := c.Client.Complete(c.Context(patience), held.Lease(), nil); err != nil {
		t.Errorf("the lease: %v", err)
	}
}

// heartbeat is that of the document, once next has written it.
func heartbeat(t *testing.T, c *cluster.Cluster, next *cluster.Node) (at time.Time) {
	t.Helper()
	c.Eventually(patience, "a heartbeat of "+next.Name, func() error {
		d := document(t, c)
		if d.Broker != next.HTTP {
			return fmt.Errorf("the broker is %s", d.Broker)
		}
		at = time.UnixMilli(d.BrokerHeartbeat)
		return nil
	})
	return at
}

// A clock is set before the start, too, and drifts from then on.
func TestStartWithAWrongClock(t *testing.T) {
	c := cluster.New(t, cluster.Options{Nodes: 1, FaultClock: true})
	n := c.Nodes[0]
	const drift = -1000 // more than a quarter of an hour in a second
	if _, err := n.SetClock(-time.Hour, drift); err != nil {
		t.Fatal(err)
	}
	set := time.Now()
	time.Sleep(500 * time.Millisecond)
	n.Start()
	c.WaitLeader()
	behind := time.Since(heartbeat(t, c, n))
	most := time.Hour - drift*time.Since(set) + time.Minute
	if behind < time.Hour-drift*500*time.Millisecond || behind > most {
		t.Errorf("the heartbeat is %v behind; want an hour, and %d times what has passed", behind, -drift)
	}
}

// The program that people run has no such clock, and no program has the packages for gRPC of the
// client of GCS.
func TestProgramsAreBuiltWithTheirTags(t *testing.T) {
	for _, p := range []struct {
		name  string
		build func() (string, error)
		want  bool
	}{{"program", cluster.Binary, false}, {"program for faults", cluster.FaultBinary, true}} {
		path, err := p.build()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(data, []byte("OSQUEUE_FAULT_CLOCK")); got != p.want {
			t.Errorf("the %s knows the file of the fault clock: %v", p.name, got)
		}
		if bytes.Contains(data, []byte("google.golang.org/grpc/xds")) {
			t.Errorf("the %s contains gRPC's xds; build it with -tags disable_grpc_modules", p.name)
		}
	}
}
