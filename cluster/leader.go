package cluster

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/storage/document"
)

// newLeader returns the leader of this node. Raft and the members are set before the
// leader calls any of the effects.
func (n *Node) newLeader() *leader.Leader {
	c := &n.cfg
	cfg := leader.Config{
		Name: c.Name, HTTPAdvertise: c.HTTPAdvertise, Bucket: c.Bucket, Unflushed: n.unflushed,
		Clock: c.Clock, Log: n.log, Settings: c.Settings, FeatureLevel: c.FeatureLevel,
		Flush: c.Flush, FlushInterval: c.FlushInterval, MaxFlushLag: c.MaxFlushLag,
		CollectInterval: c.CollectInterval, ArchiveCheck: c.ArchiveCheck,
		ArchiveRead: c.ArchiveRead, StateCheck: c.StateCheck, BrokerTimeout: c.BrokerTimeout,
		StandbyRetry: c.StandbyRetry, StandbyInterval: c.StandbyInterval, RivalPolicy: c.RivalPolicy,
		MaxEntryBytes: c.MaxEntryBytes, MaxPendingItems: c.MaxPendingItems,
		MaxPendingBytes: c.MaxPendingBytes, MaxInFlight: c.MaxInFlight,
		ClockBound: clockBound,
	}
	do := leader.Effects{
		Term:          func() uint64 { return n.raft.CurrentTerm() },
		Leads:         func() bool { return n.raft.State() == raft.Leader },
		Barrier:       n.barrier,
		Verify:        func(ctx context.Context) error { return n.await(ctx, n.raft.VerifyLeader()) },
		Apply:         n.applyEntry,
		Restore:       n.restore,
		Read:          n.replica.read,
		Freeze:        n.replica.freeze,
		Idle:          n.replica.idle,
		Rescan:        func() { n.ready.Rescan(n.replica.read) },
		Waiting:       n.ready.Sleeping,
		TakeWaiting:   n.Claims.take,
		Voters:        n.otherVoters,
		AskBucket:     n.askBucket,
		HandOver:      n.handOver,
		ClusterID:     func() string { return n.members.ClusterID() },
		Members:       n.voters,
		Servers:       func() []raft.Server { return n.raft.GetConfiguration().Configuration().Servers },
		CommonLevel:   func(ctx context.Context) (uint32, error) { return n.members.CommonLevel(ctx) },
		StateOf:       n.stateOf,
		Wall:          func() time.Time { return n.clocks.wall() },
		ClocksAgree:   func() bool { return n.clocks.agree() },
		MeasureClocks: func(ctx context.Context) { n.clocks.measure(ctx) },
		SumsDue:       n.sums.due,
		SumsFinding:   n.sums.find,
		TakeForked:    n.sums.takeForked,
	}
	if c.WhileLeading != nil {
		do.Duty = func(ctx context.Context) { c.WhileLeading(ctx, n) }
	}
	return leader.New(cfg, do)
}

// voters returns the voters of raft's configuration with the addresses of their HTTP APIs.
func (n *Node) voters() []document.Member {
	var members []document.Member
	for _, srv := range n.raft.GetConfiguration().Configuration().Servers {
		if srv.Suffrage != raft.Voter {
			continue
		}
		name := membership.NodeName(srv.ID)
		m := document.Member{Name: name, Address: n.members.HTTPAddress(name)}
		if host, _, err := net.SplitHostPort(m.Address); err == nil && isLoopback(host) {
			m.Host = n.host
		}
		members = append(members, m)
	}
	return members
}

// stateOf asks a server for the newest checksum of its state.
func (n *Node) stateOf(ctx context.Context, id raft.ServerID) (lsn, sum string) {
	who, err := n.members.IdentityOf(ctx, string(id))
	if err != nil || who.State == nil {
		return "", ""
	}
	return who.State.LSN, who.State.Sum
}

// active returns the leader term that may answer writes and reads now, or nil. After this
// node was cut off from the others, there is none.
func (n *Node) active() *leader.Term {
	r := n.leader.Active()
	select {
	case <-n.cut:
		return nil
	default:
		return r
	}
}

// Refusal returns why this active leader takes no writes except reports now: an
// ErrFlushLag, or nil. Propose checks this itself. Refusal is for callers that would
// write only if there were something to write, such as claims.
func (n *Node) Refusal() error {
	if r := n.active(); r != nil {
		return r.Refusal()
	}
	return nil
}
