package transport

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Outbound stands between raft and the transport. It records which followers have
// confirmed this node's leadership, and in which round.
//
// Raft does not provide that. Its VerifyLeader counts the next answer of each node, even
// if it answers a request that was sent before the call. A leader that was paused may
// find such an answer in a buffer of the kernel. It would confirm its leadership although
// another leader has been elected since, and readers would miss the writes of that
// leader. So the node begins a round with Ask, calls raft's VerifyLeader, and then checks
// with Majority that the voters have answered requests of that round.
//
// Outbound also measures, for the term in which this node leads, when each server
// answered last, and up to which index its log is known to be the same as the leader's.
//
// Raft counts an answer that confirms entries as a copy of them in addition to the leader's own,
// which may not be durable yet (package raftlog). So Outbound keeps such an answer back until it is.
//
// Outbound also sends the requests to a server to another address than that of raft's configuration,
// if it knows one (Move). Nodes that have all moved elect a leader with it, which then changes the
// configuration. Raft knows servers by their ids, so an address is only a way to a server.
//
// After cut is closed, Outbound sends nothing more.
type Outbound struct {
	Transport
	cut     <-chan struct{}
	durable Durable

	mu        sync.Mutex
	moves     map[raft.ServerID]move
	round     uint64                   // number of the newest round
	confirmed map[raft.ServerID]uint64 // newest round of which each server has answered a request
	term      uint64                   // raft term of the fields below
	began     time.Time                // time of the first request of the term
	heard     map[raft.ServerID]time.Time
	matched   map[raft.ServerID]uint64 // index of the newest entry that each server is known to have
}

// Durable waits until this node's own log durably has the entries up to index. It returns an
// error if they cannot become durable, or if stop is closed first.
type Durable func(index uint64, stop <-chan struct{}) error

// NewOutbound returns a transport for raft that sends through t until cut is closed.
func NewOutbound(t Transport, cut <-chan struct{}, durable Durable) *Outbound {
	return &Outbound{Transport: t, cut: cut, durable: durable, moves: make(map[raft.ServerID]move), confirmed: make(map[raft.ServerID]uint64)}
}

var errCutOff = errors.New("this node is stopping and sends no more requests")

// live returns errCutOff once cut is closed.
func (o *Outbound) live() error {
	select {
	case <-o.cut:
		return errCutOff
	default:
		return nil
	}
}

// move is a new address of a server, in place of the configured one.
type move struct{ from, to raft.ServerAddress }

// Move sends what raft sends to a server at from to the address to.
func (o *Outbound) Move(id raft.ServerID, from, to raft.ServerAddress) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.moves[id] = move{from, to}
}

// At returns the address for a server that raft has at an address.
func (o *Outbound) At(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a, ok := o.moves[id]; ok && a.from == address {
		return a.to
	}
	return address
}

// Ask begins a round: requests that are sent from now on count for it when they are
// answered.
func (o *Outbound) Ask() (round uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.round++
	return o.round
}

// Confirmed reports whether a server has answered a request of a round, or of a later one.
func (o *Outbound) Confirmed(id raft.ServerID, round uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.confirmed[id] >= round
}

// AppendEntries implements raft.Transport. A request without entries is a heartbeat.
// AppendEntries sends only the entries that fit into one request and removes the others
// from args: raft continues after the last entry that is in args when the call returns. An answer
// that confirms entries is returned when this node's own log has them.
func (o *Outbound) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	if err := o.live(); err != nil {
		return err
	}
	round := o.sent(args.Term)
	if cut := cutAppend(args.Entries); len(cut) < len(args.Entries) {
		args.Entries = cut // do not change a heartbeat, which raft sends many times
	}
	if err := o.Transport.AppendEntries(id, o.At(id, to), args, resp); err != nil {
		return err
	}
	if err := checkAnswer(args.Term, resp.Term); err != nil {
		return err
	}
	if resp.Term != args.Term {
		return nil
	}
	o.answered(id, round, args, resp.Success)
	if n := len(args.Entries); n > 0 && resp.Success {
		return o.durable(args.Entries[n-1].Index, o.cut)
	}
	return nil
}

// answered records an answer of the term of the request.
func (o *Outbound) answered(id raft.ServerID, round uint64, args *raft.AppendEntriesRequest, success bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.term == args.Term {
		o.heard[id] = time.Now()
	}
	if success {
		o.confirmed[id] = max(o.confirmed[id], round)
		if o.term == args.Term {
			o.matched[id] = max(o.matched[id], lastSent(args))
		}
	}
}

// AppendEntriesPipeline implements raft.Transport. It refuses pipelines, because their answers
// would not pass through Outbound.
func (o *Outbound) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// RequestVote implements raft.Transport.
func (o *Outbound) RequestVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return o.checked(args.Term, &resp.Term, func() error { return o.Transport.RequestVote(id, o.At(id, to), args, resp) })
}

// checked sends a request of a term by call, and checks the term of the answer.
func (o *Outbound) checked(term uint64, answered *uint64, call func() error) error {
	if err := o.live(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return checkAnswer(term, *answered)
}

// RequestPreVote implements raft.WithPreVote.
func (o *Outbound) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return o.checked(args.Term, &resp.Term, func() error { return o.Transport.RequestPreVote(id, o.At(id, to), args, resp) })
}

// InstallSnapshot implements raft.Transport.
func (o *Outbound) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return o.checked(args.Term, &resp.Term, func() error { return o.Transport.InstallSnapshot(id, o.At(id, to), args, resp, data) })
}

// TimeoutNow implements raft.Transport.
func (o *Outbound) TimeoutNow(
	id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return o.Transport.TimeoutNow(id, o.At(id, to), args, resp)
}

// sent records a request of a term. It returns the round for which the answer counts.
func (o *Outbound) sent(term uint64) (round uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if term > o.term {
		o.term, o.began = term, time.Now()
		o.heard, o.matched = make(map[raft.ServerID]time.Time), make(map[raft.ServerID]uint64)
	}
	return o.round
}

// lastSent returns the index up to which the receiver's log is the same as the sender's
// if it accepts the request. It returns 0 for a heartbeat, which the receiver accepts
// without a check of its log.
func lastSent(r *raft.AppendEntriesRequest) uint64 {
	if len(r.Entries) > 0 {
		return r.Entries[len(r.Entries)-1].Index
	}
	return r.PrevLogEntry
}

// Progress returns when a server answered last in the newest term in which this node led
// (the zero time: never), and the index up to which it is known to have the log.
func (o *Outbound) Progress(id raft.ServerID) (heard time.Time, index uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard[id], o.matched[id]
}

// Quiet returns for how long a server has not answered this node as the leader of a term.
// It is at most the time since the first request of that term.
func (o *Outbound) Quiet(id raft.ServerID, term uint64) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.term != term {
		return 0
	}
	if heard, ok := o.heard[id]; ok {
		return time.Since(heard)
	}
	return time.Since(o.began)
}

// Majority reports whether more than half of the voters have confirmed in a round that
// self is the leader. self counts as one that has.
func (o *Outbound) Majority(round uint64, self raft.ServerID, voters raft.Configuration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all, yes := 0, 0
	for _, s := range voters.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		all++
		if s.ID == self || o.confirmed[s.ID] >= round {
			yes++
		}
	}
	return yes > all/2
}

// Await waits for a future of raft. Raft's futures take no context, so the wait also ends
// with ctx. down is closed when raft has ended; then Await returns raft.ErrRaftShutdown.
func Await(ctx context.Context, f raft.Future, down chan struct{}) error {
	failWhenDown(f, down)
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failWhenDown makes a future fail with raft.ErrRaftShutdown when down is closed and raft
// has not answered it. Entries that are committed but not applied when raft is shut down
// never get an answer (hashicorp/raft issue 498). The futures have the field ShutdownCh
// for this case, but raft itself sets it in only a few of them.
func failWhenDown(f raft.Future, down chan struct{}) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return // the future has its answer from the start
	}
	field := v.Elem().FieldByName("ShutdownCh")
	if field.IsValid() && field.CanSet() && field.Type() == reflect.TypeOf(down) {
		field.Set(reflect.ValueOf(down))
	}
}
