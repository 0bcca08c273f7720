package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

// TestSoak runs a cluster under load and lets one fault follow another, in an
// order that its seed decides. Without OSQUEUE_SOAK, the time it may take, it
// is one short round; with it, rounds on fresh clusters follow each other.
// OSQUEUE_SEED repeats a round's order of faults.
func TestSoak(t *testing.T) { //nolint:tparallel // rounds follow each other
	t.Parallel()
	seed := freshSeed(t)
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

// freshSeed is OSQUEUE_SEED, or another one each time.
func freshSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("OSQUEUE_SEED")
	if s == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("OSQUEUE_SEED: %v", err)
	}
	return seed
}

// misfortune is a cluster under load and the dice that decide what befalls it.
type misfortune struct {
	t    *testing.T
	dice *rand.Rand
	c    *cluster.Cluster
	p    *store.Proxy // nil if the store has none
	load *load
}

// kind is something that can befall a cluster.
type kind struct {
	name string
	hit  func()
}

func soak(t *testing.T, seed uint64, faults int) {
	dice := rand.New(rand.NewPCG(seed, 0))
	flags := [][]string{nil, {"--inline-max", smallInline}}[dice.IntN(2)]
	c, s := startOnStore(t, flags...)
	m := &misfortune{t: t, dice: dice, c: c, load: startLoad(t, c)}
	kinds := m.ofNodes()
	if s.HasProxy() {
		m.p = s.Proxy(t)
		kinds = append(kinds, m.ofStore()...)
	}
	for range faults {
		kind := kinds[m.dice.IntN(len(kinds))]
		t.Log(kind.name)
		kind.hit()
		c.WaitLeader()
		m.load.waitSent(20)
	}
	if m.p != nil {
		m.p.Behave()
	}
	m.load.finish()
	checkDocuments(t, c, s)
}

// ofNodes are the misfortunes of nodes.
func (m *misfortune) ofNodes() []kind {
	return []kind{
		{"kill the leader", func() { m.restart(m.c.WaitLeader(), (*cluster.Node).Kill) }},
		{"kill a follower", func() { m.restart(m.c.Follower(), (*cluster.Node).Kill) }},
		{"kill all", m.killAll},
		{"stop a node gracefully", func() { m.restart(m.anyNode(), m.stop) }},
		{"pause the leader", func() { m.pause(m.c.WaitLeader()) }},
		{"pause a follower", func() { m.pause(m.c.Follower()) }},
	}
}

// ofStore are the misfortunes of the store, and those of both.
func (m *misfortune) ofStore() []kind {
	p := m.p
	return []kind{
		{"the bucket answers 503", m.meanwhile(func() { p.SetDown(true) })},
		{"nobody listens at the bucket", m.meanwhile(func() { p.SetAway(store.Refuses) })},
		{"the bucket hangs", m.meanwhile(func() { p.SetAway(store.Hangs) })},
		{"the bucket is slow", m.meanwhile(func() { p.SetSlow(time.Duration(m.dice.Int64N(int64(time.Second)))) })},
		{"the bucket misbehaves", m.meanwhile(func() { p.Misbehave(m.dice.Uint64(), 0.3) })},
		{"lose answers", func() { p.LoseAnswers(1 + m.dice.IntN(5)) }},
		{"a write is late, and the leader is killed", m.lateWrite},
		{"the leader is killed while the bucket misbehaves", func() {
			p.Misbehave(m.dice.Uint64(), 0.3)
			m.restart(m.c.WaitLeader(), (*cluster.Node).Kill)
			p.Behave()
		}},
	}
}

// meanwhile lets the store have a fault for a while.
func (m *misfortune) meanwhile(begin func()) func() {
	return func() {
		begin()
		m.while(3 * time.Second)
		m.p.Behave()
	}
}

// lateWrite kills the leader with a write of the document under way, which comes in
// when another leads.
func (m *misfortune) lateWrite() {
	old, late := m.c.WaitLeader(), m.p.HoldNext()
	select {
	case <-late.Arrived():
	case <-m.c.Context(cluster.LeaderTimeout).Done():
		m.t.Fatal("no write of the document came in")
	}
	old.Kill()
	m.c.WaitOtherLeader(old)
	if !late.Release() {
		m.t.Error("the late write of the dead leader was accepted")
	}
	old.Start()
	m.serves(old)
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
	m.c.KillAll()
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
