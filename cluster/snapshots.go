package cluster

import (
	"github.com/hashicorp/raft"

	"osqueue/cluster/snapshot"
)

// watchedSnapshots reports writes of snapshots that hang to the watchdog: a follower installs a
// snapshot in raft's main goroutine. A write that fails is raft's affair, which tries again. Reads are
// not watched, because a snapshot may come from the bucket.
type watchedSnapshots struct {
	raft.SnapshotStore
	dog *watchdog
}

// Create implements raft.SnapshotStore.
func (s watchedSnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, trans raft.Transport,
) (sink raft.SnapshotSink, err error) {
	err = s.dog.watch("begin a snapshot", 0, func() (err error) {
		sink, err = s.SnapshotStore.Create(version, index, term, c, cIndex, trans)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedSink{SnapshotSink: sink, dog: s.dog}, nil
}

type watchedSink struct {
	raft.SnapshotSink
	dog  *watchdog
	size int // bytes so far, which Close makes durable
}

// Write implements io.Writer.
func (w *watchedSink) Write(p []byte) (n int, err error) {
	w.size += len(p)
	err = w.dog.watch("write a snapshot", len(p), func() (err error) {
		n, err = w.SnapshotSink.Write(p)
		return err
	})
	return n, err
}

// Close implements io.Closer.
func (w *watchedSink) Close() error {
	return w.dog.watch("finish a snapshot", w.size, w.SnapshotSink.Close)
}

func (n *Node) snapshotOptions() snapshot.Options {
	return snapshot.Options{
		Dir:            n.cfg.DataDir,
		Bucket:         n.cfg.Bucket,
		Node:           n.cfg.Name,
		Cluster:        func() string { return n.replica.meta().Cluster },
		UploadInterval: n.cfg.UploadInterval,
		Slack:          n.cfg.TrailingLogs,
		Clock:          n.cfg.Clock,
		Logger:         n.log.Named("snapshot"),
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
