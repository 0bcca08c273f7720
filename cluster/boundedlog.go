package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

const (
	logCacheEntries = 1024 // most entries in the cache of the raft log
	// logCacheBytes is the most bytes of entries in it. Followers that keep up read the newest entries only; the others
	// read from the disk, whose pages the system caches.
	logCacheBytes = 4 << 20
)

// boundedLog caches the newest entries of a raft log, bounded in entries and in bytes,
// and records the sizes of the newest entries. raft.LogCache bounds only the number of
// entries, which may be 16 MiB each. It is safe for concurrent use.
type boundedLog struct {
	raft.LogStore

	mu     sync.RWMutex
	cache  []*raft.Log // by index modulo length
	cached int         // bytes of the entries in cache
	oldest uint64      // no index below it is cached
	sizes  []entrySize // by index modulo length
	last   uint64      // highest index that was stored or read
}

// entrySize is the size of one entry. Index 0 marks an empty slot.
type entrySize struct {
	index uint64
	bytes int
}

// newBoundedLog returns a cache before store that records the sizes of the newest
// remember entries.
func newBoundedLog(store raft.LogStore, remember uint64) *boundedLog {
	return &boundedLog{
		LogStore: store,
		cache:    make([]*raft.Log, logCacheEntries),
		sizes:    make([]entrySize, max(remember, logCacheEntries)),
	}
}

// IsMonotonic implements raft.MonotonicLogStore.
func (b *boundedLog) IsMonotonic() bool {
	m, ok := b.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore.
func (b *boundedLog) GetLog(index uint64, l *raft.Log) error {
	b.mu.RLock()
	c := b.cache[index%uint64(len(b.cache))]
	known := b.sizes[index%uint64(len(b.sizes))].index >= index
	b.mu.RUnlock()
	if c != nil && c.Index == index {
		*l = *c
		return nil
	}
	if err := b.LogStore.GetLog(index, l); err != nil || known {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(l)
	return nil
}

// StoreLog implements raft.LogStore.
func (b *boundedLog) StoreLog(l *raft.Log) error { return b.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (b *boundedLog) StoreLogs(logs []*raft.Log) error {
	if err := b.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range logs {
		b.noteLocked(l)
		b.cacheLocked(l)
	}
	return nil
}

// DeleteRange implements raft.LogStore. It empties the cache, because raft deletes
// seldom.
func (b *boundedLog) DeleteRange(from, to uint64) error {
	b.mu.Lock()
	clear(b.cache)
	b.cached, b.oldest = 0, 0
	if to >= b.last { // the newest entries are replaced
		for i := range b.sizes {
			if b.sizes[i].index >= from {
				b.sizes[i] = entrySize{}
			}
		}
		b.last = from - 1
	}
	b.mu.Unlock()
	return b.LogStore.DeleteRange(from, to)
}

func (b *boundedLog) noteLocked(l *raft.Log) {
	b.sizes[l.Index%uint64(len(b.sizes))] = entrySize{index: l.Index, bytes: transport.EntryBytes(l)}
	b.last = max(b.last, l.Index)
}

func (b *boundedLog) cacheLocked(l *raft.Log) {
	if b.cached == 0 {
		b.oldest = l.Index
	}
	b.oldest = min(b.oldest, l.Index)
	b.dropLocked(l.Index)
	b.cache[l.Index%uint64(len(b.cache))] = l
	b.cached += transport.EntryBytes(l)
	for ; b.cached > logCacheBytes && b.oldest <= l.Index; b.oldest++ {
		if c := b.cache[b.oldest%uint64(len(b.cache))]; c != nil && c.Index == b.oldest {
			b.dropLocked(b.oldest)
		}
	}
}

// dropLocked empties the slot of an index.
func (b *boundedLog) dropLocked(index uint64) {
	slot := &b.cache[index%uint64(len(b.cache))]
	if *slot != nil {
		b.cached -= transport.EntryBytes(*slot)
		*slot = nil
	}
}

// bytesAfter returns the size in bytes of the entries after an index, as far as their
// sizes are recorded.
func (b *boundedLog) bytesAfter(index uint64) (sum int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.sizes {
		if s.index > index {
			sum += s.bytes
		}
	}
	return sum
}

// newest returns how many of the newest entries, at most limit, have at most size bytes
// together.
func (b *boundedLog) newest(limit uint64, size int) (n uint64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for ; n < limit && n < b.last; n++ {
		s := b.sizes[(b.last-n)%uint64(len(b.sizes))]
		if s.index == b.last-n {
			size -= s.bytes
		}
		if size < 0 {
			return n
		}
	}
	return limit
}

const (
	boundLogEvery = time.Second
	// trailingLeast is the least number of entries that stay behind a snapshot, whatever
	// their size: the newest may not be committed yet.
	trailingLeast = 8
)

// boundLog bounds the raft log in bytes; raft itself bounds only the number of entries.
// It makes raft take a snapshot when the entries since the last one are larger than
// SnapshotBytes and than that snapshot, and makes raft keep at most TrailingBytes behind
// it. It runs until the node is closed.
func (n *Node) boundLog() {
	tick := time.NewTicker(boundLogEvery)
	defer tick.Stop()
	var at uint64 // index of the newest snapshot that is known
	var rest time.Time
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		n.boundTrailing()
		if n.stores.bounded.bytesAfter(at) <= n.cfg.SnapshotBytes || time.Now().Before(rest) {
			continue
		}
		least := n.cfg.SnapshotBytes
		if newest, err := n.stores.snapshots.List(); err == nil && len(newest) > 0 {
			at = newest[0].Index
			least = max(least, int(newest[0].Size))
		}
		if n.stores.bounded.bytesAfter(at) <= least {
			continue
		}
		if err := n.await(n.ctx, n.raft.Snapshot()); err != nil {
			n.log.Warn("cannot take a snapshot, although the raft log is large", "error", err)
			rest = time.Now().Add(n.cfg.SnapshotInterval)
		}
	}
}

// boundTrailing sets how many entries raft keeps behind its next snapshot.
func (n *Node) boundTrailing() {
	keep := max(n.stores.bounded.newest(n.cfg.TrailingLogs, n.cfg.TrailingBytes), min(trailingLeast, n.cfg.TrailingLogs))
	if keep == n.raft.ReloadableConfig().TrailingLogs {
		return
	}
	err := n.reloadRaft(func(c *raft.ReloadableConfig) { c.TrailingLogs = keep })
	if err != nil {
		n.log.Warn("cannot limit the entries that raft keeps behind a snapshot", "error", err)
	}
}
