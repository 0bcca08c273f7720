// Package snapshot stores raft's snapshots on the node's disk, where raft writes and reads
// them, and makes the first one of a new node from the state in the bucket.
//
// # Problem
//
// A node must start without the bucket: raft handles a snapshot from the leader on its main
// goroutine. On the other hand, a new node should not need the whole state from the leader, and
// a damaged snapshot must not let a node start with less than it has confirmed.
//
// # On the disk
//
//	snapshots/<term>-<index>-<ms>/state.bin      the bytes
//	                              meta.json      raft's description
//	                              osqueue.json   the record: the description with the SHA-256
//	snapshots/….tmp                              being written, or left over
//	snapshots-aside/<term>-<index>-<ms>~<ms>/    damaged, or of an abandoned history
//
// raft.FileSnapshotStore writes the first two. One rename makes a snapshot visible and
// durable. The two newest are kept. The newest has the highest term and index, and raft
// continues from it: when a snapshot is written, every snapshot of an earlier process that
// would come before it is set aside. (Raft's own store removes snapshots by term and index.
// If terms start again, because the log was lost and the snapshots were not, it removes the
// snapshot that it has just written.) Within one process raft may finish a snapshot of an
// older entry last, if the leader has sent a newer one during that time; the older one then
// comes second.
//
// # In the bucket
//
// The bucket has one copy of the state, that of the document (package archive). Seed reads it
// for a node that joins a running cluster. A state behind a log entry is the same whichever node
// wrote it; raft needs in addition the term of the entry and the members at that time, which the
// leader adds when it confirms the entry.
//
// # Failure stance
//
// A reader returns the last bytes of a snapshot only if the checksum of all bytes matches,
// so a damaged snapshot never passes for a whole one. Damaged then makes raft take a new one.
// Before raft starts, Prepare checks the newest snapshot. It replaces a damaged one by an older
// one if that loses nothing that this node has confirmed; otherwise it does not let the node
// start, and a directory without snapshots makes it a new one. The last two snapshots that were
// set aside are kept.
//
// A bucket can have the state of a lost history: the majority died after the flush, or was
// restored from an older backup, and the cluster continued from an earlier entry. Raft
// compares entries, not states. A leader whose log reaches back to the first entry would
// send its whole log on top of such a state, and the difference would stay undetected. So a
// node uses the state in the bucket only if the leader's log confirms its last entry.
package snapshot
