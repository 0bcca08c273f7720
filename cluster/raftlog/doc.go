// Package raftlog stores raft's log and votes on the disk, and detects when the disk
// returns other data than was written.
//
// # Problem
//
// Raft trusts its disk. It applies an entry with a flipped bit as it is. From then on this
// node's state differs from those of the other nodes, and no checksum of a later snapshot
// shows it. A wrong vote or term lets a node vote twice. The stores below this package do
// not detect all of this: raft-boltdb only checks the two roots of its file, and if the
// newer root is damaged it silently uses the older one, without the last transaction.
//
// # Approach
//
// A data directory has the directory raft with two parts. The entries are in segments (package segment),
// which have checksums of their own and need one fsync for an append. Votes and terms are in a
// raft-boltdb (raft/votes.db), because they are written only in elections. Log adds the checksum of each vote
// and term, under a key of its own. Open reads everything once, so that a damaged log is refused
// before raft starts. This costs one pass over the files, which raft makes anyway.
//
// # Undetected damage
//
// If damage makes whole entries disappear, the log looks shorter, or it has a hole like the
// one after a restored state. Raft stops when it needs a missing entry.
//
// # Failure stance
//
// ErrDamaged is permanent: the node must not start, or must stop. The operator deletes its
// data directory; the node returns as a new member and gets everything from the other
// nodes.
package raftlog
