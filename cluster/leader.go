package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/fsm"
	"osqueue/storage/document"
)

// newLeader returns the leader of this node. Raft and the members are set before the
// leader calls any of the effects.
func (n *Node) newLeader() *leader.Leader {
	do := leader.Effects{
		Unflushed:     n.unflushed,
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
	if n.cfg.WhileLeading != nil {
		do.Duty = func(ctx context.Context) { n.cfg.WhileLeading(ctx, n) }
	}
	return leader.New(n.cfg.Config, do)
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

// SetSettings replaces Config.Settings, which must not change afterwards. They are in force while this node is the active
// leader: at once, or from its next term on.
func (n *Node) SetSettings(ctx context.Context, s *fsm.Settings) error {
	return n.leader.SetSettings(ctx, s)
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

// restore gives every node the state v, if this node has been leader since the campaign
// began in that term. It encodes v while raft reads it, because a second copy of v may not
// fit into memory. It returns ErrNotLeader if leadership changed, and ErrClosed if the node
// is closing.
func (n *Node) restore(ctx context.Context, v *fsm.View, term uint64) error {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(v.Encode(w)) }() // writes to a pipe; raft gets the error of Encode
	defer func() { _ = r.Close() }()                  // closing a pipe cannot fail
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax,
		Index:   v.LSN().Index,
		Term:    term,
		Size:    v.EncodedSize(),
	}
	// Preparing the state takes time, and v lacks the writes that another leader has
	// answered since.
	if err := n.leads(term); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ErrNotLeader
	}
	timeout := restoreTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	n.restoring.Lock()
	defer n.restoring.Unlock()
	if n.ctx.Err() != nil {
		return ErrClosed
	}
	err := n.raft.Restore(meta, whileLeading{r, func() error { return n.leads(term) }}, timeout)
	if err != nil {
		if lost := n.leads(term); lost != nil { // raft does not wrap the reader's error
			return lost
		}
	}
	return err
}

// leads returns an error unless this node is raft's leader of a term.
func (n *Node) leads(term uint64) error {
	if n.raft.CurrentTerm() != term || n.raft.State() != raft.Leader {
		return fmt.Errorf("leadership changed before the state was restored: %w", ErrNotLeader)
	}
	return nil
}

// whileLeading reads the state that raft restores. Raft reads it in its main goroutine, and changes
// its term in no other one. So a request that raft takes up late, in a later term of this
// node, fails and changes nothing.
type whileLeading struct {
	io.Reader
	leads func() error
}

// Read implements io.Reader.
func (w whileLeading) Read(p []byte) (int, error) {
	if err := w.leads(); err != nil {
		return 0, err
	}
	return w.Reader.Read(p)
}

// restoreTimeout bounds how long raft may take to give all nodes a new state.
const restoreTimeout = 10 * time.Minute
