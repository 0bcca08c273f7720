package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/inbox"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/groupcommit"
)

// Node is a member of a cluster. Open starts it; its methods are safe for
// concurrent use.
type Node struct {
	cfg     Config
	log     hclog.Logger
	id      raft.ServerID
	raft    *raft.Raft
	net     transport
	out     *outbound
	stores  *stores
	replica *replica
	sums    *stateSums // the replica's
	ready   *readyHub
	ends    *endHub
	events  *History
	journal *flush.Journal
	inbox   *inbox.Box    // nil: there is none
	mend    chan struct{} // signals that a snapshot on the disk is damaged
	reads   *groupcommit.Batcher[struct{}, struct{}]
	started time.Time
	// replayed is the newest entry that the log had when the node started.
	replayed uint64

	clocks    clocks                            // of the other voters
	restoring sync.Mutex                        // held while raft gives all nodes a new state
	setBack   atomic.Pointer[setBackRequest]    // nil: nobody asks for it
	watch     election.Watch                    // of the document; the candidate's
	carried   atomic.Pointer[Carried]           // nil: nothing
	copied    atomic.Pointer[[sha256.Size]byte] // of the document that was kept as a copy last; nil: none

	announcer announcer // the candidate's

	kept  atomic.Pointer[fsm.LSN]    // up to where no leader needs the log for the bucket
	named atomic.Bool                // a peer's configuration has this server
	reign atomic.Pointer[reign]      // set while this node answers writes
	fence atomic.Pointer[fenceState] // what Status shows of the fence

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	leave  chan struct{} // closed by StepDown: no new reign
	gone   chan struct{} // closed when the leadership loop has ended
	left   sync.Once
	down   chan struct{} // closed when raft has ended
	ended  sync.Once
	cut    chan struct{} // closed by die: the other nodes hear nothing more from this one
	severs sync.Once
	fatal  chan error
}

// fenceState is one of the Fence constants with its reason.
type fenceState struct{ state, reason string }

// Open starts a node. It returns once raft runs; the cluster may still be
// forming. The configuration must be valid.
func Open(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 2 * time.Second}
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	n := &Node{
		cfg:     cfg,
		log:     cfg.Logger,
		started: time.Now(),
		leave:   make(chan struct{}),
		gone:    make(chan struct{}),
		down:    make(chan struct{}),
		cut:     make(chan struct{}),
		fatal:   make(chan error, 1),
		mend:    make(chan struct{}, 1),
	}
	n.clocks.seen, n.clocks.alarmed = make(map[raft.ServerID]clockReading), make(map[raft.ServerID]bool)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.journal = flush.NewJournal(cfg.JournalBytes)
	n.replica = newReplica(n.journal, n.die)
	n.sums = n.replica.sums
	n.ready = newReadyHub(n.replica)
	n.ends = newEndHub()
	n.events = NewHistory(cfg.EventsKept)
	n.openInbox()
	n.replica.changed, n.replica.restored = n.changed, n.restored
	n.fence.Store(&fenceState{state: FenceFollower})
	if err := n.openRaft(); err != nil {
		n.cancel()
		return nil, err
	}
	n.reads = groupcommit.New(groupcommit.Config[struct{}, struct{}]{Start: n.verifyLeader})
	n.wg.Go(n.lead)
	n.wg.Go(func() {
		n.form()
		n.watchMembership()
	})
	n.wg.Go(n.watchClocks)
	n.wg.Go(n.sumStates)
	return n, nil
}

// openRaft starts raft on the node's disk and network.
func (n *Node) openRaft() (err error) {
	if n.cfg.DataDir != "" {
		if err := os.MkdirAll(n.cfg.DataDir, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}
	if err := n.checkNotDiverged(); err != nil {
		return err
	}
	fresh := !n.cfg.HasRun()
	if n.id, err = loadServerID(&n.cfg); err != nil {
		return err
	}
	if fresh {
		n.seed()
	}
	dog := &watchdog{limit: n.cfg.LogStallLimit, bite: n.die, before: n.cfg.BeforeLogWrite}
	if n.stores, err = openStores(&n.cfg, dog, n.snapshotOptions()); err != nil {
		return err
	}
	var seen *witness
	if g := n.stores.guarded; g != nil && n.cfg.ground == nil {
		if seen, n.id, err = openWitness(&n.cfg, n.id, n.stores); err != nil {
			return errors.Join(err, n.stores.close())
		}
		g.witness = seen
	}
	if n.net, err = n.listen(); err != nil {
		return errors.Join(err, n.stores.close())
	}
	if n.replayed, err = n.stores.log.LastIndex(); err != nil {
		return errors.Join(fmt.Errorf("read the raft log: %w", err), n.net.Close(), n.stores.close())
	}
	n.out = newOutbound(n.net, n.cut)
	in := newInbound(n.out, n.ctx.Done())
	n.raft, err = raft.NewRaft(n.raftConfig(), n.stateMachine(), n.stores.log, n.stores.stable, indexedSnapshots{n.stores.snapshots}, in)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.net.Close(), n.stores.close())
	}
	in.serve(n.raft)
	n.wg.Go(func() { in.relay(n.mayVote) })
	n.wg.Go(func() { dog.run(n.down) })
	if seen != nil {
		n.wg.Go(func() { seen.run(n.down) })
	}
	n.wg.Go(n.boundLog)
	if s := n.stores.kept; s != nil {
		n.wg.Go(func() { s.Run(n.ctx) })
		n.wg.Go(n.mendSnapshots)
	}
	return nil
}

const (
	raftConnTimeout = 5 * time.Second
	raftConnPool    = 3
)

func (n *Node) listen() (transport, error) {
	if g := n.cfg.ground; g != nil {
		return g.net, nil
	}
	stream, err := listenStream(n.cfg.RaftAddr, n.cfg.raftAdvertise())
	if err != nil {
		return nil, err
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: stream,
		// More than one wedges replication after a failed append on a
		// follower; group commit makes up for it.
		MaxRPCsInFlight: 1,
		MaxPool:         raftConnPool,
		Timeout:         raftConnTimeout,
		Logger:          newRaftLogger(n.log.Named("raft-net")),
	}), nil
}

func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = n.id
	c.HeartbeatTimeout = n.cfg.HeartbeatTimeout
	c.ElectionTimeout = n.cfg.ElectionTimeout
	c.LeaderLeaseTimeout = n.cfg.LeaseTimeout
	c.SnapshotThreshold = n.cfg.SnapshotThreshold
	c.SnapshotInterval = n.cfg.SnapshotInterval
	c.TrailingLogs = n.cfg.TrailingLogs
	c.BatchApplyCh = true
	c.MaxAppendEntries = appendMaxEntries
	c.Logger = newRaftLogger(n.log.Named("raft"))
	return c
}

// changed looks at what an entry has brought. It runs on raft's goroutine,
// under the replica's lock.
func (n *Node) changed(m *fsm.Machine, idle bool) {
	n.ready.changed(m)
	n.ends.changed(m.Events())
	n.events.Applied(m)
	if r := n.reign.Load(); r != nil {
		r.changed(m, idle)
	}
}

// restored is changed for a state that came from elsewhere, all at once.
func (n *Node) restored(m *fsm.Machine) {
	n.ends.restored(m)
	n.events.Restored(m)
	if r := n.reign.Load(); r != nil {
		r.changed(m, false)
	}
}

// die reports the error for which the process must end; the first one counts. It
// cuts this node off from the others before anything else: a leader whose disk hangs
// would go on sending heartbeats, and nobody would elect another one, for as long as
// the process takes to end.
func (n *Node) die(err error) {
	n.sever()
	select {
	case n.fatal <- err:
		n.log.Error("this node must stop", "error", err)
	default:
	}
}

// sever cuts this node off from the others.
func (n *Node) sever() { n.severs.Do(func() { close(n.cut) }) }

// Fatal delivers the error for which the process must end, if any.
func (n *Node) Fatal() <-chan error { return n.fatal }

// Name is the node's name as given by the operator.
func (n *Node) Name() string { return n.cfg.Name }

// StepDown stops answering, brings the bucket up to date and hands leadership
// to another node, if this one has it. The node goes on as a follower; Close
// ends it. It takes at most until ctx ends.
func (n *Node) StepDown(ctx context.Context) {
	n.left.Do(func() { close(n.leave) })
	select {
	case <-n.gone:
	case <-ctx.Done():
		return
	}
	if n.raft.State() != raft.Leader {
		return
	}
	if err := n.waitFuture(ctx, n.raft.LeadershipTransfer()); err != nil {
		n.log.Info("leadership was not handed over; the others will elect", "reason", err)
	}
}

// closeLimit is how long raft may take to end before the other nodes hear nothing more
// from it.
const closeLimit = time.Second

// Close ends the node. Call StepDown before it for a graceful stop. It does not return
// while a write of the raft log hangs; the process has to exit then.
func (n *Node) Close() error {
	n.left.Do(func() { close(n.leave) })
	n.cancel()
	cut := time.AfterFunc(closeLimit, n.sever)
	n.restoring.Lock() // raft panics if it is shut down while this node restores its own state
	err := n.raft.Shutdown().Error()
	n.restoring.Unlock()
	cut.Stop()
	n.ended.Do(func() { close(n.down) })
	n.wg.Wait()
	n.reads.Close()
	n.net.CloseStreams()
	return errors.Join(err, n.net.Close(), n.stores.close())
}

// Job returns a job of the applied state, or nil.
func (n *Node) Job(id string) (j *fsm.Job) {
	n.replica.read(func(m *fsm.Machine) { j = m.Job(id) })
	return j
}

// View freezes the applied state.
func (n *Node) View() *fsm.View { return n.replica.freeze() }

// TypeStats returns the figures of one type.
func (n *Node) TypeStats(name string) (s fsm.TypeStats) {
	n.replica.read(func(m *fsm.Machine) { s = m.TypeStats(name) })
	return s
}

// AllTypeStats returns the figures of every type that has jobs.
func (n *Node) AllTypeStats() map[string]fsm.TypeStats {
	stats := make(map[string]fsm.TypeStats)
	n.replica.read(func(m *fsm.Machine) {
		m.Types(func(name string, s fsm.TypeStats) bool {
			stats[name] = s
			return true
		})
	})
	return stats
}
