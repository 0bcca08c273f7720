package cluster

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// outbound stands between raft and the transport, and notes which followers have
// confirmed this node's leadership, and since when.
//
// Raft cannot say that. Its VerifyLeader counts the next answer that comes in of each
// node, also one to a request that was under way before: a leader that has stood still,
// with such an answer in a buffer of the kernel, would confirm to itself what was true
// before another was elected, and readers would miss what that one has committed.
//
// After cut is closed it sends nothing more.
//
// It also measures, for the term in which this node leads, when each server answered
// last, and up to where its log is known to be the leader's.
type outbound struct {
	transport
	cut <-chan struct{}

	mu        sync.Mutex
	round     uint64                   // of questions
	confirmed map[raft.ServerID]uint64 // the newest round that each has answered
	term      uint64                   // of the requests below
	began     time.Time                // the first request of the term
	heard     map[raft.ServerID]time.Time
	matched   map[raft.ServerID]uint64 // index of the newest entry that each is known to share
}

func newOutbound(t transport, cut <-chan struct{}) *outbound {
	return &outbound{transport: t, cut: cut, confirmed: make(map[raft.ServerID]uint64)}
}

var errCutOff = errors.New("this node must stop and sends nothing more to the others")

// live returns errCutOff once cut is closed.
func (o *outbound) live() error {
	select {
	case <-o.cut:
		return errCutOff
	default:
		return nil
	}
}

// ask begins a round: what is sent after it, and answered, counts for it.
func (o *outbound) ask() (round uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.round++
	return o.round
}

// AppendEntries implements raft.Transport. A heartbeat is one without entries. Of
// the entries it sends those that fit into one request, and takes the others out of
// args: raft goes on after the last entry that is in args when it returns.
func (o *outbound) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	if err := o.live(); err != nil {
		return err
	}
	round := o.sent(args.Term)
	if cut := cutAppend(args.Entries); len(cut) < len(args.Entries) {
		args.Entries = cut // raft sends one heartbeat many times, which must not change
	}
	if err := o.transport.AppendEntries(id, to, args, resp); err != nil {
		return err
	}
	if resp.Term != args.Term {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.term == args.Term {
		o.heard[id] = time.Now()
	}
	if resp.Success {
		o.confirmed[id] = max(o.confirmed[id], round)
		if o.term == args.Term {
			o.matched[id] = max(o.matched[id], lastSent(args))
		}
	}
	return nil
}

// AppendEntriesPipeline implements raft.Transport.
func (o *outbound) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if err := o.live(); err != nil {
		return nil, err
	}
	return o.transport.AppendEntriesPipeline(id, to)
}

// RequestVote implements raft.Transport.
func (o *outbound) RequestVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	if err := o.live(); err != nil {
		return err
	}
	return o.transport.RequestVote(id, to, args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (o *outbound) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	if err := o.live(); err != nil {
		return err
	}
	return o.transport.RequestPreVote(id, to, args, resp)
}

// InstallSnapshot implements raft.Transport.
func (o *outbound) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	if err := o.live(); err != nil {
		return err
	}
	return o.transport.InstallSnapshot(id, to, args, resp, data)
}

// sent notes a request of a term and returns the round that its answer counts for.
func (o *outbound) sent(term uint64) (round uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if term > o.term {
		o.term, o.began = term, time.Now()
		o.heard, o.matched = make(map[raft.ServerID]time.Time), make(map[raft.ServerID]uint64)
	}
	return o.round
}

// lastSent is the index up to which the receiver's log is the sender's if it accepts
// the request, 0 for a heartbeat, which is accepted unread.
func lastSent(r *raft.AppendEntriesRequest) uint64 {
	if len(r.Entries) > 0 {
		return r.Entries[len(r.Entries)-1].Index
	}
	return r.PrevLogEntry
}

// progress returns when a server answered last in the newest term in which this node
// led (the zero time: never), and the index up to which it is known to have the log.
func (o *outbound) progress(id raft.ServerID) (heard time.Time, index uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard[id], o.matched[id]
}

// quiet returns how long a server has not answered the leader of a term, this node: at
// most for as long as it leads, since it did not ask before.
func (o *outbound) quiet(id raft.ServerID, term uint64) time.Duration {
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

// majority tells whether more than half of the voters have confirmed in a round that
// this node, one of them, leads.
func (o *outbound) majority(round uint64, self raft.ServerID, voters raft.Configuration) bool {
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
