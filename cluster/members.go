package cluster

import (
	"osqueue/cluster/membership"
	"osqueue/cluster/snapshot"
)

// PeerPath is the path under which PeerHandler is to be mounted.
const PeerPath = membership.Path

// RevokePath is the path below it that operators call, see AskToRevoke.
const RevokePath = PeerPath + "node/revoke"

func newPeers(cfg *Config) *membership.Peers {
	named := make([]membership.Peer, len(cfg.Peers))
	for i, p := range cfg.Peers {
		named[i] = membership.Peer(p)
	}
	return membership.NewPeers(cfg.Name, named, cfg.Client)
}

func (n *Node) newMembers() *membership.Members {
	return membership.New(membership.Config{
		ID:               n.id,
		Name:             n.cfg.Name,
		RaftAddress:      string(n.net.LocalAddr()),
		HTTPAddress:      n.cfg.HTTPAdvertise,
		FeatureLevel:     n.cfg.FeatureLevel,
		HeartbeatTimeout: n.cfg.HeartbeatTimeout,
		Expected:         len(n.cfg.Peers),
		Known:            n.cfg.Known,
		Clock:            n.cfg.Clock,
		Peers:            n.peers,
		Raft:             n.raft,
		Log:              n.log,
	}, membership.Effects{
		Meta:     n.replica.meta,
		State:    n.sums.latest,
		Agrees:   func(commit, term, index uint64) bool { return snapshot.Agrees(n.raftLog, commit, term, index) },
		Await:    n.await,
		Progress: n.out.Progress,
		Quiet:    n.out.Quiet,
		Move:     n.moved.Move,
		At:       n.moved.At,
		Removed:  n.die,
	})
}

// clusterID returns the id of the cluster.
func (n *Node) clusterID() string { return n.members.ClusterID() }
