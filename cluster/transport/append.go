package transport

import "github.com/hashicorp/raft"

// entryOverhead is about the size in bytes of an entry in addition to its data.
const entryOverhead = 64

// EntryBytes returns the size in bytes of a log entry, in a request and in memory.
func EntryBytes(l *raft.Log) int { return len(l.Data) + len(l.Extensions) + entryOverhead }

// AppendMaxBytes bounds the entries of one AppendEntries request. A follower stores a
// request in one write, and the leader waits for that write with a deadline. A request
// has at least one entry.
const AppendMaxBytes = 4 << 20

// AppendMaxEntries bounds the number of entries in one request. Raft reads all of them
// before cutAppend counts their bytes. Under load, group commit makes entries larger, not
// more.
const AppendMaxEntries = 32

// cutAppend returns the first entries that have at most AppendMaxBytes together, and at
// least one.
func cutAppend(entries []*raft.Log) []*raft.Log {
	sum := 0
	for i, l := range entries {
		if sum += EntryBytes(l); sum > AppendMaxBytes && i > 0 {
			return entries[:i]
		}
	}
	return entries
}
