package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/membership"
	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/storage"
)

// simNode is a node of a simulation. Its name, its disk and its clock outlive the node's
// process.
type simNode struct {
	cluster *simCluster
	name    string
	clock   simClock
	forgets uint64 // entries that its disk loses at a crash

	upgraded bool // it no longer holds the feature level

	mu   sync.Mutex
	disk *simDisk
	life *simLife // nil: the node is down
}

// simLife is one process of a node.
type simLife struct {
	*Node
	place  *simNode
	disk   *simDisk
	end    *simEnd
	gate   *simGate
	doomed bool // it may end because of a fault; under place.mu

	held atomic.Pointer[chan struct{}] // nothing is applied until it is closed; nil: the node applies entries
}

// hold keeps the node from applying committed entries, as a long entry or a slow machine
// does, until the returned function is called.
func (l *simLife) hold() (release func()) {
	released := make(chan struct{})
	l.held.Store(&released)
	return func() { close(released) }
}

func (l *simLife) awaitRelease() {
	if held := l.held.Load(); held != nil {
		select {
		case <-*held:
		case <-l.end.dead:
		}
	}
}

// simClock is a wall clock that jumps and drifts.
type simClock struct {
	mu     sync.Mutex
	from   time.Time     // when it was set last
	offset time.Duration // offset at that time
	drift  float64       // seconds per second
	reads  int           // number of readings since it was set last
}

func (c *simClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return c.readLocked()
}

func (c *simClock) readLocked() time.Time {
	t := time.Now()
	d := c.offset
	if !c.from.IsZero() {
		d += time.Duration(c.drift * float64(t.Sub(c.from)))
	}
	return t.Round(0).Add(d)
}

// set sets the clock's offset and drift. It returns how often the clock was read since it
// was set last.
func (c *simClock) set(offset time.Duration, drift float64) (reads int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from, c.offset, c.drift = time.Now(), offset, drift
	reads, c.reads = c.reads, 0
	return reads
}

// simCluster is a set of nodes that form a cluster, and their network.
type simCluster struct {
	world  *simWorld
	name   string
	r      *rand.Rand
	net    *simNet
	bucket storage.Bucket // the bucket with faults
	nodes  []*simNode
	peers  []PeerAddr
	tune   func(*Config)

	holdsLevel bool // nodes hold the feature level down until they are upgraded

	ending sync.WaitGroup // processes that end
}

func newSimCluster(w *simWorld, name string, n int, bucket storage.Bucket) *simCluster {
	r := w.rand()
	c := &simCluster{world: w, name: name, r: r, net: newSimNet(w.rand()), bucket: bucket, tune: func(*Config) {}}
	for i := range n {
		name := fmt.Sprintf("%s%d", name, i+1)
		c.nodes = append(c.nodes, &simNode{cluster: c, name: name, disk: newSimDisk(name, r)})
		c.peers = append(c.peers, PeerAddr{Name: name, HTTP: simHTTPAddr(name)})
	}
	return c
}

// simConfig returns a configuration with which every mechanism runs within minutes.
func simConfig() Config {
	cfg := DefaultConfig()
	cfg.Memory = true // testEnv has the log; nothing else is on a disk
	cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 128, 5*time.Second, 64
	cfg.MaxFlushLag, cfg.CollectInterval = 20*time.Second, 5*time.Second
	cfg.UnflushedBytes = 64 << 10
	cfg.ArchiveCheck, cfg.ArchiveRead = 5*time.Second, time.Minute
	cfg.EventsKept = 64
	cfg.StateCheck = 2 * time.Second
	f := flush.DefaultConfig()
	f.Interval, f.Window = 100*time.Millisecond, 30*time.Second
	f.ViewMax, f.TailMax, f.TailMin = 24<<10, 4<<10, 512
	f.SegmentRaw, f.StepBytes, f.CompactAt, f.RefsMax, f.CheckpointMin = 8<<10, 32<<10, 4, 12, 16<<10
	cfg.Flush = f
	s := fsm.DefaultSettings()
	s.LeaseMs = simLease.Milliseconds()
	s.RetainCompletedMs, s.RetainCompletedCount = 5000, 8
	s.RequestMs, s.RequestCount = 5000, 20
	cfg.Settings = s
	return cfg
}

const simLease = 3 * time.Second

// start starts the node's process, if the node is down. Only one goroutine calls it.
func (n *simNode) start() {
	if err := n.tryStart(); err != nil {
		n.cluster.world.failf("%s does not start: %v", n.name, err)
	}
}

// tryStart returns the error of a node that refuses to start.
func (n *simNode) tryStart() error {
	if n.alive() != nil {
		return nil
	}
	c := n.cluster
	disk := n.mark(false)
	l := &simLife{place: n, disk: disk}
	l.end = c.net.plug(n.name, func(a *raft.AppendEntriesRequest) {
		for _, e := range a.Entries {
			l.mustHave(e, "confirmed")
		}
	})
	l.gate = newSimGate(c.bucket, l.end.dead, c.r)
	l.gate.repeat = func(put func(context.Context) storage.Write) { c.net.copyLatePut(n.name, put) }
	cfg := simConfig()
	cfg.Name, cfg.Peers = n.name, c.peers
	cfg.RaftAddr, cfg.HTTPAdvertise = simRaftAddr(n.name), simHTTPAddr(n.name)
	cfg.Bucket = l.gate
	cfg.Clock = n.clock.now
	cfg.Client = &http.Client{Timeout: 2 * time.Second, Transport: l.end}
	cfg.Logger = hclog.New(&hclog.LoggerOptions{
		Name: n.name, Level: hclog.Warn, Output: c.world.trace, DisableTime: true,
	})
	cfg.testEnv = &testEnv{id: disk.id, disk: disk, snapshots: simSnapshots{disk}, net: l.end, observe: func(r *replica, log *raftlog.Log) raft.FSM {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		disk.log = log
		return &simObserver{replica: r, life: l}
	}}
	if c.holdsLevel && !n.upgraded {
		cfg.FeatureLevel = fsm.BaseLevel
	}
	c.tune(&cfg)
	node, err := Open(cfg)
	if err != nil {
		l.end.kill()
		return err
	}
	l.Node = node
	n.mu.Lock()
	n.life = l
	n.mu.Unlock()
	l.end.serve(node.PeerHandler())
	c.ending.Go(func() { l.watch() })
	c.world.trace.printf("%s started", n.name)
	return nil
}

// mustHave checks that the disk has an entry that the node has applied or confirmed.
func (l *simLife) mustHave(e *raft.Log, did string) {
	w := l.place.cluster.world
	w.counts.One("check: " + did + " entry is on the disk")
	if !l.disk.has(e.Index, e.Term) {
		index, term := l.disk.newest()
		w.failf("%s has %s entry %d of term %d, and its disk ends with entry %d of term %d", l.place.name, did, e.Index, e.Term, index, term)
	}
}

// watch ends the process when the node reports a fatal error.
func (l *simLife) watch() {
	select {
	case err := <-l.Fatal():
		l.place.mu.Lock()
		doomed := l.doomed
		l.place.mu.Unlock()
		if !doomed {
			l.place.cluster.world.failf("%s had to end: %v", l.place.name, err)
		}
		l.place.crash()
	case <-l.end.dead:
	}
}

// crash ends the process at once. The disk keeps the writes that have returned.
func (n *simNode) crash() (was *simLife) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.life
	if l == nil {
		return nil
	}
	l.end.kill()
	n.disk = n.disk.image(n.forgets)
	n.life = nil
	n.cluster.world.trace.printf("%s crashed", n.name)
	n.cluster.ending.Go(func() { n.cluster.world.closeNode(l) })
	return l
}

// stop ends the process in order.
func (n *simNode) stop() {
	l := n.alive()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l.StepDown(ctx)
	if !n.leave(l) {
		return // it has crashed since
	}
	n.cluster.world.closeNode(l)
	l.end.kill()
	n.cluster.world.trace.printf("%s stopped", n.name)
}

func (n *simNode) leave(l *simLife) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != l {
		return false
	}
	n.life = nil
	return true
}

// wipe erases the disk of a node that is down.
func (n *simNode) wipe() { n.replace(newSimDisk(n.name, n.cluster.r)) }

// replace gives a node that is down another disk.
func (n *simNode) replace(d *simDisk) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk = d
}

// alive returns the node's process, or nil.
func (n *simNode) alive() *simLife {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (n *simNode) mark(doomed bool) (d *simDisk) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != nil {
		n.life.doomed = doomed
	}
	return n.disk
}

func (c *simCluster) startAll() {
	for _, n := range c.nodes {
		n.start()
	}
}

// end ends all processes and waits for them.
func (c *simCluster) end() {
	for _, n := range c.nodes {
		n.crash()
	}
	for kind, n := range c.net.endLate() {
		c.world.counts.Add("late: "+kind, n)
	}
	c.ending.Wait()
}

// lives returns the running processes.
func (c *simCluster) lives() (all []*simLife) {
	for _, n := range c.nodes {
		if l := n.alive(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// active returns the node that answers writes; if two nodes claim to, the one of the
// later term.
func (c *simCluster) active() (lead *simLife) {
	for _, l := range c.lives() {
		if _, self := l.Leader(); self && (lead == nil || l.raft.CurrentTerm() > lead.raft.CurrentTerm()) {
			lead = l
		}
	}
	return lead
}

// led returns that no node answers writes, or "".
func (c *simCluster) led() string {
	if c.active() == nil {
		return "no node of " + c.name + " leads"
	}
	return ""
}

// whole returns why the cluster is not in order, or "".
func (c *simCluster) whole() string {
	lead := c.active()
	if lead == nil {
		return c.led()
	}
	config := lead.raft.GetConfiguration().Configuration()
	if len(config.Servers) != len(c.nodes) {
		return fmt.Sprintf("%d servers are configured", len(config.Servers))
	}
	for _, n := range c.nodes {
		switch l := n.alive(); {
		case l == nil:
			return n.name + " is down"
		case !membership.Voter(config, l.id):
			return n.name + " has no vote"
		case l.raft.CurrentTerm() != lead.raft.CurrentTerm():
			return n.name + " is in another term"
		case l.raft.AppliedIndex()+64 < lead.raft.CommitIndex():
			return n.name + " lags"
		}
	}
	return ""
}

var errSimLate = errors.New("waited in vain")

// simAwait waits until cond returns "". Otherwise cond returns what is missing.
func simAwait(limit time.Duration, cond func() string) error {
	var missing string
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if missing = cond(); missing == "" {
			return nil
		}
	}
	return fmt.Errorf("%w %v: %s", errSimLate, limit, missing)
}

// simWhile returns a condition of simAwait: missing, as long as is.
func simWhile(missing string, is func() bool) func() string {
	return func() string {
		if is() {
			return missing
		}
		return ""
	}
}

// simObserver observes the entries that a node applies.
type simObserver struct {
	*replica
	life *simLife
}

// Apply implements raft.FSM.
func (o *simObserver) Apply(l *raft.Log) any {
	o.life.awaitRelease()
	a := o.replica.apply(l)
	o.applied(l, a)
	return a
}

// ApplyBatch implements raft.BatchingFSM.
func (o *simObserver) ApplyBatch(logs []*raft.Log) []any {
	o.life.awaitRelease()
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			a := o.replica.apply(l)
			o.applied(l, a)
			answers[i] = a
		}
	}
	return answers
}

func (o *simObserver) applied(l *raft.Log, a *applied) {
	w := o.life.place.cluster.world
	o.life.mustHave(l, "applied")
	if a.err != nil {
		w.failf("%s cannot apply an entry: %v", o.life.place.name, a.err)
		return
	}
	view := o.replica.freeze()
	o.replica.read(func(m *fsm.Machine) { w.applied(o.life.place, view, m.Events()) })
}

// Restore implements raft.FSM.
func (o *simObserver) Restore(rc io.ReadCloser) error {
	if err := o.replica.Restore(rc); err != nil {
		return err
	}
	o.life.place.cluster.world.restored(o.life, o.replica.freeze())
	return nil
}
