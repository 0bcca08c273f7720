package cluster

import (
	"net"
	"slices"
	"testing"
)

// move starts nodes again, with their disks, at new addresses of both planes. The other nodes are
// restarted with the new --peers.
func (l *lab) move(all []*member, moves func(*member) bool) []*member {
	l.t.Helper()
	peers := slices.Clone(all[0].cfg.Peers)
	listeners := make([]net.Listener, len(all))
	for _, m := range all {
		m.stop()
	}
	for i, m := range all {
		var err error
		if moves(m) {
			listeners[i] = l.listen()
		} else if listeners[i], err = net.Listen("tcp", m.cfg.HTTPAdvertise); err != nil {
			l.t.Fatal(err)
		}
		peers[i].HTTP = listeners[i].Addr().String()
	}
	next := make([]*member, len(all))
	for i, m := range all {
		next[i] = l.open(peers, i, listeners[i], func(c *Config) {
			c.DataDir = m.cfg.DataDir
			if !moves(m) {
				c.RaftAddr = string(m.net.LocalAddr())
			}
		})
	}
	return next
}

// addressesAreTrue waits until raft's configuration has every node at its own address.
func (l *lab) addressesAreTrue(all []*member) {
	l.t.Helper()
	l.eventually("the addresses to be changed", func() bool {
		for _, m := range all {
			for _, s := range m.raft.GetConfiguration().Configuration().Servers {
				for _, o := range all {
					if s.ID == o.id && s.Address != o.net.LocalAddr() {
						return false
					}
				}
			}
		}
		return true
	})
}

// One node, or all nodes, come back with their disks at other addresses. The leader changes the
// configuration, and nothing is lost.
func TestMovedNodes(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]func(*member) bool{
		"one": func(m *member) bool { return m.cfg.Name == "n2" },
		"two": func(m *member) bool { return m.cfg.Name != "n2" },
		"all": func(*member) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			all := l.start("n", 3, nil)
			l.enqueue(l.leader(all...), "a")
			all = l.move(all, moves)
			lead := l.leader(all...)
			l.addressesAreTrue(all)
			l.enqueue(lead, "b")
			for _, m := range all {
				l.eventually("both jobs on "+m.Name(), func() bool { return m.Job("a") != nil && m.Job("b") != nil })
			}
		})
	}
}
