package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/cluster/plane"
	"osqueue/cluster/raftlog"
	"osqueue/cluster/snapshot"
	"osqueue/cluster/transport"
	"osqueue/fsm"
	"osqueue/internal/groupcommit"
	"osqueue/internal/host"
)

// Errors of a node; package leader describes them. If a call returns one of these, nothing was
// committed, except for ErrUnknown. Node.Leader returns the address of the active leader, if it is known.
var (
	ErrNotLeader  = leader.ErrNotLeader
	ErrOverloaded = leader.ErrOverloaded
	ErrTooLarge   = leader.ErrTooLarge
	ErrLevel      = leader.ErrLevel
	ErrUnknown    = leader.ErrUnknown
	ErrFlushLag   = leader.ErrFlushLag
	ErrArchive    = leader.ErrArchive
	// ErrClosed means that the node is shutting down.
	ErrClosed = errors.New("the node is shutting down")
)

// Node is a member of a cluster. Open starts it. Its methods are safe for concurrent use.
type Node struct {
	State
	Claims

	cfg       Config
	log       hclog.Logger
	id        raft.ServerID
	peers     *membership.Peers
	members   *membership.Members // set before raft receives requests
	raft      *raft.Raft
	port      *plane.Port // nil in simulations
	net       transport.Transport
	out       *transport.Outbound
	raftLog   *raftlog.Log
	snapshots raft.SnapshotStore
	kept      *snapshot.Store // below snapshots; nil without a disk
	leader    *leader.Leader
	sums      *stateSums // the replica's
	ends      *notify.Ended
	unflushed *flush.UnflushedLog
	mend      chan struct{} // signals that a snapshot on the disk is damaged
	reads     *groupcommit.Batcher[struct{}, struct{}]
	started   time.Time
	host      string // of this node's loopback addresses: document.Member.Host
	// replayed is the index of the newest entry that the log had when the node started.
	replayed uint64

	clocks   *clocks       // of the voters
	settings *raftSettings // of raft
	// transferring is when raft began to refuse entries because of a transfer of leadership, as
	// the time since started; 0: it does not.
	transferring atomic.Int64
	restoring    sync.Mutex // held while raft gives all nodes a new state

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	leave   chan struct{} // closed by StepDown and Close: no new leader term begins
	gone    chan struct{} // closed when lead has returned
	left    sync.Once
	down    chan struct{} // closed when raft has ended
	ended   sync.Once
	silence *silence      // of the leader
	cut     chan struct{} // closed by sever: this node sends nothing more to the others
	severs  sync.Once
	fatal   chan error
}

// PeerListener returns the listener for the calls of other nodes, which PeerHandler and the
// requests that they forward share. It ends with the node.
func (n *Node) PeerListener() net.Listener { return n.port.Peers() }

// inboundConfig bounds a snapshot of another node by the memory of this one, which the state
// must fit into.
func (n *Node) inboundConfig() transport.InboundConfig {
	warn := transport.NewLogger(n.log.Named("raft-net"))
	return transport.InboundConfig{
		SnapshotMax: host.Memory(),
		Log:         n.raftLog,
		Member:      func(id raft.ServerID) error { return n.members.MaySend(id) },
		Refused: func(err error) {
			warn.Warn("refused a request that does not come from a node of this cluster", "error", err)
		},
		Heard: func(term uint64) { n.silence.heard(term, time.Now()) },
	}
}

// changed wakes the waiters for the changes of the entry that m has applied. It runs on
// raft's goroutine, under the replica's lock.
func (n *Node) changed(m *fsm.Machine, idle bool) {
	n.ready.Applied(m)
	n.ends.Applied(m)
	n.events.Applied(m)
	n.progress.Applied(m)
	n.tokens.Applied(m)
	n.leader.Applied(m, idle)
}

// restored is like changed, for a state that replaces the old one as a whole.
func (n *Node) restored(m *fsm.Machine) {
	n.ends.Restored(m)
	n.events.Restored(m)
	n.progress.Restored(m)
	n.tokens.Restored(m)
	n.leader.Applied(m, false)
}

// die reports the error for which the process must end on Fatal; only the first error is
// reported. It cuts this node off from the others first: a leader whose disk hangs would
// continue to send heartbeats, and the others would elect no new leader until the process
// has ended.
func (n *Node) die(err error) {
	n.sever()
	err = explainFull(n.cfg.DataDir, err)
	select {
	case n.fatal <- err:
		n.log.Error("this node must stop", "error", err)
	default:
	}
}

// sever closes cut, after which this node sends nothing more to the others.
func (n *Node) sever() { n.severs.Do(func() { close(n.cut) }) }

func (n *Node) severed() bool {
	select {
	case <-n.cut:
		return true
	default:
		return false
	}
}

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
	if len(n.raft.GetConfiguration().Configuration().Servers) == 1 {
		return // nobody else can lead
	}
	if err := n.await(ctx, n.raft.LeadershipTransfer()); err != nil {
		n.log.Info("leadership was not transferred; the other nodes will elect a leader", "reason", err)
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
	if n.severed() {
		// The log may lack entries that raft has in memory, and cancel lets raft continue.
		_ = n.net.Close() // never fails; closeRaft closes it, too
	}
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
	return errors.Join(err, n.net.Close(), n.raftLog.Close())
}

// explainFull adds to the error of a full disk which disk it is and what to do.
func explainFull(dir string, err error) error {
	var known *fullError
	if !errors.Is(err, syscall.ENOSPC) || errors.As(err, &known) {
		return err
	}
	return &fullError{dir: dir, err: err}
}

// fullError is the error of a node whose disk has no room.
type fullError struct {
	dir string
	err error
}

// Error says which disk is full.
func (e *fullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: make room on it and start the node again: %v", e.dir, e.err)
}

// Unwrap returns the error of the write.
func (e *fullError) Unwrap() error { return e.err }
