package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/sleep"
)

// errNotLeader is the answer of a node that is not raft's leader.
var errNotLeader = errors.New("this node is not the active leader")

// changeTimeout bounds how long raft may take to accept one change of the configuration.
const changeTimeout = 10 * time.Second

// admit adds a node to the cluster. It removes the server that had the node's name or
// address, adds the node without a vote, waits until it has caught up, and gives it a
// vote. Each step may be repeated. It returns errNotLeader if this node is not raft's
// leader.
func (n *Members) admit(ctx context.Context, who Identity) error {
	if n.raft.State() != raft.Leader {
		return errNotLeader
	}
	if !namePattern.MatchString(who.Name) || NodeName(raft.ServerID(who.ServerID)) != who.Name || who.RaftAddress == "" {
		return fmt.Errorf("the identity of the node is not valid: name %.64q, server %.128q, raft address %.128q", who.Name, who.ServerID, who.RaftAddress)
	}
	if err := who.knows(n.do.Meta().Level); err != nil {
		return err
	}
	config := n.raft.GetConfiguration().Configuration()
	if Voter(config, raft.ServerID(who.ServerID)) {
		return n.move(ctx, config, who)
	}
	if err := n.expected(ctx, config, who); err != nil {
		return err
	}
	if err := n.removePredecessors(ctx, config, who); err != nil {
		return err
	}
	id, address := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	if err := n.do.Await(ctx, n.raft.AddNonvoter(id, address, 0, changeTimeout)); err != nil {
		return fmt.Errorf("add %s as a non-voter: %w", id, err)
	}
	if err := n.awaitCatchUp(ctx, who); err != nil {
		return err
	}
	if err := n.do.Await(ctx, n.raft.AddVoter(id, address, 0, changeTimeout)); err != nil {
		return fmt.Errorf("give %s a vote: %w", id, err)
	}
	n.log.Info("a node joined the cluster", "server", id)
	return nil
}

// Voter reports whether a server has a vote in a configuration.
func Voter(c raft.Configuration, id raft.ServerID) bool {
	s, ok := find(c, id)
	return ok && s.Suffrage == raft.Voter
}

// find returns a server of a configuration.
func find(c raft.Configuration, id raft.ServerID) (s raft.Server, ok bool) {
	i := slices.IndexFunc(c.Servers, func(s raft.Server) bool { return s.ID == id })
	if i < 0 {
		return s, false
	}
	return c.Servers[i], true
}

// removePredecessors removes the servers that the new node replaces. It removes none and
// returns an error if one of them may still be running.
func (n *Members) removePredecessors(ctx context.Context, c raft.Configuration, who Identity) error {
	var before []raft.Server
	for _, s := range c.Servers {
		same := NodeName(s.ID) == who.Name || string(s.Address) == who.RaftAddress
		if !same || string(s.ID) == who.ServerID {
			continue
		}
		if err := n.isGone(ctx, s, who); err != nil {
			return err
		}
		before = append(before, s)
	}
	for _, s := range before {
		if err := n.do.Await(ctx, n.raft.RemoveServer(s.ID, 0, changeTimeout)); err != nil {
			return fmt.Errorf("remove %s, which %s replaces: %w", s.ID, who.ServerID, err)
		}
		n.log.Warn("removed the old server of a node that has a new identity", "server", s.ID, "by", who.ServerID)
	}
	return nil
}

// expected returns an error unless the operator has named the new node in the leader's
// --peers, and the node that answers at that address is the new one, with the raft address
// of the request. The leader sends nothing to the addresses of the request: anybody may
// send one.
func (n *Members) expected(ctx context.Context, c raft.Configuration, who Identity) error {
	address := n.peers.HTTP(who.Name)
	if address == "" {
		return fmt.Errorf("node %s is not in the leader's --peers: check its --name; to add a node, "+
			"make a join token for it (osqueue cert join-token), or first restart the nodes of the cluster with it in their --peers, one by one", who.Name)
	}
	source := "its address in the leader's --peers"
	advice := "to move it, first restart the nodes of the cluster with its new address in their --peers, one by one"
	if !n.peers.Named(who.Name) {
		source = "the address in its join token"
		advice = "start it with this --http-addr or --http-advertise, or make another token for the right address: osqueue cert join-token --http"
	}
	id, err := n.peers.Ask(ctx, address)
	if err != nil {
		return fmt.Errorf("node %s does not answer at %s, %s; %s: %w", who.Name, address, source, advice, err)
	}
	for _, s := range c.Servers {
		if id.ServerID == string(s.ID) && id.ServerID != who.ServerID {
			return runningError(s)
		}
	}
	if id.ServerID != who.ServerID || id.RaftAddress != who.RaftAddress {
		return fmt.Errorf("node %s asks as %s with the raft address %s, but %s, %s, is that of %s with %s: "+
			"check --http-advertise and --raft-advertise", who.Name, who.ServerID, who.RaftAddress, address, source, id.ServerID, id.RaftAddress)
	}
	return nil
}

// runningError refuses a node because a server of its name runs.
func runningError(s raft.Server) error {
	return fmt.Errorf("node %s is running as %s at %s: stop it permanently before another node takes its name, or give "+
		"the new node a name and an address of its own", NodeName(s.ID), s.ID, s.Address)
}

// isGone returns nil if s, a server that has the new node's name or raft address, is
// certain not to run any more. It asks s at its own HTTP address. If s does not answer
// there, the answers to the leader's raft requests count, unless s has the new node's raft
// address: raft does not address a server by its id, so the new node may have answered.
// isGone returns an error if it cannot be known whether s still runs.
func (n *Members) isGone(ctx context.Context, s raft.Server, who Identity) error {
	name := NodeName(s.ID)
	running := runningError(s)
	sameAddress := string(s.Address) == who.RaftAddress
	address := n.peers.HTTP(name)
	switch {
	case s.ID == n.cfg.ID:
		return running
	case name != who.Name:
		return fmt.Errorf("raft address %s belongs to node %s: give %s an address of its own", s.Address, name, who.Name)
	case address == "" && sameAddress:
		return fmt.Errorf("cannot check whether %s still runs, because node %s is not in the leader's --peers: restart the "+
			"nodes of the cluster with it in their --peers, one by one", s.ID, name)
	}
	if address != "" {
		id, err := n.peers.Ask(ctx, address)
		switch {
		case err == nil && id.ServerID == string(s.ID):
			return running
		case err == nil && id.ServerID == who.ServerID:
			return nil
		case sameAddress:
			return fmt.Errorf("cannot check whether %s still runs: its address in --peers, %s, does not answer as it or as %s: "+
				"%w",
				s.ID, address, who.ServerID, err)
		}
	}
	if n.do.Quiet(s.ID, n.raft.CurrentTerm()) < n.silenceMax() {
		return running
	}
	return nil
}

// silenceMax returns how long a server that is to be replaced must not have answered the
// leader.
func (n *Members) silenceMax() time.Duration { return max(10*n.cfg.HeartbeatTimeout, 2*time.Second) }

// catchUpSlack is how many entries a new node may lag when it gets its vote.
const catchUpSlack = 64

// awaitCatchUp waits until the new node has the log, by the leader's measurements.
func (n *Members) awaitCatchUp(ctx context.Context, who Identity) error {
	for {
		if _, index := n.do.Progress(raft.ServerID(who.ServerID)); index > 0 && index+catchUpSlack >= n.raft.CommitIndex() {
			return nil
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s has not caught up yet; it will ask to join again: %w", who.ServerID, ctx.Err())
		}
	}
}

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
	_, ok := find(c, n.cfg.ID)
	return ok
}
