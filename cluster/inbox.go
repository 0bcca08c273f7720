package cluster

import (
	"osqueue/cluster/inbox"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// openInbox creates the inbox, if the configuration has one. The active leader scans it.
func (n *Node) openInbox() {
	if n.cfg.InboxInterval == 0 {
		return
	}
	n.inbox = inbox.New(inbox.Config{
		Bucket:   n.cfg.Bucket,
		Interval: n.cfg.InboxInterval, IdleInterval: n.cfg.InboxIdleInterval,
		Parse:   n.cfg.ReadJob(n.Now),
		Propose: n.ProposeAll,
		Requested: func(req *fsmpb.Request) (known bool) {
			n.replica.read(func(m *fsm.Machine) { known = m.Requested(req) })
			return known
		},
		Flushed: n.WaitFlushed,
		Log:     n.log.Named("inbox"),
	})
}
