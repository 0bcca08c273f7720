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
//	queue.json                                               the root; see package document
//	base/<lineage>/<prev>~<lsn>~<ms>~<id>/manifest.json      a checkpoint (package storage/blob):
//	base/<lineage>/<prev>~<lsn>~<ms>~<id>/000000.part …      a snapshot of the machine, zstd
//	log/<lineage>/<after>~<last>~<ms>~<id>.seg               a segment: a run of entries
//	log/<lineage>/<after>~<last>~<ms>~<id>.idx               a segment index: refs of segments
//
// <ms> is the machine's clock at the last entry. <id> is random for each attempt to write, so
// two writers never use the same name. If the answer to an attempt is lost, its object is
// either garbage or found in place by the next attempt, and an attempt that arrives late does
// no harm. docs/format.md describes all objects byte by byte.
//
//	name.go  object.go  segment.go  segment_index.go  checkpoint.go  the objects
//	entry.go  tail.go  run.go                              writing and reading entries
//	fetch.go  replay.go                                    from objects to a state
//	line.go  history.go                                    the objects that lead to a state
//	verify.go  repair.go  repair_look.go  recovery.go           detection and repair of damage
//	garbage.go  sweep.go  victims.go                       collection of unneeded objects
//	restore.go  restore_root.go                            a state as the first of another lineage
//
// # The line
//
// An LSN identifies one entry and all entries before it, permanently. Within a cluster, raft
// guarantees this. An adoption (package cluster) begins in a term that no other leader uses,
// including a lost leader that left only objects. So two segments that overlap hold the same
// entries in the overlap, whichever node wrote them, and the line of history can be walked back
// from the root by names alone: from x to each segment whose last is x, then to its after, and
// so on. A checkpoint at x with an older prev bridges entries that are not recorded. Objects
// off the line were written by a leader that was replaced, and the walk never reaches them.
//
//	checkpoint ─▶ seg ─▶ seg ─▶ seg ─▶ ⋯ hole ⋯ ─▶ checkpoint ─▶ index ─▶ seg ─▶ tail
//	 └──────────────── a span ─────┘                └──────────── a span ──────────┘
//
// The walk needs an object that ends exactly where the next one begins. So a checkpoint is at a
// boundary of segments: the writer seals the segment at the entry where it froze the state.
// prev is a boundary too: the end of the last segment or checkpoint of the line. A leader that
// begins a new line, by an adoption or because it does not have all entries, first writes the
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
// Only the active leader collects, and it deletes only objects before the oldest checkpoint
// that is kept. This is the newest checkpoint on the line that is as old as the window, but
// never one after the root's own. A replaced leader that does not know it yet sees an older
// root, and the root of its successor continues from that root or from a later one: garbage for
// the old leader is garbage for the successor. A leader never deletes objects after its root's
// checkpoint, named or not, however wrong its clock is: a fast clock can shorten the history,
// but cannot damage a root. Objects off the line with a later LSN than the kept checkpoint wait
// until a kept checkpoint has passed them. Only a repair can move the root back to before the
// kept checkpoint. A repair waits until the leader has been silent for long, and a collector
// that was silent deletes nothing: after it has listed the objects, it checks that its own
// heartbeat is in the document.
//
// Objects are deleted from old to new, so that a crash of the collector leaves one connected
// line. A manifest is deleted before its parts, so that each checkpoint with a manifest is
// complete. While an object that the root names is missing, the collector deletes nothing: the
// remaining objects are then needed for Verify and Repair.
//
// The collector uses about 60 MB at most, however many objects there are. One listing yields
// the 65,536 oldest names and the newest million of the line's segments. The listing is
// repeated while all of the oldest names are removed, and while the window has more segments
// than that. The keys are not in the order of their LSNs (2-100 is listed before 2-9), so a
// listing cannot begin in the middle. The document and the copies are read before the first
// listing.
//
// LSNs of a fixed width in the names would make the order of the keys that of the history. It
// would not save a listing: the collector walks the line from the root back to the beginning
// of the window, so it needs the names of the whole window before it knows which of the oldest
// ones may go, and the archive check lists only the common prefix of the objects that the root
// names. So LSNs are not padded.
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
// named may vanish at any time, and objects off the line are only counted. Repair writes a root
// with the newest complete state, and keeps the old root. Neither deletes objects.
package archive
