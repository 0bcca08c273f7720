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
//	raft -> Log -> Disk: files (segments), votes (raft-boltdb), the witness
//
// Log is the only type with state between raft and the files, and Disk the only interface below it: a directory,
// memory, or the disk of a test. Log has:
//
//   - the newest entries in memory (tail.go): a cache, and behind it the queue of a leader's entries
//     that are not durable. raft sends them while they are written; transport.Outbound keeps the answers
//     of followers back until Await returns;
//   - the segments (segments.go, frame.go, recover.go): where each durable entry is, in files that were
//     filled with zeros once and are used again, so that an append is one write and one fdatasync;
//   - the duty (duty.go), which prepares segments and records where the log starts, while appends continue;
//   - the votes and terms with checksums (votes.go, bolt.go);
//   - the watchdog (watchdog.go), which sees every access for which raft waits, and the record of the start;
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
// Log writes one thing at a time, until a write fails:
//
//	idle -- writeQueue, or beginLocked --> writing -- endLocked --> idle
//	                                          |
//	                                          +-- fails --> fatal: the node is cut off --> err is set: no write begins
//
// Beside that the duty uses other files (maintains), and the witness is written (saving): an append waits for
// neither, except when it needs a segment. The duty reports its failures in the same way.
//
// # The lock
//
// Log.mu guards all state. A goroutine releases it in two places only: unlocked, which runs one access to the disk,
// and waitLocked, which waits until another goroutine has changed the state. "A write is under way" is
// therefore a state, which its readers find while the disk works or hangs, and not a lock.
//
// # Durability
//
// A node that follows confirms an entry when it is durable. On a leader, raft counts its own entry
// when it is queued, but commits it only with the answer of a follower, which waits until the entry
// is durable here. Queued entries are written in order and alone, and a term, a vote, a change of
// the voters and a removal of the end wait for them. After a write that failed none begins. DESIGN.md has the
// rules and the proof, SEGMENTS.md the format of the files and the argument for power cuts.
//
// # Failure stance
//
//   - A disk that hangs is fatal after Options.Stall, for the log and for snapshots.
//   - A write that fails, for example on a full disk, is fatal, and nothing is written after it: a second fsync
//     after a failed one reports success although the data may be lost. That includes the record of the start,
//     which needs no room. A segment that cannot be prepared ahead, a snapshot and an update of the witness are
//     not fatal: the next attempt may succeed.
//   - An interrupted write at the end of the log is removed when the log is opened.
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
