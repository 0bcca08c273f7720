package cluster

import (
	"errors"
	"io"
	"sync"

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
type outbound struct {
	transport
	cut <-chan struct{}

	mu        sync.Mutex
	round     uint64                   // of questions
	confirmed map[raft.ServerID]uint64 // the newest round that each has answered
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
	o.mu.Lock()
	round := o.round
	o.mu.Unlock()
	args.Entries = cutAppend(args.Entries)
	if err := o.transport.AppendEntries(id, to, args, resp); err != nil {
		return err
	}
	if resp.Success && resp.Term == args.Term {
		o.mu.Lock()
		o.confirmed[id] = max(o.confirmed[id], round)
		o.mu.Unlock()
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
