package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// TestSoak runs a cluster under load and lets one fault follow another, in an
// order that its seed decides. Without OSQUEUE_SOAK, the time it may take, it
// is one short round; with it, rounds on fresh clusters follow each other.
// OSQUEUE_SEED repeats a round's order of faults.
func TestSoak(t *testing.T) { //nolint:tparallel // rounds follow each other
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("OSQUEUE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("OSQUEUE_SEED: %v", err)
		}
	}
	until, faults := time.Now(), 4
	if s := os.Getenv("OSQUEUE_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("OSQUEUE_SOAK: %v", err)
		}
		until, faults = until.Add(d), 15
	}
	for round := uint64(0); round == 0 || time.Now().Before(until); round++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed+round), func(t *testing.T) { soak(t, seed+round, faults) })
		if !ok {
			return
		}
	}
}

// misfortune is a cluster under load and the dice that decide what befalls it.
type misfortune struct {
	t    *testing.T
	dice *rand.Rand
	c    *cluster.Cluster
	s3   *cluster.S3
	load *load
}

func soak(t *testing.T, seed uint64, faults int) {
	c, s3 := startOnS3(t)
	m := &misfortune{t: t, dice: rand.New(rand.NewPCG(seed, 0)), c: c, s3: s3, load: startLoad(t, c)}
	kinds := []struct {
		name string
		hit  func()
	}{
		{"kill the leader", func() { m.restart(c.WaitLeader(), (*cluster.Node).Kill) }},
		{"kill a follower", func() { m.restart(c.Follower(), (*cluster.Node).Kill) }},
		{"kill all", m.killAll},
		{"stop a node gracefully", func() { m.restart(m.anyNode(), m.stop) }},
		{"pause the leader", func() { m.pause(c.WaitLeader()) }},
		{"pause a follower", func() { m.pause(c.Follower()) }},
		{"bucket down", m.bucketDown},
		{"lose answers", func() { s3.LoseAnswers(1 + m.dice.IntN(5)) }},
	}
	for range faults {
		kind := kinds[m.dice.IntN(len(kinds))]
		t.Log(kind.name)
		kind.hit()
		c.WaitLeader()
		m.load.waitSent(20)
	}
	m.load.finish()
	checkDocuments(t, c, s3)
}

func (m *misfortune) anyNode() *cluster.Node { return m.c.Nodes[m.dice.IntN(len(m.c.Nodes))] }

// restart ends a node, and starts it again some time later.
func (m *misfortune) restart(n *cluster.Node, end func(*cluster.Node)) {
	end(n)
	m.while(2 * time.Second)
	n.Start()
	m.serves(n)
}

func (m *misfortune) stop(n *cluster.Node) {
	if err := n.Stop(); err != nil {
		m.t.Fatalf("%s did not stop gracefully: %v", n.Name, err)
	}
}

func (m *misfortune) killAll() {
	for _, n := range m.c.Nodes {
		n.Kill()
	}
	for _, n := range m.c.Nodes {
		n.Start()
	}
	for _, n := range m.c.Nodes {
		m.serves(n)
	}
}

func (m *misfortune) pause(n *cluster.Node) {
	n.Pause()
	m.while(4 * time.Second)
	n.Continue()
	m.serves(n)
}

func (m *misfortune) bucketDown() {
	m.s3.SetDown(true)
	m.while(3 * time.Second)
	m.s3.SetDown(false)
}

// while lets a fault last for a random time.
func (m *misfortune) while(longest time.Duration) {
	time.Sleep(time.Duration(m.dice.Int64N(int64(longest))))
}

func (m *misfortune) serves(n *cluster.Node) {
	m.t.Helper()
	m.c.Eventually(cluster.LeaderTimeout, n.Name+" to serve", func() error {
		_, err := n.Status()
		return err
	})
}
