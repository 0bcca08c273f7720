package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/internal/sleep"

	"github.com/hashicorp/raft"
)

// A server that is down when it is removed from the configuration does not learn that it
// was removed, and raft just stops in a removed leader. Such a node would run without a
// leader and without a vote, so it ends.

const (
	removedLook  = time.Second
	removedLooks = 3 // checks in a row that must find this node removed: the removal may not be committed yet
)

// ErrRemoved means that the node was removed from the cluster.
var ErrRemoved = errors.New("this node was removed from the cluster: if another node has replaced it, leave it stopped; to " +
	"join again, delete its data directory and start it")

// Remove removes all servers with the name of a node from the configuration, and returns their
// ids. This node must lead.
func (n *Members) Remove(ctx context.Context, name string) ([]string, error) {
	removed := []string{}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if NodeName(s.ID) != name {
			continue
		}
		if err := n.do.Await(ctx, n.raft.RemoveServer(s.ID, 0, changeTimeout)); err != nil {
			return removed, fmt.Errorf("remove %s: %w", s.ID, err)
		}
		removed = append(removed, string(s.ID))
	}
	return removed, nil
}

// watch ends the node once it is no longer a member. It starts when the node
// has a vote.
func (n *Members) watch(ctx context.Context) {
	found, member := 0, n.configured(n.raft.GetConfiguration().Configuration())
	for sleep.For(ctx, removedLook) {
		n.mind(ctx)
		switch in, known := n.ownMembership(ctx); {
		case ctx.Err() != nil:
			return
		case n.raft.State() == raft.Shutdown: // raft stops in a leader that is not in the configuration
			n.do.Removed(ErrRemoved)
			return
		case known && in:
			found, member = 0, true
		case known && member:
			found++
		}
		if found == removedLooks {
			n.do.Removed(ErrRemoved)
			return
		}
	}
}

// ownMembership reports whether this server is in the configuration. It is if a leader is
// known and this node's own log says so. Otherwise peers that have applied all of that
// log decide. This node's log alone does not prove a removal: raft takes the
// configuration of a snapshot that it installs, which may be older than the entries that
// follow. known is false if no peer can decide.
func (n *Members) ownMembership(ctx context.Context) (in, known bool) {
	config := n.raft.GetConfiguration().Configuration()
	if len(config.Servers) == 0 {
		return false, false
	}
	configured := n.configured(config)
	if _, leader := n.raft.LeaderWithID(); leader != "" && configured {
		return true, true
	}
	last, cluster := n.raft.LastIndex(), n.ClusterID()
	peers, _ := n.peers.AskAll(ctx) // peers that do not answer are skipped
	removed := false
	for _, p := range peers {
		switch {
		case p.Empty || p.Cluster != cluster:
		case p.member(string(n.cfg.ID)):
			return true, true
		case p.Applied >= last:
			removed = true
		}
	}
	return configured && !removed, configured || removed
}

func (n *Members) configured(c raft.Configuration) bool {
	for _, s := range c.Servers {
		if s.ID == n.cfg.ID {
			return true
		}
	}
	return false
}
