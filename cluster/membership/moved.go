package membership

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// A member may come back with its disk at another address. Raft's configuration still has the old
// one, so no node reaches it. It asks the leader to be moved: the leader checks that the operator
// has named the new address (Add, or --peers) and that the server answers there with its id, and changes
// the address in the configuration.
//
// If so many have moved that there is no leader, each node looks at --peers and the records for the servers of the
// configuration. If all of them answer there with their ids, and nothing listens at an old
// address, the node sends to the new ones. Raft then elects a leader as usual: the voters are the
// same servers with the same logs, so nothing can be elected that could not be elected before.
// A stale disk has another instance in its id, or loses the election by its log; another
// cluster has other ids.

// movedRetry is the time between two attempts to be moved, and movedDial bounds the look whether
// something listens at an old address.
const (
	movedRetry = 2 * time.Second
	movedDial  = 300 * time.Millisecond
)

// errMoved is the reason of a refused move.
var errMoved = errors.New("its configured address still answers")

// mind compares this node's address with the configuration. If they differ it says so once, and
// has the leader change the configuration. Without a leader it looks for servers that moved.
func (n *Members) mind(ctx context.Context) {
	if time.Since(n.minded) < movedRetry {
		return
	}
	n.minded = time.Now()
	config := n.raft.GetConfiguration().Configuration()
	own, _ := find(config, n.cfg.ID)
	if own.ID == "" {
		return
	}
	if _, leader := n.raft.LeaderWithID(); leader == "" {
		n.findMoved(ctx, config)
	}
	if n.raft.State() == raft.Leader {
		n.correct(ctx, config)
	}
	was := own.Address
	if string(was) == n.cfg.RaftAddress {
		return
	}
	if n.told != was {
		n.told = was
		n.log.Warn("the cluster has this node at another address; asking the leader to change it", "configured", was, "true", n.cfg.RaftAddress)
	}
	var err error
	if n.raft.State() == raft.Leader {
		err = n.move(ctx, config, n.Identity())
	} else {
		peers, _ := n.peers.AskAll(ctx) // peers that do not answer are skipped
		err = n.askToJoin(ctx, peers)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Debug("this node's address is not changed yet", "reason", err)
	}
}

// findMoved sends to the present addresses of servers that have moved, if every server of the
// configuration answers at its address in --peers with its id.
func (n *Members) findMoved(ctx context.Context, config raft.Configuration) {
	peers, _ := n.peers.AskAll(ctx) // peers that do not answer are not at
	at := map[raft.ServerID]raft.ServerAddress{n.cfg.ID: raft.ServerAddress(n.cfg.RaftAddress)}
	taken := map[raft.ServerAddress]bool{raft.ServerAddress(n.cfg.RaftAddress): true}
	for _, p := range peers {
		at[raft.ServerID(p.ServerID)] = raft.ServerAddress(p.RaftAddress)
		taken[raft.ServerAddress(p.RaftAddress)] = true
	}
	for _, s := range config.Servers {
		if at[s.ID] == "" {
			return
		}
	}
	for _, s := range config.Servers {
		now := at[s.ID]
		if now == s.Address || s.ID == n.cfg.ID || n.do.At(s.ID, s.Address) == now {
			continue
		}
		if !taken[s.Address] && n.listens(ctx, s.Address) { // two processes may have this id
			n.log.Warn("a server answers at a new address, and something listens at its old one: stop that process",
				"server", s.ID, "configured", s.Address, "true", now)
			continue
		}
		n.do.Move(s.ID, s.Address, now)
		n.log.Warn("there is no leader, and a server of this cluster has moved; sending to its new address", "server", s.ID, "configured", s.Address, "true", now)
	}
}

// correct puts the address into the record of a member that answers at its address in --peers and not at
// that of its record, which is of an earlier life of the cluster if the state comes from the bucket.
func (n *Members) correct(ctx context.Context, config raft.Configuration) {
	for _, s := range config.Servers {
		name := NodeName(s.ID)
		a, admitted := n.do.Admitted(name)
		if !admitted {
			continue
		}
		places := n.peers.places(name)
		if s.ID == n.cfg.ID {
			places = []string{n.cfg.HTTPAddress}
		} else if len(places) == 1 {
			continue
		}
		for _, address := range places {
			id := n.Identity()
			if s.ID != n.cfg.ID {
				id, _ = n.peers.Ask(ctx, address) // one that does not answer has no id
			}
			if id.ServerID != string(s.ID) {
				continue
			}
			if a.HTTP != address {
				a.HTTP = address
				if err := n.do.Admit(ctx, a); err != nil {
					n.log.Debug("cannot correct the address of a node", "node", name, "error", err)
				}
			}
			break
		}
	}
}

func (n *Members) listens(ctx context.Context, address raft.ServerAddress) bool {
	ctx, cancel := context.WithTimeout(ctx, movedDial)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", string(address))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// move changes the address of a member in the configuration. The member must answer at an address that
// the operator has named, and not at its configured one.
func (n *Members) move(ctx context.Context, config raft.Configuration, who Identity) error {
	id, now := raft.ServerID(who.ServerID), raft.ServerAddress(who.RaftAddress)
	server, _ := find(config, id)
	was := server.Address
	if was == now {
		return nil
	}
	for _, s := range config.Servers {
		if s.Address == now && s.ID != id && n.do.At(s.ID, s.Address) == now {
			return runningError(s)
		}
	}
	if id != n.cfg.ID {
		if err := n.expected(ctx, config, who); err != nil {
			return err
		}
		if n.do.At(id, was) != now && n.do.Quiet(id, n.raft.CurrentTerm()) < n.silenceMax() {
			return errMoved
		}
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	if _, member := find(n.raft.GetConfiguration().Configuration(), id); !member {
		return nil // it was removed since
	}
	// For a voter this changes the address only.
	if err := n.do.Await(ctx, n.raft.AddNonvoter(id, now, 0, changeTimeout)); err != nil {
		return err
	}
	n.log.Warn("a server has moved", "server", id, "from", was, "to", now)
	return nil
}
