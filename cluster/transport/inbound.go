package transport

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Inbound stands between the transport and raft. It decides which requests of other nodes
// reach raft, and in which goroutine.
//
// Requests for votes pass only if this node may vote (votes.go), and no request passes that
// a correct node does not send (check.go).
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
	refuse func(error)   // logs a refused request
	heard  func(uint64)  // records a heartbeat
	most   int64         // size of the largest snapshot that is accepted, in bytes
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
}

// InboundConfig configures an Inbound.
type InboundConfig struct {
	// SnapshotMax is the size of the largest snapshot that the node accepts, in bytes.
	// 0 is no bound.
	SnapshotMax int64
	// Refused is called with the reason of every request that is refused. It may be nil.
	Refused func(error)
	// Heard is called with the term of every heartbeat. It may be nil.
	Heard func(term uint64)
}

// NewInbound returns a transport for raft that receives from t. It receives requests
// while Relay runs, until stop is closed.
func NewInbound(t Transport, stop <-chan struct{}, cfg InboundConfig) *Inbound {
	if cfg.SnapshotMax == 0 {
		cfg.SnapshotMax = math.MaxInt64
	}
	if cfg.Refused == nil {
		cfg.Refused = func(error) {}
	}
	if cfg.Heard == nil {
		cfg.Heard = func(uint64) {}
	}
	b := &Inbound{
		Transport: t, stop: stop, refuse: cfg.Refused, heard: cfg.Heard, most: cfg.SnapshotMax,
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
			if b.sound(rpc) {
				b.pass(rpc)
			}
		case rpc := <-b.beats:
			b.pass(rpc)
		case rpc := <-b.pulse:
			b.pass(rpc)
		case <-b.stop:
			return
		}
	}
}

// sound reports whether raft may see a request. If not, it has answered the request.
func (b *Inbound) sound(rpc raft.RPC) bool {
	f := b.raft.Load()
	if f == nil {
		return true
	}
	if err := checkRequest(rpc, *f, b.most); err != nil {
		b.refuse(err)
		rpc.Respond(nil, fmt.Errorf("this node refuses the request: %w", err))
		return false
	}
	return true
}

func (b *Inbound) pass(rpc raft.RPC) {
	select {
	case b.passed <- rpc:
	case <-b.stop:
		rpc.Respond(nil, raft.ErrRaftShutdown)
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
