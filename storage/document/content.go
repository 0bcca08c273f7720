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
	// Checkpoint is the zero Checkpoint in the document of a young queue: its log begins with
	// an empty machine.
	Checkpoint Checkpoint
	Log        []Ref
	Tail       Tail
	// Kept lists the earlier checkpoints from which states can be restored, oldest first. The
	// first one is the zero Kept, the empty machine, while the log of the young queue is kept.
	Kept []Kept
}

// Kept is an earlier checkpoint that is not to be deleted.
type Kept struct {
	LSN  fsm.LSN `json:"lsn"`
	Prev fsm.LSN `json:"prev,omitzero"` // as Checkpoint.Prev
	At   int64   `json:"at,omitzero"`   // the machine's clock, ms
}

// Checkpoint names a checkpoint, a whole state: a blob (package storage/blob) that has a snapshot
// of the machine.
type Checkpoint struct {
	Key string  `json:"key"` // key of the manifest of the blob
	LSN fsm.LSN `json:"lsn"`
	// Prev is the LSN from which the history continues: LSN itself if all entries up to it
	// are in the log; an older LSN if some entries in between are not recorded, or the
	// state was adopted; zero if there is no earlier history.
	Prev   fsm.LSN `json:"prev,omitzero"`
	At     int64   `json:"at,omitzero"` // the machine's clock, ms
	Raw    int64   `json:"raw"`         // bytes of the snapshot
	Stored int64   `json:"stored"`      // bytes in the bucket
	Sum    Sum     `json:"sha256"`      // checksum of the manifest
}

// Ref names an immutable object of the log: a segment, which has entries, or a segment
// index, which has refs. Package archive distinguishes them by their keys.
type Ref struct {
	Key string `json:"key"`
	Run
	Stored int64 `json:"stored"` // bytes in the bucket; for a segment index, including its segments
	Sum    Sum   `json:"sha256"` // checksum of the object
}

// Run is a range of consecutive log entries, after one LSN and up to another.
type Run struct {
	After   fsm.LSN `json:"after"` // LSN of the entry before the first
	Last    fsm.LSN `json:"last"`
	Entries uint64  `json:"entries,omitzero"`
	From    int64   `json:"from,omitzero"`  // clock of the first entry, ms
	Until   int64   `json:"until,omitzero"` // clock of the last entry, ms
	Raw     int64   `json:"raw,omitzero"`   // bytes of the entries in the framing of package archive
}

// Tail is a run of entries that the document itself contains.
type Tail struct {
	Run
	Sum  Sum    `json:"sha256,omitzero"` // checksum of the framed entries, before compression
	Data []byte `json:"zstd,omitempty"`  // one zstd frame; empty if there are no entries
}

// LSN returns the LSN of the last entry that the archive reaches.
func (a *Archive) LSN() fsm.LSN { return a.Tail.Last }

// Content is the content of one version of the document.
type Content struct {
	// Archive leads to the state: all of its entries up to Meta.LSN.
	Archive *Archive
	Meta    fsm.Meta
	Counts  fsm.Counts
	// Jobs is the state whose available and running jobs the document shows, if their text
	// takes at most ViewMax bytes; nil: it shows none.
	Jobs    *fsm.View
	ViewMax int
}

// LSN returns the LSN of the log entry that produced the content.
func (c *Content) LSN() fsm.LSN { return c.Meta.LSN }
