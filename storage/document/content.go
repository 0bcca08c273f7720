package document

import (
	"crypto/sha256"

	"osqueue/fsm"
)

// Sum is a SHA-256 checksum.
type Sum = [sha256.Size]byte

// Archive is the part of the document from which states can be rebuilt: a checkpoint,
// the log after it, and the tail, the part of the log that is not in an object yet.
// Package archive writes and reads the objects that an Archive names.
//
//	checkpoint ──▶ log[0] ──▶ log[1] ──▶ … ──▶ tail
//	LSN        ==  After,Last == After,Last  == After,Last
//
// An Archive must not be changed once it is in a Content.
type Archive struct {
	Checkpoint Checkpoint
	Log        []Ref
	Tail       Tail
}

// Checkpoint names a checkpoint, a whole state: a blob (package storage/blob) that has a snapshot
// of the machine.
type Checkpoint struct {
	Key string // key of the manifest of the blob
	LSN fsm.LSN
	// Prev is the LSN from which the history continues: LSN itself if all entries up to it
	// are in the log; an older LSN if some entries in between are not recorded, or the
	// state was adopted; zero if there is no earlier history.
	Prev   fsm.LSN
	At     int64 // the machine's clock, ms
	Raw    int64 // bytes of the snapshot
	Stored int64 // bytes in the bucket
	Sum    Sum   // checksum of the manifest
}

// Ref names an immutable object of the log: a segment, which has entries, or a segment
// index, which has refs. Package archive distinguishes them by their keys.
type Ref struct {
	Key string
	Run
	Stored int64 // bytes in the bucket; for a segment index, including its segments
	Sum    Sum   // checksum of the object
}

// Run is a range of consecutive log entries, after one LSN and up to another.
type Run struct {
	After   fsm.LSN // LSN of the entry before the first
	Last    fsm.LSN
	Entries uint64
	From    int64 // clock of the first entry, ms
	Until   int64 // clock of the last entry, ms
	Raw     int64 // bytes of the entries in the framing of package archive
}

// Tail is a run of entries that the document itself contains.
type Tail struct {
	Run
	Data []byte // one zstd frame; empty if there are no entries
	Sum  Sum    // checksum of the framed entries, before compression
}

// LSN returns the LSN of the last entry that the archive reaches.
func (a *Archive) LSN() fsm.LSN { return a.Tail.Last }

// Content is the content of one version of the document: the state inline, or an archive,
// or both. If both are present, the state counts; the archive is its past and may end
// earlier.
type Content struct {
	// State is written inline as long as it takes at most InlineMax bytes, or if no archive
	// reaches it. It is nil for a content that only has an archive.
	State     *fsm.View
	InlineMax int
	// Meta and Counts belong to the state, or to the state that the archive reaches if
	// State is nil.
	Meta    fsm.Meta
	Counts  fsm.Counts
	Archive *Archive // nil: none yet
	// Added has the jobs that are to be enqueued and accompany the archive: File.Jobs
	// of a large document. It is empty unless State is nil.
	Added []*fsm.Job
}

// Inline returns a content with state v and nothing else.
func Inline(v *fsm.View) *Content {
	return &Content{State: v, Meta: v.Meta(), Counts: v.Counts()}
}

// LSN returns the LSN of the log entry that produced the content.
func (c *Content) LSN() fsm.LSN {
	if c.State != nil {
		return c.State.LSN()
	}
	return c.Meta.LSN
}
