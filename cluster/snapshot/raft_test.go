package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
)

// chain is a machine whose state shows whether two nodes have applied the same entries.
type chain struct {
	mu    sync.Mutex
	count uint64
	sum   [sha256.Size]byte
}

func (c *chain) Apply(l *raft.Log) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.sum = sha256.Sum256(append(c.sum[:], l.Data...))
	return nil
}

func (c *chain) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d entries, %x", c.count, c.sum[:8])
}

const (
	chainPadding = 20_000
	// electionTimeout is long, so that no leader loses its leadership on a busy machine.
	electionTimeout = 3 * time.Second
)

func (c *chain) Snapshot() (raft.FSMSnapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data := append(binary.BigEndian.AppendUint64(nil, c.count), c.sum[:]...)
	return frozenChain(append(data, make([]byte, chainPadding)...)), nil
}

func (c *chain) Restore(rc io.ReadCloser) error {
	data, err := io.ReadAll(rc)
	if err != nil {
		return err
	}
	if len(data) != 8+sha256.Size+chainPadding {
		return errors.New("bad length")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count = binary.BigEndian.Uint64(data)
	copy(c.sum[:], data[8:])
	return nil
}

type frozenChain []byte

func (f frozenChain) Persist(sink raft.SnapshotSink) error {
	_, err := sink.Write(f)
	return errors.Join(err, sink.Close())
}

func (frozenChain) Release() {}

// wire is a transport that counts the sent snapshots, by the node that gets them: a voter that is slow
// for a moment may need one, too.
type wire struct {
	*raft.InmemTransport
	mu   sync.Mutex
	sent map[raft.ServerID]int
}

func (w *wire) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	w.mu.Lock()
	w.sent[id]++
	w.mu.Unlock()
	return w.InmemTransport.InstallSnapshot(id, to, args, resp, data)
}

// sentTo returns how many snapshots a node was sent.
func (w *wire) sentTo(p *peer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[p.id]
}

// peer is a raft node on a data directory.
type peer struct {
	*raft.Raft
	id    raft.ServerID
	dir   string
	store *Store
	chain *chain
	wire  *wire
	logs  *raftlog.Log
	once  sync.Once
}

func openLog(t *testing.T, dir string) *raftlog.Log {
	t.Helper()
	logs, err := raftlog.OpenDir(dir, raftlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return logs
}

// group is a cluster in this process.
type group struct {
	t        *testing.T
	trailing uint64
	timeout  time.Duration // election timeout of peers that start
	peers    []*peer
}

func newGroup(t *testing.T, trailing uint64) *group {
	return &group{t: t, trailing: trailing, timeout: electionTimeout}
}

// start calls Prepare and starts raft on a directory.
func (g *group) start(id raft.ServerID, dir string) *peer {
	g.t.Helper()
	p := &peer{id: id, dir: dir, chain: &chain{}, logs: openLog(g.t, dir)}
	p.store = newStore(g.t, dir)
	if err := p.store.Prepare(p.logs); err != nil {
		g.t.Fatal(err)
	}
	_, inner := raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), 10*time.Second) // a request that is repeated may hit a known defect of raft
	p.wire = &wire{InmemTransport: inner, sent: make(map[raft.ServerID]int)}
	c := raft.DefaultConfig()
	c.LocalID = id
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = g.timeout, g.timeout, g.timeout/2
	c.SnapshotInterval = time.Hour
	c.TrailingLogs = g.trailing
	c.Logger = hclog.New(&hclog.LoggerOptions{Name: string(id), Level: hclog.Error, Output: testWriter{g.t}})
	var err error
	if p.Raft, err = raft.NewRaft(c, p.chain, p.logs, p.logs, p.store, p.wire); err != nil {
		g.t.Fatal(err)
	}
	p.wire.Connect(p.wire.LocalAddr(), inner) // for hurry
	for _, other := range g.peers {
		p.wire.Connect(other.wire.LocalAddr(), other.wire.InmemTransport)
		other.wire.Connect(p.wire.LocalAddr(), p.wire.InmemTransport)
	}
	g.peers = append(g.peers, p)
	g.t.Cleanup(func() { g.stop(p) })
	return p
}

func (g *group) stop(p *peer) {
	p.once.Do(func() {
		if err := p.Shutdown().Error(); err != nil {
			g.t.Error(err)
		}
		for _, other := range g.peers {
			other.wire.Disconnect(p.wire.LocalAddr())
		}
		_ = p.wire.Close()
		_ = p.logs.Close()
	})
}

// bootstrap starts three nodes and waits for a leader.
func (g *group) bootstrap() (leader *peer) {
	g.t.Helper()
	var c raft.Configuration
	for i := range 3 {
		id := raft.ServerID(fmt.Sprintf("n%d", i+1))
		c.Servers = append(c.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
		g.start(id, g.t.TempDir())
	}
	for _, p := range g.peers {
		if err := p.BootstrapCluster(c).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			g.t.Fatal(err)
		}
	}
	return g.leader()
}

func (g *group) leader() (leader *peer) {
	g.t.Helper()
	g.hurry()
	g.eventually("a leader", func() bool {
		for _, p := range g.peers {
			if p.State() == raft.Leader && p.VerifyLeader().Error() == nil {
				leader = p
				return true
			}
		}
		return false
	})
	return leader
}

// hurry makes the follower with the longest log start an election at once, if there is no
// leader.
func (g *group) hurry() {
	g.t.Helper()
	var next *peer
	for _, p := range g.peers {
		switch p.State() {
		case raft.Leader:
			return
		case raft.Follower:
			if next == nil || p.LastIndex() > next.LastIndex() {
				next = p
			}
		}
	}
	if next == nil {
		return
	}
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	if err := next.wire.TimeoutNow(next.id, next.wire.LocalAddr(), request, &raft.TimeoutNowResponse{}); err != nil {
		g.t.Fatal(err)
	}
}

// apply commits n entries.
func (g *group) apply(leader *peer, n int) {
	g.t.Helper()
	for i := range n {
		if err := leader.Apply(fmt.Appendf(nil, "entry %d of %s", i, leader.id), 5*time.Second).Error(); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *group) snapshot(p *peer) {
	g.t.Helper()
	if err := p.Snapshot().Error(); err != nil {
		g.t.Fatal(err)
	}
}

// same waits until both nodes have applied the same entries.
func (g *group) same(a, b *peer) {
	g.t.Helper()
	g.eventually(fmt.Sprintf("%s to be where %s is", b.id, a.id), func() bool { return a.chain.state() == b.chain.state() })
}

func (g *group) eventually(what string, cond func() bool) {
	g.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
		if time.Now().After(end) {
			var states []string
			for _, p := range g.peers {
				states = append(states, fmt.Sprintf("%s %s: %s", p.id, p.State(), p.chain.state()))
			}
			g.t.Fatalf("waited in vain for %s; the nodes are %v", what, states)
		}
	}
}

func (g *group) addNonvoter(leader, p *peer) {
	g.t.Helper()
	if err := leader.AddNonvoter(p.id, p.wire.LocalAddr(), 0, 10*time.Second).Error(); err != nil {
		g.t.Fatal(err)
	}
}

// seed copies the newest snapshot of a node to the directory of another one.
func (g *group) seed(from *peer, dir string) *raft.SnapshotMeta {
	g.t.Helper()
	m, data, err := read(from.store, ids(g.t, from.store)[0])
	if err != nil {
		g.t.Fatal(err)
	}
	to, err := newStore(g.t, dir).Create(m.Version, m.Index, m.Term, m.Configuration, m.ConfigurationIndex, addresses{})
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := to.Write(data); err != nil {
		g.t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		g.t.Fatal(err)
	}
	m.ID = to.ID()
	return m
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil { // a log line after the end of the test would panic
		w.t.Logf("%s", p)
	}
	return len(p), nil
}

// TestNewNodeThatComesTooLate has a snapshot after which the leader has no log any more.
func TestNewNodeThatComesTooLate(t *testing.T) {
	g := newGroup(t, 2)
	leader := g.bootstrap()
	g.apply(leader, 50)
	g.snapshot(leader)
	dir := t.TempDir()
	m := g.seed(leader, dir)
	g.apply(leader, 50)
	g.snapshot(leader)
	n4 := g.start("n4", dir)
	g.addNonvoter(leader, n4)
	g.same(leader, n4)
	if n := leader.wire.sentTo(n4); n != 1 {
		t.Errorf("the leader has sent %d snapshots", n)
	}
	metas := mustList(t, n4.store)
	if len(metas) != 2 || metas[0].Index <= m.Index || metas[1].ID != m.ID {
		t.Errorf("the new node has %v", ids(t, n4.store))
	}
	g.apply(leader, 5)
	g.same(leader, n4)
	g.stop(n4)
	g.same(leader, g.start("n4", dir))
}

// TestNewNodeWaitsForTheCluster starts from a snapshot without joining the cluster: the
// node must not try to elect itself.
func TestNewNodeWaitsForTheCluster(t *testing.T) {
	g := newGroup(t, 10_000)
	leader := g.bootstrap()
	g.apply(leader, 10)
	g.snapshot(leader)
	dir := t.TempDir()
	g.seed(leader, dir)
	g.timeout = 300 * time.Millisecond
	n4 := g.start("n4", dir)
	changes := make(chan raft.Observation, 16)
	n4.RegisterObserver(raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		_, is := o.Data.(raft.RaftState)
		return is
	}))
	select {
	case o := <-changes:
		t.Errorf("its state has changed to %v", o.Data)
	case <-time.After(5 * g.timeout):
	}
	if n4.CurrentTerm() != 0 {
		t.Errorf("it is in term %d", n4.CurrentTerm())
	}
}

// lostHistory returns a node with a snapshot of entries that only the survivor has not seen, and
// the cluster that was recovered from the survivor.
func lostHistory(t *testing.T) (g *group, survivor, leader *peer) {
	t.Helper()
	before := newGroup(t, 10_000)
	leader = before.bootstrap()
	before.apply(leader, 10)
	for _, p := range before.peers {
		if p != leader {
			survivor = p
		}
	}
	before.same(leader, survivor)
	before.stop(survivor)
	before.apply(leader, 10)
	before.snapshot(leader)
	for _, p := range before.peers {
		before.stop(p)
	}

	g = newGroup(t, 10_000)
	recoverAlone(t, survivor)
	g.start(survivor.id, survivor.dir)
	survivor = g.leader()
	g.apply(survivor, 40)
	return g, survivor, leader
}

// recoverAlone makes a stopped node the only one of its cluster.
func recoverAlone(t *testing.T, p *peer) {
	t.Helper()
	logs := openLog(t, p.dir)
	defer logs.Close()
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = p.id, hclog.NewNullLogger()
	_, trans := raft.NewInmemTransport("")
	alone := raft.Configuration{Servers: []raft.Server{{ID: p.id, Address: raft.ServerAddress(p.id)}}}
	if err := raft.RecoverCluster(c, &chain{}, logs, logs, newStore(t, p.dir), trans, alone); err != nil {
		t.Fatal(err)
	}
}

// TestLostHistoryIsReplaced seeds a node although no leader confirms it. The leader sends a
// snapshot of an older entry, and the node must continue from it, even after a
// restart.
func TestLostHistoryIsReplaced(t *testing.T) {
	g, survivor, leader := lostHistory(t)
	dir := t.TempDir()
	lost := g.seed(leader, dir)
	n4 := g.start("n4", dir)
	g.addNonvoter(survivor, n4)
	g.same(survivor, n4)
	metas := mustList(t, n4.store)
	if len(metas) != 1 || metas[0].Index >= lost.Index || len(dirNames(t, dir, asideDir)) != 1 {
		t.Errorf("the node has %v", ids(t, n4.store))
	}
	g.stop(n4)
	g.apply(survivor, 5)
	g.same(survivor, g.start("n4", dir))
}

// TestLeaderWithADamagedSnapshot checks that a leader that takes a new snapshot in place of a
// damaged one can send it to a new node.
func TestLeaderWithADamagedSnapshot(t *testing.T) {
	g := newGroup(t, 2)
	leader := g.bootstrap()
	damaged := make(chan error, 1)
	leader.store.damaged = func(err error) { damaged <- err }
	g.apply(leader, 50)
	g.snapshot(leader)
	newest := ids(t, leader.store)[0]
	leader.store.forget(newest) // as after a restart
	flip(t, leader.dir, localDir, newest, stateFile)
	n4 := g.start("n4", t.TempDir())
	g.addNonvoter(leader, n4)
	<-damaged
	g.apply(leader, 1)
	g.snapshot(leader)
	g.same(leader, n4)
}
