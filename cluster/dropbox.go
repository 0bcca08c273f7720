package cluster

import "osqueue/cluster/inbox"

// openInbox makes the drop box, which is emptied while this node is the active
// leader.
func (n *Node) openInbox() {
	if n.cfg.InboxInterval == 0 {
		return
	}
	n.inbox = inbox.New(inbox.Config{
		Bucket:   n.cfg.Bucket,
		Interval: n.cfg.InboxInterval,
		Parse:    n.cfg.ReadJob(n.Now),
		Propose:  n.proposeAll,
		Flushed:  n.WaitFlushed,
		Log:      n.log.Named("inbox"),
	})
}
