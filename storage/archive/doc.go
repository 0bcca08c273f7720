// Package archive stores checkpoints of the whole state and the log between them, as immutable
// objects in the bucket next to queue.json. It writes these objects, reads every state back
// that is kept, checks the objects, and lists those that are no longer needed.
//
// # Problem
//
// The cost of writing the whole state at each flush grows with the depth of the queue, and each
// write overwrites the history. So the document names a checkpoint and the log since then, and
// a flush adds only new entries. The archive must restore the exact state when no node is left.
// A writer may crash at any point, and a replaced writer may continue to write because it does
// not know yet that it was replaced.
//
// # Objects
//
//	queue.json                                                  the root; see package document
//	checkpoint/<lineage>/<lsn>~<prev>~<ms>~<id>/manifest.json   a checkpoint (package storage/blob):
//	checkpoint/<lineage>/<lsn>~<prev>~<ms>~<id>/part-000000 …   a snapshot of the machine, zstd
//	log/<lineage>/<last>~<after>~<ms>~<id>.seg                  a segment: a run of entries
//	log/<lineage>/<last>~<after>~<ms>~<id>.idx                  a segment index: refs of segments
//
// The first LSN of a name has a fixed width, so that a listing is in the order of the history.
// <ms> is the machine's clock at the last entry. <id> is random for each attempt to write, so
// two writers never use the same name. If the answer to an attempt is lost, its object is
// either garbage or found in place by the next attempt, and an attempt that arrives late does
// no harm. docs/format.md describes all objects byte by byte.
//
//	name.go  segment.go  checkpoint.go                     the objects
//	tail.go  run.go                                        writing and reading entries
//	fetch.go  replay.go                                    from objects to a state
//	chain.go  history.go                                   the objects that lead to a state
//	verify.go  repair.go                                   detection and repair of damage
//	collect.go                                             collection of unneeded objects
//	restore.go                                             a state as the first of another lineage
//	backup.go                                              copies of a state in another bucket
//
// # The chain
//
// An LSN identifies one entry and all entries before it, permanently. Within a cluster, raft
// guarantees this. An adoption (package cluster) begins in a term that no other leader uses,
// including a lost leader that left only objects. So two segments that overlap hold the same
// entries in the overlap, whichever node wrote them, and the chain of history can be walked back
// from the root by names alone: from x to each segment whose last is x, then to its after, and
// so on. A checkpoint at x with an older prev bridges entries that are not recorded. Objects
// outside of the chain were written by a leader that was replaced, and the walk never reaches them.
//
//	checkpoint ─▶ seg ─▶ seg ─▶ seg ─▶ ⋯ hole ⋯ ─▶ checkpoint ─▶ index ─▶ seg ─▶ tail
//	 └──────────────── a span ─────┘                └──────────── a span ──────────┘
//
// The walk needs an object that ends exactly where the next one begins. So a checkpoint is at a
// boundary of segments: the writer seals the segment at the entry where it froze the state.
// prev is a boundary too: the end of the last segment or checkpoint of the chain. A leader that
// begins a new chain, by an adoption or because it does not have all entries, first writes the
// tail of the old document as a segment. Otherwise the history before the tail could no longer
// be found.
//
// # Order of writing
//
// An object is in the bucket before another one names it: parts, manifest, segments, segment
// indexes, and then the root by compare-and-swap. A writer that dies between two of these steps
// leaves the old root, which is complete, and garbage.
//
// # Collection
//
// The document lists the checkpoints that are kept, in addition to its own: the origin of a young
// queue, one for each hour or so, and each one behind a hole of the log. The leader adds a
// checkpoint when another one replaces it in the document, and drops the first ones when the next
// one is as old as the window. Garbage is
//
//	before the first checkpoint kept                 every object
//	between two that are kept, without a hole        checkpoints that are older than an hour
//
// Everything else stays, also if no document names it: an object in a hole of the log, or behind
// the document's checkpoint, may belong to a later document, or be all that is left of a lost one.
// So the collector walks the two listings, deletes from old to new, a manifest before its parts, and
// stops at the first name behind the garbage. A collector that dies leaves one connected chain.
//
// Only the active leader collects. Another writer may do so, or write, at the same time:
//
//   - The list only loses its first entries and gets new ones behind the others. So garbage by an
//     older document is garbage by each document that follows it: a replaced leader, and a delete that
//     arrives late, do no harm. A name never comes back.
//   - A listing only proposes names: an old one leads to fewer deletes, or to deletes of nothing.
//   - A replaced leader that still writes makes objects that no document names. They are deleted
//     when the list begins behind them.
//   - A fast clock shortens the list, and so the history, but damages no document.
//   - Only a repair moves a document back to before a kept checkpoint. It waits until the leader has
//     been silent for long, and a collector that was silent deletes nothing: after it has listed the
//     objects, it checks that its own heartbeat is in the document.
//
// While an object that the document needs is missing (Audit.Missing), the collector deletes nothing:
// the remaining objects are then needed for Verify and Repair.
//
// # Backups
//
// A backup is a copy of a document in another bucket, with everything that it needs, under the same keys:
//
//	backup/<lineage>/<lsn>~<ms>.json      the document, byte for byte; <ms> is the time of its heartbeat
//	checkpoint/… log/… artefact/…         the objects, those of all backups together
//
// All objects but the document are written once, so that a key that is there is not copied again. Each is compared
// with its checksum on the way. Then the state is rebuilt from the target, artefacts of that state are copied, and the
// document comes last: where it is, the state was read from there. An object that is damaged in the
// target is replaced by that of the source.
//
//   - The leader flushes, writes checkpoints and collects meanwhile. A document names only objects that
//     are there, and these do not change. If one has been collected since the document was read, the copy begins
//     again with the newest document, which shares most objects with it.
//   - A backup that is cut leaves objects that the next one uses, or that are removed when the oldest
//     backup is behind them.
//   - Two backups at once write the same bytes under the same keys. One that ends after a newer one is not
//     written: it could need objects that are being removed.
//   - A target with a document is the bucket of a queue, perhaps the source under another URL, and is refused. So is
//     one with backups of another lineage: which of them would be the newest?
//   - The target is no queue, and a cluster begins none where there are backups (HasArchive).
//   - If the target is full, or one of the two hangs, the backup fails, and the earlier ones stay whole.
//
// Retention goes by the names of backups, not by the clock of this machine: a backup goes when it is older than the newest
// one by more than the time to keep, and so never the newest one. The documents go first, and then what is
// before the checkpoint of the oldest one left, as in a collection. A copy under way is of a
// newer document, whose checkpoint is not before that one. An artefact has one life: if it was made before the
// oldest backup and is not in its state, it is in no later one. Its id says when it was made.
//
// # Failure stance
//
// Reading trusts nothing: hashes, links and the LSNs of the entries are checked. Damage is an
// error that names the object, and never results in a shorter state. The log contains checksums
// of states at intervals (package fsm). A replay that leads to another state fails, and neither
// Verify nor Repair takes this for damage. The manifest of a checkpoint has the checksum of its
// state, which its writer has anyway, because a snapshot ends with it. A reader encodes the state
// that it has read and compares: this doubles the time to read a checkpoint, and a flush costs
// nothing more. An object that looks damaged is read a second time
// before it is reported. A size that no checksum covers only bounds the decompression.
//
// Verify checks everything, with two exceptions that are not damage: objects that are no longer
// named may vanish at any time, and objects outside of the chain are only counted. Repair writes a root
// with the newest complete state, and keeps the old root. Neither deletes objects.
package archive
