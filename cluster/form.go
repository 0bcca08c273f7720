package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// A cluster forms in one of two ways. When all nodes that --peers names are
// empty, each bootstraps with the same configuration, which raft allows. When
// some of them live in a cluster already, this node is either a member of it,
// and only has to wait for its leader, or it asks to join. Having a log is not
// being a member: the leader may have filled that of a node which lost its disk
// in the belief that it still was the old one.

const (
	formRetry = 250 * time.Millisecond
)

// form runs until this node has a vote in a cluster.
func (n *Node) form() {
	var told repeats
	for {
		done, err := n.tryForm(n.ctx)
		if done || n.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the leader has been asked; waiting for its first entries")
		}
		if _, due := told.due(err.Error()); due {
			n.log.Info("waiting for the cluster to form", "reason", err)
		}
		if !sleep(n.ctx, formRetry) {
			return
		}
	}
}

// tryForm looks at the peers once and does what is to be done.
func (n *Node) tryForm(ctx context.Context) (done bool, err error) {
	if voter(n.raft.GetConfiguration().Configuration(), n.id) {
		return true, nil
	}
	peers, err := n.askPeers(ctx)
	for _, p := range peers {
		if p.member(string(n.id)) {
			n.named.Store(true)
		}
	}
	switch plan, reason := planFormation(n.Identity(), peers, len(n.cfg.Peers)); plan {
	case formBootstrap:
		return n.bootstrap(append(peers, n.Identity()))
	case formJoin:
		return false, n.askToJoin(ctx, peers)
	default:
		return false, errors.Join(errors.New(reason), err)
	}
}

type formation int

const (
	formWait formation = iota
	formBootstrap
	formJoin
)

// planFormation decides what a node without a vote does, from what its peers
// say of themselves. expected is the number of nodes that --peers names.
func planFormation(me Identity, peers []Identity, expected int) (plan formation, reason string) {
	empty := 0
	for _, p := range peers {
		if p.Empty {
			empty++
		} else if me.Empty && p.member(me.ServerID) {
			return formWait, "this node is a member; waiting for the leader to call"
		}
	}
	if empty < len(peers) {
		return formJoin, "the other nodes have a cluster"
	}
	if !me.Empty {
		return formWait, "no other node knows a cluster, and this one is in none that its log knows"
	}
	if missing := max(expected, 1) - 1 - len(peers); missing > 0 {
		return formWait, fmt.Sprintf("%d of the nodes named by --peers do not answer yet", missing)
	}
	return formBootstrap, ""
}

func (n *Node) bootstrap(members []Identity) (done bool, err error) {
	sort.Slice(members, func(i, j int) bool { return members[i].Name < members[j].Name })
	var c raft.Configuration
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       raft.ServerID(m.ServerID),
			Address:  raft.ServerAddress(m.RaftAddress),
		})
	}
	err = n.raft.BootstrapCluster(c).Error()
	if errors.Is(err, raft.ErrCantBootstrap) {
		return true, nil // the leader was quicker
	}
	if err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	n.log.Info("bootstrapped the cluster", "servers", len(c.Servers))
	return true, nil
}

// empty reports whether this node has never been part of a cluster.
func (n *Node) empty() bool { return n.raft.LastIndex() == 0 }

// firstClusterID names a cluster that has had no broker yet. Server ids hold
// random instances, so no two clusters share it.
func firstClusterID(c raft.Configuration) string {
	ids := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		ids[i] = string(s.ID)
	}
	sort.Strings(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:8])
}
