// Package snapshot keeps raft's snapshots: on the node's disk, where raft writes
// and reads them, and in the bucket, where nodes that have none find one.
//
// # Problem
//
// A node must start without the bucket, and must not wait for it while it writes
// a snapshot: one that the leader sends arrives on raft's main goroutine. But a
// new node should not have to get the whole state from the leader, and a
// damaged disk should not be the end of a node.
//
// # On the disk
//
//	snapshots/<term>-<index>-<ms>/state.bin      the bytes
//	                              meta.json      raft's description
//	                              osqueue.json   the description again, with the sha-256
//	snapshots/….tmp                              being written, or left over
//	snapshots-aside/<term>-<index>-<ms>~<ms>/    damaged or of a line that was left
//
// raft.FileSnapshotStore writes the first two. A snapshot becomes visible, and
// durable, by one rename. The two newest are kept. The newest is the one with
// the highest term and index, and that is what raft goes on from, because
// whatever of an earlier life would come before it is set aside when it is written.
// (Raft's own store removes by term and index. If terms begin again, because the log
// was lost and the snapshots were not, it removes what it has just written.) Within a
// life raft may finish one of an older entry last, if the leader has sent a newer one
// meanwhile: that comes second.
//
// A snapshot from before osqueue.json was written has raft's checksum only.
//
// # In the bucket
//
//	snapshots/<cluster>/<node>/<term>-<index>-<ms>~<id>/000000.part …   package storage/blob
//	snapshots/<cluster>/<node>/<term>-<index>-<ms>~<id>/manifest.json   written last
//
// Each attempt has a name of its own. The manifest's meta is the content of
// osqueue.json, with the names of cluster and node. Term is raft's term: an
// LSN's can be higher (package cluster).
//
//	raft ── Create, Close ──▶ disk ── due ──▶ Run ──▶ bucket
//	     ◀─ List, Open ────── disk              │
//	     ◀─ Open, if the disk has lost it ──────┘
//
// Run uploads the newest snapshot, at most one in ten minutes, unless the bucket
// has one, of any node, that is less than Slack entries older: then the leader
// has the log behind that one, too, and three nodes upload about one. What
// cannot be uploaded stays on the disk and is tried again.
//
// # Failure stance
//
// Nothing is taken for whole that is not: a reader gets the last bytes only if
// the sum of all is right. What is damaged on the disk is looked for in the
// bucket (Open), by the same term and index, at which all nodes have the same
// state. Before raft starts, Prepare checks the newest one, and replaces it if it can
// do so without losing anything that this node has confirmed; it does not let
// the node start with less. The last two that were damaged are kept aside.
//
// A bucket can hold snapshots of a history that was lost: the majority died
// after the upload, or was put back to an older backup, and the cluster went on
// from an earlier entry. Raft compares entries, not states: a leader whose log
// reaches back to the first entry would send all of it on top of such a state,
// and nobody would notice. So a snapshot from the bucket is used only if a log
// vouches for it: this node's own in Prepare, and the leader's in
// FetchOptions.Accept.
package snapshot
