package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/snapshot"
	"osqueue/internal/sleep"
)

// openStores opens raft's log and snapshots.
func (n *Node) openStores() (err error) {
	if n.raftLog, err = n.openLog(); err != nil {
		return err
	}
	below, err := n.openSnapshots()
	if err != nil {
		return errors.Join(fmt.Errorf("open the snapshots under %s: %w", n.cfg.DataDir, err), n.raftLog.Close())
	}
	n.snapshots = n.raftLog.Snapshots(below)
	if !n.cfg.Memory || n.cfg.testEnv != nil {
		if err := n.raftLog.Witness(n.id, n.cfg.DataDir); err != nil {
			return errors.Join(err, n.raftLog.Close())
		}
	}
	n.wg.Go(func() { n.raftLog.Run(n.down) })
	return nil
}

// memorySegment is the size of a segment of a log in memory, which nothing needs to prepare.
const memorySegment = 64 << 10

func (n *Node) openLog() (*raftlog.Log, error) {
	o := raftlog.Options{
		Stall: n.cfg.LogStallLimit, Fatal: n.die, Before: n.cfg.BeforeLogWrite, Wrote: n.cfg.LogWrote, Closing: n.ctx.Done(), Logger: n.log.Named("raft-log"),
	}
	if !n.cfg.Memory {
		return raftlog.OpenDir(n.cfg.DataDir, o)
	}
	o.Size = memorySegment
	if e := n.cfg.testEnv; e != nil {
		return raftlog.Open(e.disk, o)
	}
	return raftlog.Open(raftlog.Memory(), o)
}

func (n *Node) openSnapshots() (_ raft.SnapshotStore, err error) {
	if e := n.cfg.testEnv; e != nil {
		return e.snapshots, nil
	}
	if n.cfg.Memory {
		return raft.NewInmemSnapshotStore(), nil
	}
	if n.kept, err = snapshot.New(n.snapshotOptions()); err != nil {
		return nil, err
	}
	return n.kept, n.kept.Prepare(n.raftLog)
}

const (
	boundLogEvery = time.Second
	// trailingLeast is the least number of entries that stay behind a snapshot, whatever
	// their size: the newest may not be committed yet.
	trailingLeast = 8
)

// logBound bounds the raft log in bytes; raft itself bounds only the number of entries.
type logBound struct {
	cfg       *Config
	log       hclog.Logger
	raftLog   *raftlog.Log
	snapshots raft.SnapshotStore
	raft      *raft.Raft
	settings  *raftSettings
	await     func(context.Context, raft.Future) error
}

// run makes raft take a snapshot when the entries since the last one are larger than
// SnapshotBytes and than that snapshot, and makes raft keep at most TrailingBytes behind
// it. It runs until ctx ends.
func (b *logBound) run(ctx context.Context) {
	var at uint64 // index of the newest snapshot that is known
	var rest time.Time
	for sleep.For(ctx, boundLogEvery) {
		b.trail()
		if bytesAfter(b.raftLog.Sizes, at) <= b.cfg.SnapshotBytes || time.Now().Before(rest) {
			continue
		}
		least := b.cfg.SnapshotBytes
		if all, err := b.snapshots.List(); err == nil && len(all) > 0 {
			at = all[0].Index
			least = max(least, int(all[0].Size))
		}
		if bytesAfter(b.raftLog.Sizes, at) <= least {
			continue
		}
		if err := b.await(ctx, b.raft.Snapshot()); err != nil {
			b.log.Warn("cannot take a snapshot, although the raft log is large", "error", err)
			rest = time.Now().Add(b.cfg.SnapshotInterval)
		}
	}
}

// trail sets how many entries raft keeps behind its next snapshot.
func (b *logBound) trail() {
	keep := max(newestWithin(b.raftLog.Sizes, b.cfg.TrailingLogs, b.cfg.TrailingBytes), min(trailingLeast, b.cfg.TrailingLogs))
	if keep == b.raft.ReloadableConfig().TrailingLogs {
		return
	}
	err := b.settings.change(func(c *raft.ReloadableConfig) { c.TrailingLogs = keep })
	if err != nil {
		b.log.Warn("cannot limit the entries that raft keeps behind a snapshot", "error", err)
	}
}

// bytesAfter returns the size in bytes of the entries after an index. sizes begin with the newest entry.
func bytesAfter(sizes iter.Seq2[uint64, int], index uint64) (sum int) {
	for i, bytes := range sizes {
		if i <= index {
			break
		}
		sum += bytes
	}
	return sum
}

// newestWithin returns how many of the newest entries, at most limit, have at most size bytes together;
// limit if all of them have.
func newestWithin(sizes iter.Seq2[uint64, int], limit uint64, size int) (n uint64) {
	for _, bytes := range sizes {
		if size -= bytes; size < 0 || n == limit {
			return n
		}
		n++
	}
	return limit
}

func (n *Node) snapshotOptions() snapshot.Options {
	return snapshot.Options{
		Dir:     n.cfg.DataDir,
		Logger:  n.log.Named("snapshot"),
		Watch:   n.raftLog.Watch,
		Damaged: func(error) { sleep.Wake(n.mend) },
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
