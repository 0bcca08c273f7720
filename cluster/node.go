package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/inbox"
	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/cluster/plane"
	"osqueue/cluster/transport"
	"osqueue/fsm"
	"osqueue/internal/groupcommit"
	"osqueue/internal/machine"
)

// Node is a member of a cluster. Open starts it. Its methods are safe for concurrent use.
type Node struct {
	cfg       Config
	log       hclog.Logger
	id        raft.ServerID
	peers     *membership.Peers
	members   *membership.Members // set before raft receives requests
	raft      *raft.Raft
	port      *plane.Port // nil in simulations
	net       transport.Transport
	out       *transport.Outbound
	stores    *stores
	replica   *replica
	leader    *leader.Leader
	sums      *stateSums // the replica's
	ready     *notify.Ready
	ends      *notify.Ended
	events    *notify.History
	unflushed *flush.UnflushedLog
	inbox     *inbox.Box    // nil: there is none
	mend      chan struct{} // signals that a snapshot on the disk is damaged
	reads     *groupcommit.Batcher[struct{}, struct{}]
	started   time.Time
	// replayed is the index of the newest entry that the log had when the node started.
	replayed uint64

	clocks    clocks                          // of the other voters
	restoring sync.Mutex                      // held while raft gives all nodes a new state
	setClock  atomic.Pointer[setClockRequest] // request to set the time back; nil: none

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	leave  chan struct{} // closed by StepDown and Close: no new leader term begins
	gone   chan struct{} // closed when lead has returned
	left   sync.Once
	down   chan struct{} // closed when raft has ended
	ended  sync.Once
	cut    chan struct{} // closed by sever: this node sends nothing more to the others
	severs sync.Once
	fatal  chan error
}

// Open starts a node. It returns once raft runs; the cluster may still be forming then.
// It returns an error if the configuration is invalid (Config.Validate), or if the data
// directory, the log or the raft address cannot be used.
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
	n.peers = newPeers(&cfg)
	n.unflushed = flush.NewUnflushedLog(cfg.UnflushedBytes)
	n.replica = newReplica(n.unflushed, n.die)
	n.sums = n.replica.sums
	n.peers.Joined(n.joinedHTTP)
	n.ready, n.ends, n.events = notify.NewReady(), notify.NewEnded(), notify.NewHistory(cfg.EventsKept)
	n.openInbox()
	n.replica.changed, n.replica.restored = n.changed, n.restored
	n.leader = n.newLeader()
	if err := n.start(); err != nil {
		return nil, err
	}
	n.reads = groupcommit.New(groupcommit.Config[struct{}, struct{}]{Start: n.verifyLeader})
	n.wg.Go(func() {
		defer close(n.gone)
		n.leader.Run(n.ctx, n.raft.LeaderCh(), n.leave)
	})
	n.wg.Go(func() { n.members.Run(n.ctx) })
	n.wg.Go(n.watchClocks)
	n.wg.Go(n.sumStates)
	return n, nil
}

// start opens raft. If a write of the log hangs, it returns the watchdog's error and leaves
// that write behind: nothing ends it but the end of the process.
func (n *Node) start() error {
	dog := &watchdog{limit: n.cfg.LogStallLimit, fatal: n.die, before: n.cfg.BeforeLogWrite}
	n.wg.Go(func() { dog.run(n.down) })
	opened := make(chan error, 1)
	go func() { opened <- n.openRaft(dog) }()
	select {
	case err := <-opened:
		if err != nil {
			n.cancel()
			close(n.down)
			n.wg.Wait()
		}
		return err
	case err := <-n.fatal:
		n.cancel()
		go func() { // the disk may answer after all
			if <-opened == nil {
				_ = n.closeRaft()
			}
		}()
		return fmt.Errorf("start raft: %w", err)
	}
}

// openRaft opens the stores and the transport, starts raft, and starts the goroutines
// that watch over them.
func (n *Node) openRaft(dog *watchdog) (err error) {
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
	if fresh && n.cfg.RaftLog != RaftLogMemory {
		n.peers.Seed(n.ctx, membership.SeedOptions{Bucket: n.cfg.Bucket, Dir: n.cfg.DataDir, Log: n.log})
	}
	if n.stores, err = openStores(&n.cfg, dog, n.snapshotOptions()); err != nil {
		return err
	}
	var seen *witness
	if g := n.stores.guarded; g != nil {
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
	n.out = transport.NewOutbound(n.net, n.cut)
	in := transport.NewInbound(n.out, n.ctx.Done(), n.inboundConfig())
	logs, snapshots := withBase(n.stores.log, indexedSnapshots{n.stores.snapshots})
	n.raft, err = raft.NewRaft(n.raftConfig(), n.stateMachine(), logs, n.stores.stable, snapshots, in)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.net.Close(), n.stores.close())
	}
	n.members = n.newMembers()
	in.Serve(n.raft)
	if n.port != nil {
		n.port.Allow(n.allowNode)
	}
	n.wg.Go(func() { in.Relay(n.members.MayVote) })
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

func (n *Node) listen() (transport.Transport, error) {
	if g := n.cfg.ground; g != nil {
		return g.net, nil
	}
	port, err := plane.Listen(n.cfg.RaftAddr, n.cfg.Security, n.log.Named("node-port"))
	if err != nil {
		return nil, err
	}
	n.port = port
	return transport.New(port, n.cfg.RaftAdvertise, n.log.Named("raft-net")), nil
}

// PeerListener returns the listener for the calls of other nodes, which PeerHandler and the
// requests that they forward share. It ends with the node.
func (n *Node) PeerListener() net.Listener { return n.port.Peers() }

// inboundConfig bounds a snapshot of another node by the memory of this one, which the state
// must fit into.
func (n *Node) inboundConfig() transport.InboundConfig {
	log := transport.NewLogger(n.log.Named("raft-net"))
	return transport.InboundConfig{
		SnapshotMax: machine.Memory(),
		Refused:     func(err error) { log.Warn("refused a request that no node of this cluster sends", "error", err) },
	}
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
	c.MaxAppendEntries = transport.AppendMaxEntries
	c.Logger = transport.NewLogger(n.log.Named("raft"))
	return c
}

// changed wakes the waiters for the changes of the entry that m has applied. It runs on
// raft's goroutine, under the replica's lock.
func (n *Node) changed(m *fsm.Machine, idle bool) {
	n.ready.Applied(m)
	n.ends.Applied(m)
	n.events.Applied(m)
	n.leader.Applied(m, idle)
}

// restored is like changed, for a state that replaces the old one as a whole.
func (n *Node) restored(m *fsm.Machine) {
	n.ends.Restored(m)
	n.events.Restored(m)
	n.leader.Applied(m, false)
}

// die reports the error for which the process must end on Fatal; only the first error is
// reported. It cuts this node off from the others first: a leader whose disk hangs would
// continue to send heartbeats, and the others would elect no new leader until the process
// has ended.
func (n *Node) die(err error) {
	n.sever()
	select {
	case n.fatal <- err:
		n.log.Error("this node must stop", "error", err)
	default:
	}
}

// sever closes cut, after which this node sends nothing more to the others.
func (n *Node) sever() { n.severs.Do(func() { close(n.cut) }) }

// Fatal returns the channel on which the node sends at most one error. When it does, the
// process must end.
func (n *Node) Fatal() <-chan error { return n.fatal }

// Name returns the node's name, as the operator gave it.
func (n *Node) Name() string { return n.cfg.Name }

// StepDown ends the leader term, which flushes the state to the bucket, and hands
// leadership to another node, if this node has it. The node remains a follower until
// Close. StepDown returns when ctx ends at the latest.
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
	if err := n.await(ctx, n.raft.LeadershipTransfer()); err != nil {
		n.log.Info("leadership was not handed over; the others will elect", "reason", err)
	}
}

// await waits for a future of raft, until ctx or raft ends.
func (n *Node) await(ctx context.Context, f raft.Future) error {
	return transport.Await(ctx, f, n.down)
}

// closeLimit is how long raft may take to end before the node is cut off from the others.
const closeLimit = time.Second

// Close ends the node. Call StepDown before it for a graceful stop. Close does not return
// while a write of the raft log hangs; the process has to exit then.
func (n *Node) Close() error {
	n.left.Do(func() { close(n.leave) })
	n.cancel()
	err := n.closeRaft()
	n.reads.Close()
	return err
}

// closeRaft undoes openRaft, and ends all goroutines of the node.
func (n *Node) closeRaft() error {
	cut := time.AfterFunc(closeLimit, n.sever)
	n.restoring.Lock() // raft panics if it is shut down while this node restores its own state
	err := n.raft.Shutdown().Error()
	n.restoring.Unlock()
	cut.Stop()
	n.ended.Do(func() { close(n.down) })
	n.wg.Wait()
	n.net.CloseStreams()
	return errors.Join(err, n.net.Close(), n.stores.close())
}

// Job returns a job of the applied state, or nil. The job must not be changed.
func (n *Node) Job(id string) (j *fsm.Job) {
	n.replica.read(func(m *fsm.Machine) { j = m.Job(id) })
	return j
}

// Token returns a token of the applied state, or nil. It must not be changed.
func (n *Node) Token(id string) (t *fsm.Token) {
	n.replica.read(func(m *fsm.Machine) { t = m.Token(id) })
	return t
}

// View returns a frozen view of the applied state.
func (n *Node) View() *fsm.View { return n.replica.freeze() }

// TypeStats returns the statistics of one job type.
func (n *Node) TypeStats(name string) (s fsm.TypeStats) {
	n.replica.read(func(m *fsm.Machine) { s = m.TypeStats(name) })
	return s
}

// ClaimsWaiting returns the number of claims that wait for a job on this node.
func (n *Node) ClaimsWaiting() int { return n.ready.Sleeping() }

// AllTypeStats returns the statistics of every type that has jobs.
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
