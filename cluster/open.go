package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/cluster/plane"
	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
	"osqueue/internal/groupcommit"
)

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
		host:    cfg.host(),
		leave:   make(chan struct{}),
		gone:    make(chan struct{}),
		down:    make(chan struct{}),
		cut:     make(chan struct{}),
		fatal:   make(chan error, 1),
		mend:    make(chan struct{}, 1),
	}
	n.silence = &silence{floor: cfg.LeaseTimeout, ceiling: cfg.HeartbeatTimeout}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.peers = membership.NewPeers(cfg.Name, cfg.Peers, cfg.Client)
	n.unflushed = flush.NewUnflushedLog(cfg.UnflushedBytes)
	n.replica = newReplica(n.unflushed, n.die)
	n.sums = n.replica.sums
	n.peers.Admitted(func(name string) string { a, _ := n.admitted(name); return a.HTTP }, func() (all []PeerAddr) {
		for _, a := range n.admissions() {
			all = append(all, PeerAddr{Name: a.Name, HTTP: a.HTTP})
		}
		return all
	})
	n.progress, n.tokens = notify.NewJobHistory(), notify.NewTokens()
	n.ready, n.ends, n.events = notify.NewReady(), notify.NewEnded(), notify.NewHistory(cfg.EventsKept)
	n.read, n.term = n.replica.read, n.active
	n.replica.changed, n.replica.restored = n.changed, n.restored
	n.leader = n.newLeader()
	if err := n.start(); err != nil {
		return nil, explainFull(cfg.DataDir, err)
	}
	n.reads = groupcommit.New(groupcommit.Config[struct{}, struct{}]{Start: n.verifyLeader})
	n.wg.Go(func() {
		defer close(n.gone)
		n.leader.Run(n.ctx, n.raft.LeaderCh(), n.leave)
	})
	n.wg.Go(func() { n.members.Run(n.ctx) })
	n.wg.Go(func() { n.members.Meet(n.ctx) })
	n.wg.Go(func() { n.clocks.watch(n.ctx, n.leader.Behind) })
	watch := leaderWatch{n.silence, n.id, n.raft, n.settings, n.log}
	n.wg.Go(func() { watch.run(n.ctx) })
	n.wg.Go(n.sumStates)
	return n, nil
}

// start opens raft. If a write of the log hangs, it returns the error of raft's log and leaves
// that write behind: nothing ends it but the end of the process.
func (n *Node) start() error {
	opened := make(chan error, 1)
	go func() {
		err := n.openRaft()
		if err != nil {
			n.cancel()
			close(n.down)
			n.wg.Wait()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
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
	if fresh && !n.cfg.Memory {
		n.peers.Seed(n.ctx, membership.SeedOptions{Bucket: n.cfg.Bucket, Key: DocumentKey, Dir: n.cfg.DataDir, Log: n.log})
	}
	if err := n.openStores(); err != nil {
		return err
	}
	if n.net, err = n.listen(); err != nil {
		return errors.Join(err, n.raftLog.Close())
	}
	if n.replayed, err = n.raftLog.LastIndex(); err != nil {
		return errors.Join(fmt.Errorf("read the raft log: %w", err), n.net.Close(), n.raftLog.Close())
	}
	n.out = transport.NewOutbound(n.net, n.cut, n.raftLog.Await)
	in := transport.NewInbound(n.out, n.ctx.Done(), n.inboundConfig())
	n.raft, err = raft.NewRaft(raftConfig(n.id, &n.cfg), n.stateMachine(), n.raftLog, n.raftLog, n.snapshots, in)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.net.Close(), n.raftLog.Close())
	}
	n.settings = &raftSettings{raft: n.raft}
	n.members = n.newMembers()
	n.clocks = &clocks{
		self: n.id, own: n.cfg.Clock, raft: n.raft, members: n.members, peers: n.peers, log: n.log,
		told: make(map[raft.ServerID]membership.Identity), seen: make(map[raft.ServerID]clockReading), alarmed: make(map[raft.ServerID]bool),
	}
	n.raftLog.Serve(n.raft)
	in.Serve(n.raft)
	if n.port != nil {
		n.port.Allow(n.allowNode)
	}
	n.wg.Go(func() { in.Relay(n.members.MayVote) })
	bound := logBound{&n.cfg, n.log, n.raftLog, n.snapshots, n.raft, n.settings, n.await}
	n.wg.Go(func() { bound.run(n.ctx) })
	if n.kept != nil {
		n.wg.Go(n.mendSnapshots)
	}
	return nil
}

func raftConfig(id raft.ServerID, cfg *Config) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = id
	c.HeartbeatTimeout = cfg.HeartbeatTimeout
	c.ElectionTimeout = cfg.ElectionTimeout
	c.LeaderLeaseTimeout = cfg.LeaseTimeout
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.SnapshotInterval = cfg.SnapshotInterval
	c.TrailingLogs = cfg.TrailingLogs
	c.BatchApplyCh = true
	c.MaxAppendEntries = transport.AppendMaxEntries
	c.Logger = transport.NewLogger(cfg.Logger.Named("raft"))
	return c
}

func (n *Node) listen() (transport.Transport, error) {
	if g := n.cfg.testEnv; g != nil {
		return g.net, nil
	}
	port, err := plane.Listen(n.cfg.RaftAddr, n.cfg.Security, n.log.Named("node-port"))
	if err != nil {
		return nil, err
	}
	n.port = port
	return transport.New(port, n.cfg.RaftAdvertise, n.log.Named("raft-net")), nil
}

// stateMachine returns the state machine to which raft applies entries.
func (n *Node) stateMachine() raft.FSM {
	if g := n.cfg.testEnv; g != nil {
		return g.observe(n.replica, n.raftLog)
	}
	return n.replica
}

// testEnv replaces the disk and the network below a node's raft. With it, tests simulate
// whole nodes in one process, without disks or a network, and with a simulated clock
// (sim_*_test.go). The rest of the node is unchanged.
type testEnv struct {
	id        raft.ServerID // stored with the disk
	disk      raftlog.Disk
	snapshots raft.SnapshotStore
	net       transport.Transport
	observe   func(*replica, *raftlog.Log) raft.FSM // wraps the machine in an observer
}
