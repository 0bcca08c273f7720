// Package segment stores a raft log in files that are allocated once and used again, so
// that an append is one write and one fdatasync.
//
// # Problem
//
// A commit waits for two appends, one after the other: the leader's and a follower's. An
// append to a B-tree (bbolt) writes pages in many places and syncs twice. An append to a
// growing file syncs the metadata of the file system as well. Deleting a file takes
// milliseconds, during which appends wait.
//
// # Approach
//
// The log is a sequence of frames, one for each write, in segments: files of a fixed size
// that were filled with zeros. A removal of the end is a frame, too; nothing is overwritten.
// A segment whose entries are all removed gets a new generation and becomes a spare. Every
// sector has a checksum with its generation, so that old content cannot pass for new
// content. One goroutine, which belongs to the Log, prepares spares and records where the
// log starts:
//
//	             first frame                  no entry counts
//	+--> spare ---------------> live segment -----------------> released --+--> removed
//	|                                                                      |
//	+---------------------- new generation in the header ------------------+
//
// # Failure stance
//
// After a write or a sync has failed, the Log refuses every further write: a second fsync
// after a failed one reports success although the data may be lost. Entries that were
// acknowledged can still be read, so that the node can end in order.
//
// An interrupted write at the end of the log is removed when it is opened. Any other
// damage is ErrDamaged, which is permanent: the node must not start. DESIGN.md has the
// format, and argues each case.
package segment
