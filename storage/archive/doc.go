// Package archive is what stands in the bucket behind queue.json: bases, which
// are whole states, and the log between them, in immutable objects. It writes
// them, reads states back at any point that is kept, checks them, and says which
// nobody needs any more.
//
// # Problem
//
// Writing the whole state at each flush costs as much as the queue is deep, and
// forgets what was before. So the document names a base and the log since then,
// and a flush adds what is new. All of it has to come back exactly when no
// node is left, must be proof against a writer that dies anywhere, and against
// one that was replaced and does not know it yet.
//
// # Objects
//
//	queue.json                                               the root; see package queuefile
//	base/<lineage>/<prev>~<lsn>~<ms>~<id>/manifest.json      a base (package storage/blob):
//	base/<lineage>/<prev>~<lsn>~<ms>~<id>/000000.part …      a snapshot of the machine, zstd
//	log/<lineage>/<after>~<last>~<ms>~<id>.seg               a segment: a run of entries
//	log/<lineage>/<after>~<last>~<ms>~<id>.idx               a chapter: refs of segments
//
// <ms> is the machine's clock at the last entry, <id> random for each attempt to
// write, so that no two writers ever want the same name: an attempt whose answer
// was lost is left behind as garbage, or found to be there, and a late one harms
// nobody. docs/format.md has all of them byte by byte.
//
//	name.go  object.go  segment.go  chapter.go  base.go    what they are
//	entry.go  tail.go  run.go                              entries, on their way in and out
//	fetch.go  ahead.go  replay.go  load.go                 from objects to a state
//	line.go  history.go                                    which objects lead to which state
//	verify.go  repair.go  salvage.go                       when something is wrong
//	garbage.go  sweep.go  victims.go                       what nobody needs
//	restore.go  restore_root.go                            a state as the first of another lineage
//
// # The line
//
// An LSN names one entry, and all that was before it, for ever: raft sees to it
// within a cluster, and an adoption (cluster) begins in a term that nobody else
// comes to, not even a leader that is gone and left nothing but objects. So two
// segments that overlap hold the same entries where they do, whoever wrote them,
// and the line of history can be walked back from the root by names alone: from
// x to each segment whose last is x, on to its after, and so on; a base at x whose
// prev is older bridges entries that are not recorded. What lies beside the line
// was written by a leader that did not win, and is never walked to.
//
//	base ─▶ seg ─▶ seg ─▶ seg ─▶ ⋯ hole ⋯ ─▶ base ─▶ chapter ─▶ seg ─▶ tail
//	 └──────────── a span ───┘                └───────── a span ─────────┘
//
// The walk needs something that ends exactly where the next thing begins. So a
// base stands at a boundary of segments, the writer cuts the log where it froze
// the state; and prev is a boundary: where the last segment or base of the line
// ended. Whoever begins a new line, by an adoption or because it has not all
// entries, makes a segment of the old document's tail first, or history before it
// is not found any more.
//
// # Order of writing
//
// Whatever is named is there before it is named: parts, manifest, segments,
// chapters, and then the root by compare-and-swap. A writer that dies between any
// two of these leaves the old root, which is whole, and garbage.
//
// # Collection
//
// Only the active leader collects, and only what lies before the oldest base that
// is kept: the newest one on the line that is as old as the window, but never one
// after the root's own. A leader that was replaced and does not know it sees an
// older root, and its successor's root continues from that or from a later one:
// what is garbage to it is garbage to the successor. Nothing after its base is
// garbage to anybody, named or not, however wrong its clock is: with a clock that
// is ahead it can shorten the past, but never hurt a root. Objects beside the line
// with a later LSN than the base that is kept wait until a base has passed them.
// Only a repair can put the root back to before that base. It waits until the leader
// has been silent for long, and a collector that was silent deletes nothing: it looks
// for its own sign of life in the document after it has listed what is there.
//
// The order is from old to new, so that what is left when a collector dies is still
// one line, and manifests go before parts, so that what looks like a base is one.
// Nothing is collected while an object is missing that the root names: then it is
// time for Verify, and for everything that is still there.
//
// The collector holds some 60 MB at most, however many objects there are. One listing yields the
// 65,536 oldest names and the newest million of the line's segments; it is repeated while
// the oldest names are all removed, and while the window has more segments than that. The keys
// are not in the order of their LSNs (2-100 is listed before 2-9), so that a listing cannot
// begin in its middle. The document and the copies are read before the first listing.
//
// # Failure stance
//
// Reading trusts nothing: hashes, links and the entries' own LSNs are checked,
// and what is damaged is an error that names the object, never a shorter state.
// The log has checksums of states now and then (package fsm): a replay that leads to
// another state fails, and neither Verify nor Repair takes that for damage.
// What looks damaged is read once more before that is said. Sizes that are not
// under a sum bound what is decompressed.
//
// Verify looks at everything, with two exceptions that are no damage: what nothing
// names any more may vanish at any time, and what lies beside the line is only
// counted. Repair writes a root with the newest state that is whole, and keeps the
// old root. Neither deletes.
package archive
