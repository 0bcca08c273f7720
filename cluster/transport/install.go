package transport

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// A request may arrive long after its sender gave up: the kernel delivers what was written to a
// connection that the sender has closed. Until then the sender has repeated the request over
// another connection, and this node has confirmed what follows it. Raft handles late appends and
// votes, but it takes each snapshot of its term: it would go back to the state of the
// snapshot and clear the log, also the entries behind the snapshot, which this node has
// confirmed. So this node compares a snapshot, and entries that it has applied, with its own
// position before raft sees them.
//
// The leader continues after each of these answers. After a success it sends the entries behind
// the snapshot, also those that this node has removed from its log. Raft would refuse them,
// because the entry before them is missing, and the leader would go back and send the snapshot
// again. So append removes from a request what is committed here.

// Position is what the log of a node has. The base of a log, the entry of the newest snapshot,
// counts as an entry. Its methods are called from one goroutine, while raft handles no request.
type Position interface {
	// TermAt returns the term of the entry at an index. ok is false if the log does not have it.
	TermAt(index uint64) (term uint64, ok bool)
	// Oldest returns the first entry that the log has; index 0: none.
	Oldest() (index, term uint64)
}

// relation is the relation of an entry of another log to this node's log.
type relation int

const (
	unknown relation = iota // this node does not have it, and its own entry there is not committed
	known                   // this node has it, and so everything before it
	foreign                 // this node has committed another entry there, or cannot tell
)

// settled returns the index up to which this node's entries are committed, as far as it knows.
func settled(f Follower) uint64 { return max(f.CommitIndex(), f.AppliedIndex()) }

// relate compares an entry with this node's log. An entry below the oldest one of this node
// cannot be compared by itself. It precedes the oldest one, which is committed, unless it is
// of a later term: terms never decrease along a log. If it is of the leader's own term, then so is the oldest
// entry, and it came from that leader: so a leader commits nothing because of this answer that
// this node does not have.
func (b *Inbound) relate(f Follower, index, term uint64) relation {
	if index > f.LastIndex() {
		return unknown // the disk may have a snapshot that raft could not restore
	}
	own, ok := b.log.TermAt(index)
	if ok && own == term {
		return known
	}
	if !ok {
		if oldest, above := b.log.Oldest(); index < oldest && term <= above {
			return known
		}
	}
	if index <= settled(f) {
		return foreign
	}
	return unknown
}

// foreignError is the reason why an entry of another history is refused.
func foreignError(index, term, settled uint64) error {
	return fmt.Errorf("entry %d of term %d is not the one that this node has committed (up to entry %d): if its leader repeats this, "+
		"the node has another history than the cluster; stop it, delete its data directory and start it again, and it gets its state "+
		"from the other nodes", index, term, settled)
}

// append passes entries to raft, without those that are committed on this node. It refuses
// entries that differ from committed ones: no correct leader sends them.
func (b *Inbound) append(rpc raft.RPC, f Follower, r *raft.AppendEntriesRequest) {
	if len(r.Entries) > 0 && f.State() == raft.Leader && !b.follow(rpc, r.RPCHeader, r.Term) {
		return // while it leads, more is committed at any time
	}
	rest, err := b.rest(f, r)
	if err != nil {
		b.reject(rpc, err)
		return
	}
	rpc.Command = rest
	b.pass(rpc)
}

// rest returns a request without the entries that are committed on this node.
func (b *Inbound) rest(f Follower, r *raft.AppendEntriesRequest) (*raft.AppendEntriesRequest, error) {
	limit := settled(f)
	if len(r.Entries) == 0 || r.Entries[0].Index > limit {
		return r, nil
	}
	rest := *r
	for len(rest.Entries) > 0 && rest.Entries[0].Index <= limit {
		e := rest.Entries[0]
		if b.relate(f, e.Index, e.Term) != known {
			return nil, foreignError(e.Index, e.Term, limit)
		}
		rest.PrevLogEntry, rest.PrevLogTerm, rest.Entries = e.Index, e.Term, rest.Entries[1:]
	}
	if len(rest.Entries) == 0 { // raft needs no entry before them, and must not commit what follows them
		rest.PrevLogEntry, rest.PrevLogTerm, rest.LeaderCommitIndex = 0, 0, 0
	}
	return &rest, nil
}

// follow makes raft follow the sender of a request in its term. If raft does not, follow has
// answered the request, with raft's term.
func (b *Inbound) follow(rpc raft.RPC, h raft.RPCHeader, term uint64) bool {
	got := b.ask(raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: h, Term: term}})
	beat, ok := got.Response.(*raft.AppendEntriesResponse)
	if ok && got.Error == nil && beat.Success {
		return true
	}
	if _, isInstall := rpc.Command.(*raft.InstallSnapshotRequest); isInstall && ok && got.Error == nil {
		respondAfter(rpc, &raft.InstallSnapshotResponse{Term: beat.Term}, nil)
		return false
	}
	respondAfter(rpc, got.Response, got.Error)
	return false
}

// install passes a snapshot to raft if it is ahead of this node. If this node has the entry of
// the snapshot, install answers that it has the snapshot, and keeps the log. The Raft paper has this
// rule, hashicorp/raft does not. Raft learns the leader and its term first, so the answer belongs
// to that term.
func (b *Inbound) install(rpc raft.RPC, f Follower, r *raft.InstallSnapshotRequest) {
	if !b.follow(rpc, r.RPCHeader, r.Term) {
		return
	}
	switch b.relate(f, r.LastLogIndex, r.LastLogTerm) {
	case known:
		respondAfter(rpc, &raft.InstallSnapshotResponse{Term: r.Term, Success: true}, nil)
	case foreign:
		err := foreignError(r.LastLogIndex, r.LastLogTerm, settled(f))
		b.refuse(err)
		respondAfter(rpc, nil, fmt.Errorf("this node refuses the snapshot: %w", err))
	default:
		b.pass(rpc)
	}
}

// respondAfter answers a request when its body has been read: the sender writes the body before
// it reads the answer. It does not wait for a body that comes slowly.
func respondAfter(rpc raft.RPC, answer any, err error) {
	if rpc.Reader == nil {
		rpc.Respond(answer, err)
		return
	}
	go func() {
		if _, readErr := io.Copy(io.Discard, rpc.Reader); readErr != nil {
			answer, err = nil, readErr
		}
		rpc.Respond(answer, err)
	}()
}
