package cluster

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// inbound stands between the transport and raft and decides what of what comes in
// reaches raft, and by which way.
//
// Requests for votes pass only if this node may vote (votes.go).
//
// Heartbeats have a way of their own in raft: its transport hands them to raft from
// the goroutine of their connection, so that a slow disk does not hold them up. There
// raft may change its term and step down while its main goroutine is in the middle of
// leading. A leader that has stood still, and that proposes an entry as it wakes while
// the first heartbeat of its successor comes in, stores that entry under the
// successor's term: two entries with one index and one term, which raft takes for the
// same for ever after, and states that differ (hashicorp/raft issue 695; the soak of
// tests/nemesis met it with a paused leader).
//
// So raft never gets a heartbeat that way. One that changes nothing, because this node
// follows its sender in its term already, is answered here, at once, and a copy goes
// to raft's main goroutine, which learns from it that the leader lives. All others go
// to the main goroutine and wait for it.
type inbound struct {
	transport
	raft   atomic.Pointer[follower] // nil until it runs
	stop   <-chan struct{}
	passed chan raft.RPC // to raft's main goroutine
	beats  chan raft.RPC // heartbeats that it has to answer
	pulse  chan raft.RPC // the newest that was answered for it
}

// follower is what inbound has to know of raft. *raft.Raft is one.
type follower interface {
	State() raft.RaftState
	CurrentTerm() uint64
	LastIndex() uint64
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
}

// newInbound makes raft's transport of t. It works while relay runs, until stop is
// closed.
func newInbound(t transport, stop <-chan struct{}) *inbound {
	b := &inbound{
		transport: t, stop: stop,
		passed: make(chan raft.RPC), beats: make(chan raft.RPC), pulse: make(chan raft.RPC, 1),
	}
	t.SetHeartbeatHandler(b.heartbeat)
	return b
}

// Consumer implements raft.Transport.
func (b *inbound) Consumer() <-chan raft.RPC { return b.passed }

// SetHeartbeatHandler implements raft.Transport. Raft's own handler is not used.
func (b *inbound) SetHeartbeatHandler(func(raft.RPC)) {}

// serve says whose answers heartbeats may get. Before, all of them go to raft.
func (b *inbound) serve(f follower) { b.raft.Store(&f) }

// relay hands requests on to raft's main goroutine until stop is closed.
func (b *inbound) relay(mayVote func() bool) {
	for {
		select {
		case rpc := <-b.transport.Consumer():
			if asksForVote(rpc) && !mayVote() {
				rpc.Respond(nil, errNoVote)
				continue
			}
			b.pass(rpc)
		case rpc := <-b.beats:
			b.pass(rpc)
		case rpc := <-b.pulse:
			b.pass(rpc)
		case <-b.stop:
			return
		}
	}
}

func (b *inbound) pass(rpc raft.RPC) {
	select {
	case b.passed <- rpc:
	case <-b.stop:
		rpc.Respond(nil, raft.ErrRaftShutdown)
	}
}

// heartbeat takes one from the goroutine of its connection.
func (b *inbound) heartbeat(rpc raft.RPC) {
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
	sign := raft.RPC{Command: rpc.Command, RespChan: make(chan raft.RPCResponse, 1)} // nobody reads it
	select {
	case b.pulse <- sign:
	default: // one waits already
	}
}

// answer is what raft would say to a heartbeat that changes nothing; not ok, if it is
// not certain that it changes nothing. The term is read before anything is said: a
// vote for another leader raises it first, so whoever hears the answer was the leader
// when it was given (outbound sees to it that this was late enough).
func (b *inbound) answer(rpc raft.RPC) (*raft.AppendEntriesResponse, bool) {
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
