package queuefile

import (
	"crypto/sha256"

	"osqueue/fsm"
)

// Sum is a sha-256.
type Sum = [sha256.Size]byte

// Archive is the part of the document from which states can be rebuilt: a base,
// the log behind it, and the tail, which is the part of the log that is in no
// object yet. Package archive writes and reads the objects that it names.
//
//	base ──▶ log[0] ──▶ log[1] ──▶ … ──▶ tail
//	LSN  ==  After,Last == After,Last  == After,Last
//
// An Archive is not changed once it is in a Content.
type Archive struct {
	Base Base
	Log  []Ref
	Tail Tail
}

// Base names a whole state: a blob (package storage/blob) that holds a snapshot
// of the machine.
type Base struct {
	Key string // of the blob's manifest
	LSN fsm.LSN
	// Prev is where the line of history comes from: LSN itself if all entries
	// up to it are in the log; an older LSN if some in between are not recorded,
	// or the state was adopted; zero if nothing was before.
	Prev   fsm.LSN
	At     int64 // the machine's clock, ms
	Raw    int64 // bytes of the snapshot
	Stored int64 // bytes in the bucket
	Sum    Sum   // of the manifest
}

// Ref names an immutable object of the log: a segment, which holds entries, or a
// chapter, which holds refs (package archive tells them apart by their keys).
type Ref struct {
	Key string
	Run
	Stored int64 // bytes in the bucket, of a chapter with its segments
	Sum    Sum   // of the object
}

// Run is a run of log entries: those after one LSN, up to another.
type Run struct {
	After   fsm.LSN // of the entry before the first
	Last    fsm.LSN
	Entries uint64
	From    int64 // clock of the first entry, ms
	Until   int64 // clock of the last entry, ms
	Raw     int64 // bytes of the entries as package archive frames them
}

// Tail is a run of entries that stands in the document itself.
type Tail struct {
	Run
	Data []byte // one zstd frame; empty if there are no entries
	Sum  Sum    // of the entries as they are framed, before compression
}

// LSN is the entry that the archive reaches.
func (a *Archive) LSN() fsm.LSN { return a.Tail.Last }

// Content is what a version of the document holds: the state inline, or an
// archive, or both. While both are there the state counts, and the archive, which
// then may end earlier, is its past.
type Content struct {
	// State is written inline as long as it takes at most InlineMax bytes, or
	// there is no archive that reaches it. nil for content that only has an
	// archive.
	State     *fsm.View
	InlineMax int
	// Meta and Counts are those of the state; of the one that the archive reaches
	// if State is nil.
	Meta    fsm.Meta
	Counts  fsm.Counts
	Archive *Archive // nil: none yet
	// Added are jobs that are to be enqueued and stand beside the archive, which is
	// only possible if State is nil: Document.Jobs of a large document.
	Added []*fsm.Job
}

// Inline is the content that is state v and nothing else.
func Inline(v *fsm.View) *Content {
	return &Content{State: v, Meta: v.Meta(), Counts: v.Counts()}
}

// LSN is the entry that the content is the state after.
func (c *Content) LSN() fsm.LSN {
	if c.State != nil {
		return c.State.LSN()
	}
	return c.Meta.LSN
}
