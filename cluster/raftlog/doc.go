// Package raftlog is the log of a raft node: its entries, votes and terms on the disk, with the
// witness and raft's snapshots beside them.
//
// # Problem
//
// Raft trusts its disk. It continues after a write that failed, waits without end for a disk that
// hangs, applies an entry with a flipped bit as it is, and votes with any log that it finds, also an
// older copy. It stores an entry on the leader before it sends it, so that a commit takes two fsyncs
// in a row. It cannot answer a leader about the entry of a snapshot that it has restored.
//
// # Layers
//
//	raft -> Log -> Store, which is Disk: segment.Log (entries), votes (raft-boltdb with checksums)
//
// Log has everything between raft and the files:
//
//   - the newest entries in memory (tail.go): a cache, and behind it the queue of a leader's entries
//     that are not durable. raft sends them while they are written; transport.Outbound keeps the answers
//     of followers back until Await returns;
//   - the watchdog (watchdog.go), which sees every access to the disk;
//   - the witness (witness.go), a file that claims what the log has, so that a lost or older log is
//     noticed;
//   - the base (snapshots.go), the entry of the newest snapshot, which raft asks for behind a
//     restored state.
//
// # States
//
// A leader's entry is queued, another one is durable when StoreLogs returns. The newest durable ones
// are in memory, too:
//
//	leader: queued --+
//	                 +-- written, synced --> cached -- 1024 newer ones, 4 MiB --> on the disk only
//	others: ---------+
//
// Log works, until a write fails:
//
//	works -- a write fails --> fatal: the node is cut off --> err is set: nothing is written any more
//
// # Locks
//
// Log.mu guards all that is in memory, and is not held during an access to the disk. Log.disk, a
// semaphore, is held by the one write that is under way; a holder takes mu for a moment. The
// witness is written under a lock of its own, because an append must not wait for that fsync. The
// order is disk, witness.mu, mu.
//
// # Durability
//
// A node that follows confirms an entry when it is durable. On a leader, raft counts its own entry
// when it is queued, but commits it only with the answer of a follower, which waits until the entry
// is durable here. Queued entries are written in order and alone, and a term, a vote, a change of
// the voters and a removal wait for them. After a write that failed nothing is written: a direct
// write that waited for the queue checks for that when it has the disk. DESIGN.md has the rules, and the proof.
//
// # Failure stance
//
//   - A disk that hangs is fatal after Options.Stall, for the log and for snapshots.
//   - A write that fails, for example on a full disk, is fatal. Removing the start of the log is
//     not, and neither are a snapshot and an update of the witness: the next attempt may succeed.
//   - Data that differs from the written data is ErrDamaged, when the log is opened (which reads
//     everything once) or when an entry is read later. It is permanent: the node must not start, or
//     must stop. The operator deletes its data directory; the node returns as a new member and gets
//     everything from the other nodes. raft-boltdb only checks the two roots of its file, and if the
//     newer one is damaged it silently uses the older one; so Open checks both.
//   - If damage makes whole entries disappear, the log looks shorter, or it has a hole like the one
//     after a restored state. The witness finds the first, except for the last second before a kill;
//     raft stops when it needs a missing entry.
//   - A node keeps committed entries that no snapshot on the disk contains: it ends if raft removes
//     them.
//
// A node with a fatal error sends nothing more (Node.die). Entries can still be read, so that it
// ends in order.
package raftlog
