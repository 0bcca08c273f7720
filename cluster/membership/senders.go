package membership

import (
	"context"
	"fmt"
	"time"

	"osqueue/internal/sleep"

	"github.com/hashicorp/raft"
)

// A node takes requests of raft only from members of its cluster. Its own configuration does not
// always name them: it is empty on a new node, and old on a node that was away while others
// joined. So such a node asks the nodes of --peers, which the operator has named, and takes
// requests from the servers in their configurations too.

// askPause is the least time between two rounds of questions about an unknown sender.
const askPause = 250 * time.Millisecond

// MaySend returns an error unless a server is known to be a member of this node's cluster. If it
// is not, but may be, Meet asks the peers, and the server's next request may be taken. A node
// that is the only member of its cluster takes no request.
func (n *Members) MaySend(id raft.ServerID) error {
	config := n.raft.GetConfiguration().Configuration()
	_, member := find(config, id)
	switch {
	case member && id != n.cfg.ID:
		return nil
	case id == "":
		return fmt.Errorf("the request does not name its sender")
	case id == n.cfg.ID:
		return fmt.Errorf("the request has the id of this node, %s", id)
	case len(config.Servers) == 1 && config.Servers[0].ID == n.cfg.ID:
		return fmt.Errorf("the request is of %.128q, and this node is the only member of its cluster", id)
	}
	if met := n.met.Load(); met != nil && (*met)[id] {
		return nil
	}
	sleep.Wake(n.unmet)
	return fmt.Errorf("the request is of %.128q, which is not known to be a member of this node's cluster", id)
}

// Meet asks the peers for the members of the cluster whenever MaySend has refused one that may
// be a member. It runs until ctx ends.
func (n *Members) Meet(ctx context.Context) {
	for {
		select {
		case <-n.unmet:
		case <-ctx.Done():
			return
		}
		peers, _ := n.peers.AskAll(ctx) // peers that do not answer are skipped
		n.meet(peers)
		if !sleep.For(ctx, askPause) {
			return
		}
	}
}

// meet records the members of the clusters of peers that answered. Peers of another cluster do
// not count.
func (n *Members) meet(peers []Identity) {
	own, met := n.do.Meta().Cluster, make(map[raft.ServerID]bool)
	for _, p := range peers {
		if p.Empty || own != "" && p.Cluster != "" && p.Cluster != own {
			continue
		}
		for _, m := range p.Members {
			met[raft.ServerID(m)] = true
		}
	}
	if len(met) > 0 {
		n.met.Store(&met)
	}
}
