package cluster

import (
	"context"
	"fmt"
	"net/http"

	"osqueue/cluster/membership"
	"osqueue/cluster/plane"
	"osqueue/cluster/snapshot"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/auth/enroll"
)

// PeerPath is the path under which PeerHandler is to be mounted.
const PeerPath = membership.Path

// RevokePath is the path below it that operators call, see AskToRevoke.
const RevokePath = PeerPath + "node/revoke"

func (n *Node) newMembers() *membership.Members {
	return membership.New(membership.Config{
		ID:               n.id,
		Name:             n.cfg.Name,
		RaftAddress:      string(n.net.LocalAddr()),
		HTTPAddress:      n.cfg.HTTPAdvertise,
		FeatureLevel:     n.cfg.FeatureLevel,
		HeartbeatTimeout: n.cfg.HeartbeatTimeout,
		Expected:         n.cfg.expected(),
		Version:          n.cfg.Version,
		Known:            n.cfg.Known,
		Clock:            n.cfg.Clock,
		Peers:            n.peers,
		Raft:             n.raft,
		Log:              n.log,
	}, membership.Effects{
		Meta:      n.replica.meta,
		State:     n.sums.latest,
		Agrees:    func(commit, term, index uint64) bool { return snapshot.Agrees(n.raftLog, commit, term, index) },
		Await:     n.await,
		Progress:  n.out.Progress,
		Quiet:     n.out.Quiet,
		Ask:       n.out.Ask,
		Confirmed: n.out.Confirmed,
		Move:      n.out.Move,
		At:        n.out.At,
		Removed:   n.die,

		Admitted:   n.admitted,
		Admissions: n.admissions,
		Admit:      n.admit,
		Forget:     func(ctx context.Context, name string) error { return n.commit(ctx, enroll.DropPeer(name)) },
		HandOver:   n.handOver,
	})
}

// Members returns the members of the cluster, which operators change.
func (n *Node) Members() *membership.Members { return n.members }

// admit stores the records of nodes that may be members.
func (n *Node) admit(ctx context.Context, records ...membership.Admission) error {
	var ops []*fsmpb.Mutation
	for _, a := range records {
		ops = append(ops, enroll.PutPeer(enroll.Peer(a), n.Token(enroll.PeerRecord(a.Name)))...)
	}
	return n.commit(ctx, ops...)
}

// commit commits mutations, the last of which must succeed.
func (n *Node) commit(ctx context.Context, ops ...*fsmpb.Mutation) error {
	results, _, err := n.ProposeAll(ctx, ops)
	if err != nil {
		return err
	}
	return results[len(results)-1].Code.Err()
}

// Routes returns the requests under PeerPath, of other nodes and of operators, and the rights that
// they need, which their handlers do not check.
func (n *Node) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET " + PeerPath + "identity", Right: auth.Node, Handler: n.members.ServeIdentity},
		{Pattern: "POST " + PeerPath + "join", Right: auth.Node, Handler: n.members.ServeJoin},
		{Pattern: "GET " + PeerPath + "history/{lsn}", Right: auth.Node, Handler: n.members.ServeHistory},
		{Pattern: "POST " + bucketPath, Right: auth.Node, Handler: n.serveBucket},
		{Pattern: "POST " + RevokePath, Right: auth.Admin, Handler: n.serveRevoke},
	}
}

// PeerHandler serves the requests of other nodes, under PeerPath.
func (n *Node) PeerHandler() http.Handler { return auth.Mux(n.Routes(), auth.Node, nil) }

// allowNode returns an error if a node may not have connections to this one: its certificate
// was revoked, or it is neither a member, nor admitted, nor named in --peers. A node that has no state yet
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
	return fmt.Errorf("node %s is neither a member of the cluster nor admitted, nor in the --peers of this node", p.Name)
}
