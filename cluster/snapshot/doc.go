// Package snapshot stores raft's snapshots: on the node's disk, where raft writes and reads
// them, and in the bucket, for nodes that have none.
//
// # Problem
//
// A node must start without the bucket, and must not wait for the bucket while it writes a
// snapshot: raft handles a snapshot from the leader on its main goroutine. On the other
// hand, a new node should not need the whole state from the leader, and a damaged disk
// should not end the life of a node.
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
// A snapshot of a release without osqueue.json only has raft's checksum.
//
// # In the bucket
//
//	snapshots/<cluster>/<node>/<term>-<index>-<ms>~<id>/000000.part …   package storage/blob
//	snapshots/<cluster>/<node>/<term>-<index>-<ms>~<id>/manifest.json   written last
//
// Each attempt has its own name. The meta field of the manifest is the content of
// osqueue.json with the names of cluster and node. Term is raft's term; the term of an LSN
// can be higher (package cluster).
//
//	raft ── Create, Close ──▶ disk ── due ──▶ Run ──▶ bucket
//	     ◀─ List, Open ────── disk              │
//	     ◀─ Open, if the disk has lost it ──────┘
//
// Run uploads the newest snapshot, at most one every ten minutes. It skips the upload if
// the bucket has a snapshot, of any node, that is at most Slack entries older: the leader
// then has the log after that one, too, and three nodes upload about one snapshot. A
// snapshot that cannot be uploaded stays on the disk, and Run tries again.
//
// # Failure stance
//
// A reader returns the last bytes of a snapshot only if the checksum of all bytes matches,
// so a damaged snapshot never passes for a whole one. If a snapshot on the disk is damaged,
// Open looks for one in the bucket with the same term and index, at which all nodes have
// the same state. Before raft starts, Prepare checks the newest snapshot. It replaces a
// damaged one if that loses nothing that this node has confirmed; otherwise it does not let
// the node start. The last two snapshots that were set aside are kept.
//
// A bucket can have snapshots of a lost history: the majority died after the upload, or was
// restored from an older backup, and the cluster continued from an earlier entry. Raft
// compares entries, not states. A leader whose log reaches back to the first entry would
// send its whole log on top of such a state, and the difference would stay undetected. So a
// node uses a snapshot from the bucket only if a log confirms it: its own log in Prepare,
// and the leader's log in FetchOptions.Accept.
package snapshot
