package cluster

import (
	"context"
	"errors"
	"fmt"
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
	config := n.raft.GetConfiguration().Configuration()
	if voter(config, raft.ServerID(who.ServerID)) {
		return nil
	}
	if err := n.removePredecessors(ctx, config, who); err != nil {
		return err
	}
	id, address := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	if err := n.raft.AddNonvoter(id, address, 0, applyTimeout).Error(); err != nil {
		return fmt.Errorf("add %s as a non-voter: %w", id, err)
	}
	if err := n.awaitCatchUp(ctx, who); err != nil {
		return err
	}
	if err := n.raft.AddVoter(id, address, 0, applyTimeout).Error(); err != nil {
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

// removePredecessors removes the servers whose place the newcomer takes, unless
// one of them is alive: then two nodes were given the same name.
func (n *Node) removePredecessors(ctx context.Context, c raft.Configuration, who Identity) error {
	for _, s := range c.Servers {
		same := nodeName(s.ID) == who.Name || string(s.Address) == who.RaftAddress
		if !same || string(s.ID) == who.ServerID {
			continue
		}
		if p, err := n.ask(ctx, who.HTTPAddress); err == nil && p.ServerID == string(s.ID) {
			return fmt.Errorf("a node %q is running already as %s: give the new one another name and address", who.Name, s.ID)
		}
		if err := n.raft.RemoveServer(s.ID, 0, applyTimeout).Error(); err != nil {
			return fmt.Errorf("remove %s, which %s replaces: %w", s.ID, who.ServerID, err)
		}
		n.log.Info("removed a server whose disk was lost", "server", s.ID)
	}
	return nil
}

// catchUpSlack is how many entries a newcomer may lag when it gets its vote.
const catchUpSlack = 64

func (n *Node) awaitCatchUp(ctx context.Context, who Identity) error {
	for {
		id, err := n.ask(ctx, who.HTTPAddress)
		if err == nil && id.Applied+catchUpSlack >= n.raft.CommitIndex() {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s has not caught up yet; it will ask again: %w", who.ServerID, ctx.Err())
		}
	}
}
