// Package raftlog keeps raft's log and votes on the disk, and notices when the disk
// gives back something else than was written.
//
// # Problem
//
// Raft believes its disk. An entry in which a bit has flipped is applied as it
// stands: from then on this node's state differs from the others', and no checksum
// of a later snapshot tells. A vote or a term that is not the one that was written
// lets a node vote twice. Neither of the stores below guards all of this:
// raft-boltdb checks nothing but the two roots of its file, and quietly goes back to
// the older one when the newer is damaged, without the last transaction.
//
// # What is done
//
// Every entry is sealed with a CRC-32C over its index, term, type and data, in raft's
// field for middleware (Extensions), and stripped of it when it is read: what
// raft sends to other nodes has none. Votes and terms have their checksum under a key
// of their own. Open reads everything once: a damaged log is refused before raft
// starts, and costs one pass over the file, which raft makes anyway.
//
// Entries and votes of older versions have no seal and are taken as they are.
//
// # What is not noticed
//
// Damage that makes entries vanish as a whole, as if they had never been written, looks
// like a shorter log, or like the hole that raft leaves where it was given a state from
// elsewhere. Raft stops when it misses one that it needs.
//
// # Failure stance
//
// ErrDamaged is for good: the node must not start, or must stop. Its data directory
// is to be deleted; it comes back as a new member and gets everything from the others.
package raftlog
