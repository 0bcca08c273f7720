package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// The effects of a leader that hands leadership over because it cannot use the bucket.

// bucketPath asks a node to try the bucket.
const bucketPath = PeerPath + "bucket"

// bucketAnswer is the answer to it.
type bucketAnswer struct {
	ServerID string `json:"serverId"`
	Error    string `json:"error,omitempty"` // "": it can use the bucket
}

func (n *Node) serveBucket(w http.ResponseWriter, r *http.Request) {
	a := bucketAnswer{ServerID: string(n.id)}
	if err := n.leader.CheckBucket(r.Context()); err != nil {
		a.Error = err.Error()
	}
	web.WriteJSON(w, http.StatusOK, a)
}

// askBucket asks another voter to try the bucket.
func (n *Node) askBucket(ctx context.Context, id raft.ServerID) error {
	address := n.members.HTTPAddress(membership.NodeName(id))
	if address == "" {
		return errors.New("the address of its HTTP API is unknown")
	}
	var a bucketAnswer
	if err := n.peers.Post(ctx, address, bucketPath, &a); err != nil {
		return err
	}
	switch {
	case a.ServerID != string(id):
		return fmt.Errorf("%s answers as %s", address, a.ServerID)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// otherVoters returns the other voters that answer this node, as raft's leader.
func (n *Node) otherVoters() (voters []leader.Voter) {
	term, newest := n.raft.CurrentTerm(), n.raft.LastIndex()
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.ID == n.id || s.Suffrage != raft.Voter || n.out.Quiet(s.ID, term) > 2*n.cfg.HeartbeatTimeout {
			continue
		}
		_, index := n.out.Progress(s.ID)
		voters = append(voters, leader.Voter{ID: s.ID, Behind: newest - min(index, newest)})
	}
	return voters
}

// handOver gives raft's leadership to another voter.
func (n *Node) handOver(ctx context.Context, to raft.ServerID) error {
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.ID == to {
			err := n.await(ctx, n.raft.LeadershipTransferToServer(s.ID, s.Address))
			if err == nil {
				return nil
			}
			n.wg.Go(n.awaitWrites)
			return err
		}
	}
	return fmt.Errorf("%s is not in the configuration", to)
}

// awaitWrites watches, after a failed transfer, that raft accepts entries again.
func (n *Node) awaitWrites() {
	for n.raft.State() == raft.Leader {
		if err := n.barrier(n.ctx); !errors.Is(err, raft.ErrLeadershipTransferInProgress) || !sleep.For(n.ctx, time.Second) {
			return
		}
	}
}

// stuckTransferMax is the longest time for which raft may refuse entries because of a transfer
// of leadership: its timeout, that of the request to the other node, and a margin.
const stuckTransferMax = 15 * time.Second

// errStuckTransfer ends a node whose raft would refuse all entries until it is restarted.
var errStuckTransfer = errors.New("a transfer of raft's leadership that has failed still blocks writes: restart this node")

// barrier waits until this node has applied every entry that was committed before. A failed
// transfer of leadership may leave raft refusing entries, in later terms too; then the node
// ends, so that it is restarted.
func (n *Node) barrier(ctx context.Context) error {
	err := n.await(ctx, n.raft.Barrier(0))
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		n.transferring.Store(0)
		return err
	}
	now := time.Since(n.started)
	n.transferring.CompareAndSwap(0, int64(now))
	if now-time.Duration(n.transferring.Load()) > stuckTransferMax {
		n.die(errStuckTransfer)
	}
	return err
}
