package transport

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"osqueue/internal/limit"
)

// Inbound stands between the transport and raft. It decides which requests of other nodes
// reach raft, and in which goroutine.
//
// Requests for votes pass only if this node may vote (errNoVote), and no request passes that
// a correct node does not send (check.go), or that would take back what this node has
// confirmed (install.go).
//
// Relay has one request with raft at a time: it waits for raft's answer before it looks at the
// next request. So the position that a check compares a request with is the one at which raft
// handles it.
//
// Raft has a separate path for heartbeats: its transport hands them to raft in the
// goroutine of their connection, so that a slow disk does not delay them. There raft may
// change its term and step down while its main goroutine still acts as leader. This is a
// race: a leader was paused, and proposes an entry as it resumes, while the first
// heartbeat of its successor comes in. It stores that entry under the successor's term.
// Then two entries have the same index and term, raft takes them for the same entry, and
// the states differ (hashicorp/raft issue 695; the soak test of tests/nemesis found it
// with a paused leader).
//
// So raft never gets a heartbeat on that path. If a heartbeat changes nothing, because
// this node already follows its sender in its term, heartbeat answers it at once in the
// goroutine of the connection, and puts a copy into pulse; Relay passes the copy to
// raft's main goroutine, which learns from it that the leader is alive. heartbeat sends
// all others to beats; Relay passes them to raft's main goroutine, and the sender waits
// for its answer.
type Inbound struct {
	Transport
	raft   atomic.Pointer[Follower] // nil until Serve
	stop   <-chan struct{}
	refuse func(error)  // logs a refused request
	heard  func(uint64) // records a heartbeat
	most   int64        // size of the largest snapshot that is accepted, in bytes
	log    Position     // of this node; nil: positions are not compared
	member func(raft.ServerID) error
	passed chan raft.RPC // from Relay to raft's main goroutine
	beats  chan raft.RPC // heartbeats that raft has to answer
	pulse  chan raft.RPC // newest heartbeat that was answered for raft; capacity 1
}

// Follower has the methods of raft that inbound calls. *raft.Raft is one.
type Follower interface {
	State() raft.RaftState
	CurrentTerm() uint64
	LastIndex() uint64
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
	CommitIndex() uint64
	AppliedIndex() uint64
}

// InboundConfig configures an Inbound.
type InboundConfig struct {
	// SnapshotMax is the size of the largest snapshot that the node accepts, in bytes.
	// 0 is no bound.
	SnapshotMax int64
	// Log is the log of this node, with which requests are compared. If it is nil, they are not.
	Log Position
	// Member returns an error unless a server is a member of this node's cluster. It is called
	// from the goroutines of the connections after Serve. Nil means every server.
	Member func(raft.ServerID) error
	// Refused is called with the reason of every request that is refused. It may be nil.
	Refused func(error)
	// Heard is called with the term of every heartbeat. It may be nil.
	Heard func(term uint64)
}

// NewInbound returns a transport for raft that receives from t. It receives requests
// while Relay runs, until stop is closed.
func NewInbound(t Transport, stop <-chan struct{}, cfg InboundConfig) *Inbound {
	cfg = limit.Defaults(cfg, InboundConfig{
		SnapshotMax: math.MaxInt64, Refused: func(error) {}, Member: func(raft.ServerID) error { return nil }, Heard: func(uint64) {},
	})
	b := &Inbound{
		Transport: t, stop: stop, refuse: cfg.Refused, heard: cfg.Heard, most: cfg.SnapshotMax, log: cfg.Log, member: cfg.Member,
		passed: make(chan raft.RPC), beats: make(chan raft.RPC), pulse: make(chan raft.RPC, 1),
	}
	t.SetHeartbeatHandler(b.heartbeat)
	return b
}

// Consumer implements raft.Transport.
func (b *Inbound) Consumer() <-chan raft.RPC { return b.passed }

// SetHeartbeatHandler implements raft.Transport. It ignores raft's own handler.
func (b *Inbound) SetHeartbeatHandler(func(raft.RPC)) {}

// Serve sets the raft node for which heartbeats may be answered. Before the call, all
// heartbeats go to raft's main goroutine.
func (b *Inbound) Serve(f Follower) { b.raft.Store(&f) }

// Relay passes requests to raft's main goroutine, one at a time, until stop is closed. It
// refuses requests for votes while mayVote returns false.
func (b *Inbound) Relay(mayVote func() bool) {
	for {
		select {
		case rpc := <-b.Transport.Consumer():
			if asksForVote(rpc) && !mayVote() {
				rpc.Respond(nil, errNoVote)
				continue
			}
			b.relay(rpc)
		case rpc := <-b.beats:
			b.relay(rpc)
		case rpc := <-b.pulse:
			b.relay(rpc)
		case <-b.stop:
			return
		}
	}
}

// relay answers one request, or has raft answer it.
func (b *Inbound) relay(rpc raft.RPC) {
	if !b.sound(rpc) {
		return
	}
	f := b.raft.Load()
	if f == nil || b.log == nil {
		b.pass(rpc)
		return
	}
	switch r := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		b.append(rpc, *f, r)
	case *raft.InstallSnapshotRequest:
		b.install(rpc, *f, r)
	default:
		b.pass(rpc)
	}
}

// sound reports whether raft may see a request. If not, it has answered the request.
func (b *Inbound) sound(rpc raft.RPC) bool {
	f := b.raft.Load()
	if f == nil {
		return true
	}
	err := b.member(senderOf(rpc))
	if err == nil {
		err = checkRequest(rpc, *f, b.most)
	}
	if err != nil {
		b.reject(rpc, err)
		return false
	}
	return true
}

// senderOf returns the id in a request; "": it has none.
func senderOf(rpc raft.RPC) raft.ServerID {
	if r, ok := rpc.Command.(raft.WithRPCHeader); ok {
		return raft.ServerID(r.GetRPCHeader().ID)
	}
	return ""
}

// reject answers a request with an error.
func (b *Inbound) reject(rpc raft.RPC, err error) {
	b.refuse(err)
	rpc.Respond(nil, fmt.Errorf("this node refuses the request: %w", err))
}

// pass has raft answer a request.
func (b *Inbound) pass(rpc raft.RPC) {
	got := b.ask(rpc)
	rpc.Respond(got.Response, got.Error)
}

// ask passes a request to raft and returns raft's answer. Raft answers each request that it
// takes.
func (b *Inbound) ask(rpc raft.RPC) raft.RPCResponse {
	answer := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	select {
	case b.passed <- rpc:
	case <-b.stop:
		return raft.RPCResponse{Error: raft.ErrRaftShutdown}
	}
	select {
	case got := <-answer:
		return got
	case <-b.stop:
		return raft.RPCResponse{Error: raft.ErrRaftShutdown}
	}
}

// heartbeat handles one heartbeat, in the goroutine of its connection.
func (b *Inbound) heartbeat(rpc raft.RPC) {
	if !b.sound(rpc) {
		return
	}
	if beat, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
		b.heard(beat.Term)
	}
	answer, ok := b.answer(rpc)
	if !ok {
		select {
		case b.beats <- rpc:
		case <-b.stop:
			rpc.Respond(nil, raft.ErrRaftShutdown)
		}
		return
	}
	rpc.Respond(answer, nil)
	sign := raft.RPC{Command: rpc.Command, RespChan: make(chan raft.RPCResponse, 1)} // the answer to the copy is not read
	select {
	case b.pulse <- sign:
	default: // one is pending already
	}
}

// answer returns the answer that raft would give to a heartbeat that changes nothing. It
// returns false unless it is certain that the heartbeat changes nothing. It reads the
// term before the node answers: a vote for another leader raises the term first, so the
// receiver of the answer still was the leader when the answer was made. outbound ensures
// that the answer counts only for requests that were sent late enough.
func (b *Inbound) answer(rpc raft.RPC) (*raft.AppendEntriesResponse, bool) {
	beat, isBeat := rpc.Command.(*raft.AppendEntriesRequest)
	f := b.raft.Load()
	if !isBeat || f == nil {
		return nil, false
	}
	r := *f
	_, leader := r.LeaderWithID()
	if r.State() != raft.Follower || leader != raft.ServerID(beat.ID) || r.CurrentTerm() != beat.Term {
		return nil, false
	}
	return &raft.AppendEntriesResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: beat.ProtocolVersion},
		Term:      beat.Term,
		LastLog:   r.LastIndex(),
		Success:   true,
	}, true
}

// A candidate asks for votes by address. Raft's handler does not know which server the
// candidate meant and, while its own configuration is empty, whether this node is a
// member at all. So a node that lost its disk would vote in the place of its predecessor,
// for a log without the entries that the predecessor had helped to commit. Such a node
// may follow and store entries, but it votes only under a configuration that contains its
// own id. The leader writes that configuration when the node joins (cluster/membership).

var errNoVote = errors.New("this node may not vote: it is not in its own configuration, because it lost its disk and has " +
	"not rejoined, or was removed")

func asksForVote(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		return true
	default:
		return false
	}
}
