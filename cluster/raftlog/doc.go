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
// Log adds a CRC-32C over index, term, type and data to every entry, in raft's field for
// middleware (Extensions), and removes it when the entry is read: entries that raft sends
// to other nodes do not have it. The checksum of a vote or term is under a key of its own.
// The segments of package segment have checksums of their own, so entries in them have none
// of these. OpenSegments and OpenBolt read everything once, so that a damaged log is refused
// before raft starts. This costs one pass over the file, which raft makes anyway.
//
// # Two kinds
//
// The default is segments: one fsync for each append. Votes and terms stay in a raft-boltdb of
// their own (raft/votes.db), because they are written only in elections. Releases without
// segments need the other kind, a single raft-boltdb (raft.db). Each Open function converts a
// log of the other kind. One rename, of raft.db, decides which log counts; layout.go has the
// states. A crash before it leaves the old log, and a crash after it the new one. What does not
// count is removed at the next start. In a directory with segments raft.db is a symbolic link
// to nothing, so that a release without segments ends instead of voting with an empty log.
//
// Entries and votes of older versions have no checksum and are accepted without one.
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
