package nemesis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
	"osqueue/tests/workload"
)

// World is a cluster under load, and what can be done to it. One goroutine uses it.
type World struct {
	T       *testing.T
	Rand    *rand.Rand
	Cluster *cluster.Cluster
	Store   *store.Store
	Proxy   *store.Proxy // nil if nothing stands before the store
	Rec     *history.Recorder
	Load    *workload.Load
	Workers []*cluster.Worker

	has       Need
	round     Round
	stalePuts int    // that were known to come, and were refused
	next      string // the program of the next release
	spoiled   []spoiledObject
	copies    int // of edited documents that must be kept
	evidence  string
	file      *os.File                 // the history
	keys      *keys                    // of the nodes; nil: the store needs none
	mounts    map[*cluster.Node]*mount // of a bucket that is a directory
}

// Round describes a cluster and the faults to play on it.
type Round struct {
	Name  string
	Seed  uint64
	Nodes int // 0: three

	// Script are the names of faults, in their order; those with a + between them overlap. Empty: the
	// seed draws them.
	Script []string
	// Lasts is for how long faults are drawn.
	Lasts time.Duration
	// Pool are the names of the faults that are drawn from; empty: all.
	Pool []string
	// Overlap lets every other drawn fault begin before the last one is over.
	Overlap bool

	Loses     bool // faults are drawn that lose what is not in the bucket
	File      bool // the bucket is a directory
	Mixed     bool // some nodes run the next release
	Clock     bool // the nodes' clocks and disks can be broken
	SmallDisk bool // the nodes' disks are small file systems
	Workers   int  // worker processes beside the load
}

// lease is the lease that workers of the load ask for.
const lease = 3 * time.Second

// timing are flags of serve that make faults show within seconds.
func (w *World) timing() []string {
	return []string{"--broker-timeout", "4s", "--broker-heartbeat", "1s"}
}

// stallLimit is how long one write of a node's raft log may take.
const stallLimit = 3 * time.Second

// own are the flags of nodes of this release.
func (w *World) own() []string {
	return slices.Concat([]string{"--disk-stall-limit", stallLimit.String()}, soonTaken, archiveFlags)
}

// soonTaken lets a leader notice a standby soon, and lets one that it has not noticed take over
// within the patience of a round. The leader's node needs the flags.
var soonTaken = []string{"--standby-interval", "1s", "--max-flush-lag", "15s"}

// newWorld starts a cluster and its load.
func newWorld(t *testing.T, r Round) *World {
	t.Helper()
	w := &World{T: t, Rand: rand.New(rand.NewPCG(r.Seed, 0)), round: r, has: NeedLinks}
	w.Store = r.store(t)
	if w.Store.HasProxy() {
		w.Proxy, w.has = w.Store.Proxy(t), w.has|NeedProxy
	}
	opt := cluster.Options{
		Nodes: r.Nodes, Bucket: w.Store.URL(), Links: true, FaultClock: r.Clock,
		// The log stays whole, to be replayed, and the states that nodes write out
		// meanwhile are held against it.
		Flags: append(w.timing(), "--raft-snapshot-threshold", "200", "--raft-snapshot-interval", "2s",
			"--raft-trailing-logs", "1000000"),
	}
	if r.Clock {
		w.has |= NeedClock
	}
	if w.Store.Kind == store.File {
		w.has |= NeedFile
	}
	if w.Store.Kind == store.GoFakeS3 {
		w.keys, w.has = newKeys(t), w.has|NeedKeys
		opt.Env = w.keys.env()
	}
	w.Cluster = cluster.New(t, opt)
	if w.Store.Kind == store.File {
		w.mountAll()
	}
	if r.SmallDisk {
		w.smallDisks()
	}
	w.setReleases()
	for _, n := range w.Cluster.Nodes {
		n.Start()
	}
	w.Cluster.WaitLeader()
	w.record()
	w.startLoad()
	w.startWorkers(r.Workers)
	return w
}

// store starts the bucket of a round.
func (r *Round) store(t *testing.T) *store.Store {
	if r.File {
		return store.StartKind(t, store.File)
	}
	return store.Start(t)
}

// setReleases says which nodes run which release. Of a mixed cluster the first runs
// this one, the second the next one, and the rng decide for the others.
func (w *World) setReleases() {
	if !w.round.Mixed {
		for _, n := range w.Cluster.Nodes {
			n.Flags = append(w.own(), w.mountFlags(n)...)
		}
		return
	}
	var err error
	if w.next, err = cluster.NextBinary(); err != nil {
		w.T.Fatal(err)
	}
	w.has |= NeedMixed
	for i, n := range w.Cluster.Nodes {
		w.setRelease(n, i == 1 || i > 1 && w.Rand.IntN(2) == 0)
	}
}

// record begins the history, in a directory that outlives a failed test.
func (w *World) record() {
	dir, err := os.MkdirTemp("", "osqueue-nemesis-")
	if err != nil {
		w.T.Fatal(err)
	}
	w.evidence = dir
	w.T.Cleanup(w.keepEvidence)
	if w.file, err = os.Create(filepath.Join(dir, historyFile)); err != nil {
		w.T.Fatal(err)
	}
	w.Rec = history.NewRecorder(w.file, history.Run{
		Name: w.T.Name(), Seed: w.round.Seed, Nodes: len(w.Cluster.Nodes), Store: string(w.Store.Kind),
		Lease: history.Time(lease), Start: time.Now().UTC(),
	})
}

func (w *World) startLoad() {
	load, err := workload.Start(workload.Config{Lease: lease, Seed: w.round.Seed}, w.Cluster.Servers(), w.Rec)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Load = load
	w.T.Cleanup(load.Close)
}

// follower is a running node that does not lead, by the rng.
func (w *World) follower() *cluster.Node {
	leader := w.Cluster.WaitLeader()
	var all []*cluster.Node
	for _, n := range w.Cluster.Nodes {
		if n != leader && n.Running() {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		w.T.Fatal("no follower is running")
	}
	return all[w.Rand.IntN(len(all))]
}

func (w *World) sleep(d time.Duration) { time.Sleep(d) }

// while lets a fault last for a random time.
func (w *World) while(longest time.Duration) {
	if longest > 0 {
		w.sleep(longest/4 + time.Duration(w.Rand.Int64N(int64(longest))*3/4))
	}
}

// met reports whether a fault has been met. A node that backs off from a bucket that was away
// asks it seconds later, so it waits for that long.
func (w *World) met(hit func() bool) bool {
	for range 100 {
		if hit() {
			return true
		}
		w.sleep(100 * time.Millisecond)
	}
	return hit()
}

// serves waits until a node answers.
func (w *World) serves(n *cluster.Node) {
	w.T.Helper()
	w.Cluster.Eventually(cluster.LeaderTimeout, n.Name+" to serve", func() error {
		_, err := n.Status()
		return err
	})
}

// goesOn waits until the load has had n more answers.
func (w *World) goesOn(n int64) {
	w.T.Helper()
	goal := w.Load.Sent() + n
	w.Cluster.Eventually(cluster.LeaderTimeout, "the load to go on", func() error {
		if got := w.Load.Sent(); got < goal {
			return fmt.Errorf("%d of %d", got, goal)
		}
		return nil
	})
}
