package membership

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"osqueue/internal/limit"
	"osqueue/internal/sleep"

	"github.com/hashicorp/raft"
)

// A cluster forms in one of two ways. If all nodes of --peers are empty, each bootstraps
// with the same configuration, which raft allows. If some of them already belong to a
// cluster, this node is either a member of it, and waits for the leader's entries, or it
// asks to join. A node that has a log is not necessarily a member: the leader may have
// filled the log of a node that lost its disk, because it took the node for the old one.

const (
	formRetry = 250 * time.Millisecond
)

// form runs until this node has a vote in a cluster, or is a member that stays without one.
func (n *Members) form(ctx context.Context) {
	var told limit.Repeats
	for {
		done, err := n.tryForm(ctx)
		if done || ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("asked the leader to join; waiting for its first entries")
		}
		if _, due := told.Due(err.Error()); due {
			n.log.Info("waiting for the cluster to form", "reason", err)
		}
		if !sleep.For(ctx, formRetry) {
			return
		}
	}
}

// tryForm asks the peers once for their identity, and bootstraps or asks to join if that
// is due. It returns true when this node is a full member or has bootstrapped, and an error
// that says why it waits.
func (n *Members) tryForm(ctx context.Context) (done bool, err error) {
	config := n.raft.GetConfiguration().Configuration()
	own, _ := find(config, n.cfg.ID)
	if own.ID != "" && (own.Suffrage == raft.Voter || n.stays(n.cfg.Name) && string(own.Address) == n.cfg.RaftAddress) {
		return true, nil
	}
	peers, err := n.peers.AskAll(ctx)
	for _, p := range peers {
		if p.member(string(n.cfg.ID)) {
			n.named.Store(true)
		}
	}
	n.meet(peers)
	switch plan, reason := planFormation(n.Identity(), peers, n.cfg.Expected); plan {
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

// planFormation decides what a node without a vote does. peers are the identities of the
// peers that answered, expected is the number of nodes in --peers, or 0 if the node only joins.
// reason says why the node waits.
func planFormation(me Identity, peers []Identity, expected int) (plan formation, reason string) {
	empty := 0
	for _, p := range peers {
		if p.Empty {
			empty++
		} else if me.Empty && p.member(me.ServerID) {
			return formWait, "this node is a member of the cluster; waiting for entries from its leader"
		}
	}
	if empty < len(peers) {
		return formJoin, "the other nodes form a cluster already"
	}
	if !me.Empty {
		return formWait, "this node has a log in which it has no vote, and no other node that answers has a log: start the nodes of its cluster, or check --peers"
	}
	if expected == 0 {
		return formWait, "this node only joins a cluster, because its --peers lack its name or have addresses without a name, and no node of a cluster answers"
	}
	if missing := expected - 1 - len(peers); missing > 0 {
		return formWait, fmt.Sprintf("%d of the nodes named by --peers do not answer yet", missing)
	}
	return formBootstrap, ""
}

func (n *Members) bootstrap(members []Identity) (done bool, err error) {
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
		return true, nil // the leader's entries came first
	}
	if err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	n.log.Info("bootstrapped the cluster", "servers", len(c.Servers))
	others := slices.DeleteFunc(slices.Clone(n.cfg.Known), func(name string) bool { return name == n.cfg.Name })
	if len(c.Servers) == 1 && len(others) > 0 {
		n.log.Warn("this node is a cluster of its own, although bootstrap.json names further nodes; to make one cluster of them, "+
			"delete its data directory and start every node with all nodes in --peers", "others", others)
	}
	return true, nil
}

// askToJoin asks the peers, and the leader that they name, to admit this node.
func (n *Members) askToJoin(ctx context.Context, peers []Identity) error {
	var addresses []string
	for _, p := range peers {
		if !p.Empty {
			addresses = append(addresses, p.HTTPAddress)
		}
	}
	var errs []error
	for i := 0; i < len(addresses); i++ {
		err := n.peers.call(ctx, http.MethodPost, addresses[i], Path+"join", n.Identity(), nil)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if r, ok := errors.AsType[*refusedError](err); ok && r.leader != "" && !slices.Contains(addresses, r.leader) && len(addresses) <= len(peers) {
			addresses = append(addresses, r.leader)
		}
	}
	return errors.Join(errs...)
}

// firstClusterID returns the id of a cluster that has had no broker yet. Server ids
// contain random instances, so no two clusters have the same one.
func firstClusterID(c raft.Configuration) string {
	ids := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		ids[i] = string(s.ID)
	}
	sort.Strings(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:8])
}
