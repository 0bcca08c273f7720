package cluster

import (
	"fmt"

	"osqueue/cluster/membership"
	"osqueue/cluster/plane"
	"osqueue/fsm"
	"osqueue/internal/auth/enroll"
)

// allowNode returns an error if a node may not have connections to this one: its certificate
// was revoked, or it is neither a member, nor named in --peers, nor has joined with a token. A node that has no state yet
// allows every node of its CA, because it does not know the members.
func (n *Node) allowNode(p plane.Peer) error {
	if at := n.revokedAt(p.Name); at != 0 && p.Issued.UnixMilli() <= at {
		return fmt.Errorf("the certificates of node %s that were issued until then are revoked", p.Name)
	}
	config := n.raft.GetConfiguration().Configuration()
	if len(config.Servers) == 0 || n.peers.HTTP(p.Name) != "" {
		return nil
	}
	for _, s := range config.Servers {
		if membership.NodeName(s.ID) == p.Name {
			return nil
		}
	}
	return fmt.Errorf("node %s is neither a member of the cluster nor in the --peers of this node, and has not joined with a token", p.Name)
}

// joinedHTTP returns the HTTP address of a node that has joined with a token, or "".
func (n *Node) joinedHTTP(name string) string {
	return enroll.PeerAddress(n.Token(enroll.PeerRecord(name)))
}

// revokedAt returns the time in ms up to which the issued certificates of a node are revoked;
// 0 if none is revoked.
func (n *Node) revokedAt(name string) int64 {
	if t := n.Token(fsm.RevokedMark(name)); t != nil {
		return t.CreatedAt
	}
	return 0
}
