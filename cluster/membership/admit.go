package membership

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/sleep"
)

// errNotLeader is the answer of a node that is not raft's leader.
var errNotLeader = errors.New("this node is not the active leader")

// changeTimeout bounds how long raft may take to accept one change of the configuration.
const changeTimeout = 10 * time.Second

// admit adds a node to the cluster. It adds the node without a vote, removes the server that
// had the node's name, waits until the node has caught up, and gives it a
// vote, unless it is to stay without one. Each step may be repeated. It returns errNotLeader if this node is not raft's
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
	id, address := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	if err := n.addNonvoter(ctx, who); err != nil {
		return err
	}
	if n.stays(who.Name) {
		return nil
	}
	if err := n.awaitCatchUp(ctx, who); err != nil {
		return err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	if _, member := find(n.raft.GetConfiguration().Configuration(), id); !member || n.stays(who.Name) {
		return nil // it was removed or demoted since: it asks again, and hears so
	}
	if len(n.silent(ctx, []raft.ServerID{id})) > 0 {
		return fmt.Errorf("%s does not answer any more", id)
	}
	if err := n.do.Await(ctx, n.raft.AddVoter(id, address, 0, changeTimeout)); err != nil {
		return fmt.Errorf("give %s a vote: %w", id, err)
	}
	n.log.Info("a node joined the cluster", "server", id)
	return nil
}

// stays reports whether a node stays without a vote.
func (n *Members) stays(name string) bool {
	a, _ := n.do.Admitted(name)
	return a.NonVoter
}

// addNonvoter adds a node without a vote, and removes the servers that it replaces.
func (n *Members) addNonvoter(ctx context.Context, who Identity) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.raft.GetConfiguration().Configuration()
	if err := n.listed(c, who); err != nil { // it may have been removed since
		return err
	}
	before, err := n.predecessors(ctx, c, who)
	if err != nil {
		return err
	}
	for _, s := range before {
		if s.Address == raft.ServerAddress(who.RaftAddress) { // raft takes no address twice, and the name stays in the list
			if err := n.do.Await(ctx, n.raft.AddNonvoter(s.ID, nowhere(s.ID), 0, changeTimeout)); err != nil {
				return fmt.Errorf("take the address of %s, which %s replaces: %w", s.ID, who.ServerID, err)
			}
		}
	}
	id, address := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	if s, member := find(c, id); !member || s.Address != address {
		if err := n.do.Await(ctx, n.raft.AddNonvoter(id, address, 0, changeTimeout)); err != nil {
			return fmt.Errorf("add %s as a non-voter: %w", id, err)
		}
	}
	for _, s := range before {
		if err := n.do.Await(ctx, n.raft.RemoveServer(s.ID, 0, changeTimeout)); err != nil {
			return fmt.Errorf("remove %s, which %s replaces: %w", s.ID, who.ServerID, err)
		}
		n.log.Warn("removed the old server of a node that has a new identity", "server", s.ID, "by", who.ServerID)
	}
	return nil
}

// nowhere returns an address of a server that is gone: it has no port, so that nobody connects to it.
func nowhere(id raft.ServerID) raft.ServerAddress { return raft.ServerAddress("replaced:" + id + ":") }

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

// predecessors returns the servers that the new node replaces. It returns an error if one of them
// may still be running.
func (n *Members) predecessors(ctx context.Context, c raft.Configuration, who Identity) (before []raft.Server, err error) {
	for _, s := range c.Servers {
		same := NodeName(s.ID) == who.Name || string(s.Address) == who.RaftAddress
		if !same || string(s.ID) == who.ServerID {
			continue
		}
		if err := n.isGone(ctx, s, who); err != nil {
			return nil, err
		}
		before = append(before, s)
	}
	return before, nil
}

// listed returns an error unless the operator has named the node: its name is in the configuration, or admitted.
func (n *Members) listed(c raft.Configuration, who Identity) error {
	if _, member := named(c, who.Name); member {
		return nil
	}
	if _, admitted := n.do.Admitted(who.Name); admitted {
		return nil
	}
	return refuse("node %s is neither a member nor admitted: check its --name, or admit it: osqueue cluster add %s %s",
		who.Name, who.Name, shown(who.HTTPAddress))
}

// shown returns an address of a request, which may be anything, for a message.
func shown(address string) string {
	if !addressPattern.MatchString(address) {
		return "HOST:PORT"
	}
	return address
}

var addressPattern = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]{1,128}$`)

// expected returns an error unless the operator has named the new node, and the node that
// answers at one of the addresses known for its name is the new one, with the raft address
// of the request. The leader sends nothing to the addresses of the request: anybody may
// send one.
func (n *Members) expected(ctx context.Context, c raft.Configuration, who Identity) error {
	if err := n.listed(c, who); err != nil {
		return err
	}
	advice := fmt.Sprintf("if it has another address, say so: osqueue cluster add %s %s", who.Name, shown(who.HTTPAddress))
	var errs []error
	for _, address := range n.peers.places(who.Name) {
		id, err := n.peers.Ask(ctx, address)
		i := slices.IndexFunc(c.Servers, func(s raft.Server) bool { return id.ServerID == string(s.ID) && id.ServerID != who.ServerID })
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("node %s does not answer at %s: %w", who.Name, address, err))
		case i >= 0:
			errs = append(errs, runningError(c.Servers[i]))
		case id.ServerID != who.ServerID || id.RaftAddress != who.RaftAddress:
			errs = append(errs, fmt.Errorf("node %s asks as %s with the raft address %s, but %s is that of %s with %s: check --http-advertise and --raft-advertise",
				who.Name, who.ServerID, who.RaftAddress, address, id.ServerID, id.RaftAddress))
		default:
			return nil
		}
	}
	if len(errs) == 0 {
		errs = append(errs, fmt.Errorf("the address of node %s is not known", who.Name))
	}
	return fmt.Errorf("%w; %s", errors.Join(errs...), advice)
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
	sameAddress := string(s.Address) == who.RaftAddress
	switch {
	case s.ID == n.cfg.ID:
		return runningError(s)
	case name != who.Name:
		return fmt.Errorf("raft address %s belongs to node %s: give %s an address of its own", s.Address, name, who.Name)
	}
	err := fmt.Errorf("its address is not known: osqueue cluster add %s HOST:PORT", name)
	for _, address := range n.peers.places(name) {
		var id Identity
		id, err = n.peers.Ask(ctx, address)
		switch {
		case err == nil && id.ServerID == string(s.ID):
			return runningError(s)
		case err == nil && id.ServerID == who.ServerID:
			return nil
		case err == nil:
			err = fmt.Errorf("%s answers as %s", address, id.ServerID)
		}
	}
	switch {
	case sameAddress:
		return fmt.Errorf("cannot check whether %s still runs: %w", s.ID, err)
	case n.mayRun(s.ID):
		return runningError(s)
	}
	return nil
}

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
