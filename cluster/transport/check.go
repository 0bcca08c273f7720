package transport

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Raft trusts the requests that it gets: a nil entry or a configuration that cannot be
// decoded ends the process, and the largest possible term ends all elections of the
// cluster, also after a restart. So checkRequest refuses requests that no correct node
// sends before raft sees them. It does not prove who has sent a request: only mutual TLS
// can do that.

// termLeap bounds how far the term of a request may be above the node's own. A node that
// was away for years does not miss that many elections, and a forged term within the bound
// leaves room for 2^32 more.
const termLeap = 1 << 32

// checkRequest returns an error if a request of another node contradicts the rules of raft
// or the state of this node. snapshotMax bounds the snapshots that the node accepts, in
// bytes.
func checkRequest(rpc raft.RPC, f Follower, snapshotMax int64) error {
	switch r := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		return errors.Join(checkTerm(f, r.Term), checkOneLeader(f, r.Term), checkEntries(r))
	case *raft.RequestVoteRequest:
		return errors.Join(checkTerm(f, r.Term), checkLast(r.LastLogTerm, r.Term))
	case *raft.RequestPreVoteRequest:
		return errors.Join(checkTerm(f, r.Term), checkLast(r.LastLogTerm, r.Term))
	case *raft.InstallSnapshotRequest:
		return errors.Join(checkTerm(f, r.Term), checkOneLeader(f, r.Term), checkSnapshot(r, snapshotMax))
	case *raft.TimeoutNowRequest:
		return checkTransfer(r, f)
	default:
		return fmt.Errorf("nodes do not send requests of the type %T", rpc.Command)
	}
}

// checkTerm refuses a term that is too far above the node's own.
func checkTerm(f Follower, term uint64) error {
	if own := f.CurrentTerm(); term > own && term-own > termLeap {
		return fmt.Errorf("term %d is more than %d above the term %d of this node", term, uint64(termLeap), own)
	}
	return nil
}

// checkOneLeader refuses a request of another leader in the term in which this node leads.
// The state is read first: if the node loses its leadership in between, the refused request
// is repeated.
func checkOneLeader(f Follower, term uint64) error {
	if f.State() == raft.Leader && f.CurrentTerm() == term {
		return fmt.Errorf("the request is of another leader in term %d, in which this node leads", term)
	}
	return nil
}

// checkLast refuses a log that has entries of a later term than the request.
func checkLast(last, term uint64) error {
	if last > term {
		return fmt.Errorf("the request names an entry of term %d, which is above its own term %d", last, term)
	}
	return nil
}

// checkEntries refuses entries that do not continue the previous entry of the request.
func checkEntries(r *raft.AppendEntriesRequest) error {
	index, term := r.PrevLogEntry, r.PrevLogTerm
	for _, e := range r.Entries {
		switch {
		case e == nil:
			return errors.New("an entry of the request is missing")
		case e.Index != index+1:
			return fmt.Errorf("entry %d does not follow entry %d", e.Index, index)
		case e.Term < term:
			return fmt.Errorf("entry %d of term %d follows an entry of term %d", e.Index, e.Term, term)
		case e.Type > raft.LogConfiguration:
			return fmt.Errorf("entry %d has the unknown type %d", e.Index, e.Type)
		case e.Type == raft.LogConfiguration:
			if err := checkConfiguration(e.Data); err != nil {
				return fmt.Errorf("entry %d: %w", e.Index, err)
			}
		}
		index, term = e.Index, e.Term
	}
	return checkLast(term, r.Term)
}

// checkSnapshot refuses a snapshot that is too large or whose configuration raft cannot
// decode.
func checkSnapshot(r *raft.InstallSnapshotRequest, most int64) error {
	if r.Size < 0 || r.Size > most {
		return fmt.Errorf("the snapshot has %d bytes; this node accepts at most %d, the size of its memory", r.Size, most)
	}
	if r.SnapshotVersion < 1 {
		return fmt.Errorf("the snapshot version %d is unknown", r.SnapshotVersion)
	}
	return errors.Join(checkLast(r.LastLogTerm, r.Term), checkConfiguration(r.Configuration))
}

// checkConfiguration returns an error if raft cannot decode a configuration, or if it has
// no voter.
func checkConfiguration(data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // raft panics
			err = fmt.Errorf("the configuration cannot be decoded: %v", p)
		}
	}()
	for _, s := range raft.DecodeConfiguration(data).Servers {
		if s.Suffrage == raft.Voter {
			return nil
		}
	}
	return errors.New("the configuration has no voter")
}

// checkTransfer accepts a request to call an election only from the leader that this node
// follows.
func checkTransfer(r *raft.TimeoutNowRequest, f Follower) error {
	_, leader := f.LeaderWithID()
	if f.State() != raft.Follower || leader == "" || leader != raft.ServerID(r.ID) {
		return fmt.Errorf("%q may not transfer the leadership: it is not the leader that this node follows", r.ID)
	}
	return nil
}

// checkAnswer refuses an answer whose term is too far above the term of the request.
func checkAnswer(asked, answered uint64) error {
	if answered > asked && answered-asked > termLeap {
		return fmt.Errorf("the answer has term %d, more than %d above the term %d of the request", answered, uint64(termLeap), asked)
	}
	return nil
}
