package cluster

import "osqueue/cluster/snapshot"

func (n *Node) snapshotOptions() snapshot.Options {
	return snapshot.Options{
		Dir:    n.cfg.DataDir,
		Logger: n.log.Named("snapshot"),
		Watch: func(what string, bytes int, fn func() error) error {
			if n.raftLog == nil { // the node is not open yet
				return fn()
			}
			return n.raftLog.Watch(what, bytes, fn)
		},
		Damaged: func(error) {
			select {
			case n.mend <- struct{}{}:
			default:
			}
		},
	}
}

// mendSnapshots makes raft take a new snapshot each time n.mend signals that the one on
// the disk is damaged. It runs until the node is closed.
func (n *Node) mendSnapshots() {
	for {
		select {
		case <-n.mend:
		case <-n.ctx.Done():
			return
		}
		if err := n.await(n.ctx, n.raft.Snapshot()); err != nil && n.ctx.Err() == nil {
			n.log.Warn("cannot write a new snapshot in place of the damaged one", "error", err)
		}
	}
}
