package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// admit takes a node into the cluster: the server that had its name or address
// before goes, the new one catches up without a vote, then gets one. Each step
// may be repeated.
func (n *Node) admit(ctx context.Context, who Identity) error {
	if n.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	if !namePattern.MatchString(who.Name) || nodeName(raft.ServerID(who.ServerID)) != who.Name || who.RaftAddress == "" {
		return errors.New("the identity is not complete")
	}
	if err := who.knows(n.replica.meta().Level); err != nil {
		return err
	}
	config := n.raft.GetConfiguration().Configuration()
	if voter(config, raft.ServerID(who.ServerID)) {
		return nil
	}
	if err := n.expected(ctx, config, who); err != nil {
		return err
	}
	if err := n.removePredecessors(ctx, config, who); err != nil {
		return err
	}
	id, address := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	if err := n.waitFuture(ctx, n.raft.AddNonvoter(id, address, 0, applyTimeout)); err != nil {
		return fmt.Errorf("add %s as a non-voter: %w", id, err)
	}
	if err := n.awaitCatchUp(ctx, who); err != nil {
		return err
	}
	if err := n.waitFuture(ctx, n.raft.AddVoter(id, address, 0, applyTimeout)); err != nil {
		return fmt.Errorf("give %s a vote: %w", id, err)
	}
	n.log.Info("a node joined the cluster", "server", id)
	return nil
}

func voter(c raft.Configuration, id raft.ServerID) bool {
	for _, s := range c.Servers {
		if s.ID == id {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// removePredecessors removes the servers whose place the newcomer takes. It refuses
// if one of them is not certain to be gone, or if nobody who is expected joins.
func (n *Node) removePredecessors(ctx context.Context, c raft.Configuration, who Identity) error {
	var before []raft.Server
	for _, s := range c.Servers {
		same := nodeName(s.ID) == who.Name || string(s.Address) == who.RaftAddress
		if !same || string(s.ID) == who.ServerID {
			continue
		}
		if err := n.isGone(ctx, s, who); err != nil {
			return err
		}
		before = append(before, s)
	}
	for _, s := range before {
		if err := n.waitFuture(ctx, n.raft.RemoveServer(s.ID, 0, applyTimeout)); err != nil {
			return fmt.Errorf("remove %s, which %s replaces: %w", s.ID, who.ServerID, err)
		}
		n.log.Warn("removed a server that is gone; another one of its name replaces it", "server", s.ID, "by", who.ServerID)
	}
	return nil
}

// expected refuses a newcomer that the operator has not announced in --peers, or that
// does not answer as the node that it says it is.
func (n *Node) expected(ctx context.Context, c raft.Configuration, who Identity) error {
	known := n.cfg.peerHTTP(who.Name) != "" || slices.ContainsFunc(c.Servers, func(s raft.Server) bool {
		return nodeName(s.ID) == who.Name
	})
	if !known {
		return fmt.Errorf("node %s is not in the leader's --peers: check its --name; to add a node, "+
			"first restart the nodes of the cluster with it in their --peers, one by one", who.Name)
	}
	id, err := n.ask(ctx, who.HTTPAddress)
	if err != nil {
		return fmt.Errorf("node %s does not answer at its HTTP address: %w", who.Name, err)
	}
	if id.ServerID != who.ServerID {
		return fmt.Errorf("%s is the HTTP address of %s, not of %s: check --http-advertise", who.HTTPAddress, id.ServerID, who.ServerID)
	}
	return nil
}

// isGone returns nil if s, a server whose name or raft address the newcomer has, is
// certain not to run any more. It is asked at its own HTTP address. If it does not
// answer there, what counts is whether it answered the leader's requests; a server
// at the newcomer's raft address seems to, since raft does not say whom it means.
func (n *Node) isGone(ctx context.Context, s raft.Server, who Identity) error {
	name := nodeName(s.ID)
	running := fmt.Errorf("node %s is running as %s at %s: stop it for good before another node takes its name, "+
		"or give the new one a name and address of its own", name, s.ID, s.Address)
	address := n.cfg.peerHTTP(name)
	switch {
	case s.ID == n.id:
		return running
	case name != who.Name && address != "":
		return fmt.Errorf("raft address %s belongs to node %s: give %s an address of its own", s.Address, name, who.Name)
	}
	if address != "" {
		id, err := n.ask(ctx, address)
		switch {
		case err == nil && id.ServerID == string(s.ID):
			return running
		case err == nil && id.ServerID == who.ServerID:
			return nil
		case string(s.Address) == who.RaftAddress:
			return fmt.Errorf("whether %s still runs cannot be known, %s, its address in --peers, does not answer as it or as %s: %w",
				s.ID, address, who.ServerID, err)
		}
	}
	if quiet := n.out.quiet(s.ID, n.raft.CurrentTerm()); string(s.Address) != who.RaftAddress && quiet < n.silenceMax() {
		return running
	}
	return nil
}

// silenceMax is how long a server that is to be replaced must not have answered its
// leader.
func (n *Node) silenceMax() time.Duration { return max(10*n.cfg.HeartbeatTimeout, 2*time.Second) }

// catchUpSlack is how many entries a newcomer may lag when it gets its vote.
const catchUpSlack = 64

// awaitCatchUp waits until the newcomer has the log, as the leader has measured.
func (n *Node) awaitCatchUp(ctx context.Context, who Identity) error {
	for {
		if _, index := n.out.progress(raft.ServerID(who.ServerID)); index > 0 && index+catchUpSlack >= n.raft.CommitIndex() {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s has not caught up yet; it will ask again: %w", who.ServerID, ctx.Err())
		}
	}
}
