package raftlog

import (
	"slices"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

const (
	cacheEntries = 1024 // most durable entries in memory
	// cacheBytes is the most bytes of them. Followers that keep up read the newest entries only; the others
	// read from the disk, whose pages the system caches.
	cacheBytes = 4 << 20
	// queueBytes bounds the queue. A larger append waits until the queue is empty.
	queueBytes = 4 << 20
)

// tail has the newest entries of a log, with consecutive indexes: first a cache of durable entries,
// then the queue, whose entries are not durable. raft.LogCache bounds only the number of entries,
// which may be 16 MiB each.
type tail struct {
	entries                []*raft.Log
	cached                 int // number of entries in the cache
	cacheBytes, queueBytes int
}

func (t *tail) queue() []*raft.Log { return t.entries[t.cached:] }

// precedes reports whether an entry follows those in memory, or there are none.
func (t *tail) precedes(index uint64) bool {
	n := len(t.entries)
	return n == 0 || t.entries[n-1].Index+1 == index
}

// at returns the entry at an index, or nil.
func (t *tail) at(index uint64) *raft.Log {
	if n := uint64(len(t.entries)); n > 0 && index-t.entries[0].Index < n { // also if index is less: the difference wraps
		return t.entries[index-t.entries[0].Index]
	}
	return nil
}

// push adds entries of some bytes to the queue.
func (t *tail) push(logs []*raft.Log, bytes int) {
	if cap(t.entries)-len(t.entries) < len(logs) {
		t.entries = slices.Grow(t.entries, len(t.entries)+len(logs)) // its start was dropped, so move the rest seldom
	}
	t.entries = append(t.entries, logs...)
	t.queueBytes += bytes
}

// stored records that entries are durable: the first ones of the queue, or others while the queue
// is empty.
func (t *tail) stored(logs []*raft.Log) {
	bytes := bytesOf(logs)
	if len(t.queue()) == 0 {
		if !t.precedes(logs[0].Index) { // raft has restored a state
			*t = tail{}
		}
		t.push(logs, bytes)
	}
	t.cached += len(logs)
	t.cacheBytes += bytes
	t.queueBytes -= bytes
	for t.cached > 0 && (t.cached > cacheEntries || t.cacheBytes > cacheBytes) {
		t.drop()
	}
}

// drop removes the oldest entry, which is durable, from memory.
func (t *tail) drop() {
	t.cacheBytes -= transport.EntryBytes(t.entries[0])
	t.entries[0] = nil
	t.entries = t.entries[1:]
	t.cached--
}

// remove removes the start or the end of the log. The queue is empty, or behind the range.
func (t *tail) remove(from, to uint64) {
	if n := len(t.entries); n == 0 || len(t.queue()) > 0 || t.entries[n-1].Index > to {
		for t.cached > 0 && t.entries[0].Index <= to {
			t.drop()
		}
		return
	}
	for t.cached > 0 && t.entries[t.cached-1].Index >= from {
		t.cached--
		t.cacheBytes -= transport.EntryBytes(t.entries[t.cached])
		t.entries[t.cached] = nil
		t.entries = t.entries[:t.cached]
	}
}
