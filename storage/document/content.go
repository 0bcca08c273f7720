package document

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
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
	// Archive leads to the state: all of its entries up to Meta.LSN().
	Archive *Archive
	Meta    *fsm.Meta
	Counts  fsm.Counts
	// Jobs is the state whose available and running jobs the document shows, if their text
	// takes at most ViewMax bytes; nil: it shows none.
	Jobs    *fsm.View
	ViewMax int
}

// LSN returns the LSN of the log entry that produced the content.
func (c *Content) LSN() fsm.LSN { return c.Meta.LSN() }

// Check returns an error if a document with content c could not be read again: there is
// no archive, it is inconsistent, or Meta or Jobs belong to another entry.
func (c *Content) Check() error {
	switch {
	case c.Archive == nil:
		return errors.New("the content has no archive")
	case c.Jobs != nil && c.Meta.LSN() != c.Jobs.LSN():
		return fmt.Errorf("the metadata is of %s, but the jobs are of %s", c.Meta.LSN(), c.Jobs.LSN())
	}
	if err := c.Archive.Check(); err != nil {
		return fmt.Errorf("the parts of the archive do not fit together: %w", err)
	}
	if c.Archive.LSN() != c.Meta.LSN() {
		return fmt.Errorf("the archive ends at %s, but the content is of %s", c.Archive.LSN(), c.Meta.LSN())
	}
	return nil
}

// Check returns an error that gives the position in the document where a is inconsistent,
// or nil: each part must continue where the previous one ends. It does not check the
// objects and the data of the tail; package archive does.
func (a *Archive) Check() error {
	if err := a.Checkpoint.check(); err != nil {
		return fmt.Errorf("/checkpoint: %w", err)
	}
	for i, k := range a.Kept {
		next := a.Checkpoint.LSN
		if i+1 < len(a.Kept) {
			next = a.Kept[i+1].LSN
		}
		if k.Prev.Compare(k.LSN) > 0 || k.LSN.Compare(next) >= 0 {
			return fmt.Errorf("/kept/%d: the checkpoint of %s must be after %s and before %s", i, k.LSN, k.Prev, next)
		}
	}
	end := a.Checkpoint.LSN
	for i := range a.Log {
		r := &a.Log[i]
		if err := r.check(end); err != nil {
			return fmt.Errorf("/log/%d: %w", i, err)
		}
		end = r.Last
	}
	if err := a.Tail.check(end); err != nil {
		return fmt.Errorf("/tail: %w", err)
	}
	return nil
}

func (b *Checkpoint) check() error {
	if *b == (Checkpoint{}) {
		return nil // a young queue
	}
	if b.Prev.Compare(b.LSN) > 0 {
		return fmt.Errorf("it is of %s, which is not after %s", b.LSN, b.Prev)
	}
	return checkObject(b.Key, b.Raw, b.Stored)
}

func (r *Ref) check(after fsm.LSN) error {
	if err := r.Run.check(after); err != nil {
		return err
	}
	return checkObject(r.Key, r.Raw, r.Stored)
}

func (t *Tail) check(after fsm.LSN) error {
	if err := t.Run.check(after); err != nil {
		return err
	}
	if (t.Entries > 0) != (len(t.Data) > 0) {
		return fmt.Errorf("it has %d entries in %d bytes, which is not possible", t.Entries, len(t.Data))
	}
	return nil
}

func (r *Run) check(after fsm.LSN) error {
	switch {
	case r.After != after:
		return fmt.Errorf("it begins after %s, but the part before it ends at %s", r.After, after)
	case (r.Entries > 0) != (r.After.Compare(r.Last) < 0), r.After.Compare(r.Last) > 0:
		return fmt.Errorf("it has %d entries after %s up to %s, which is not possible", r.Entries, r.After, r.Last)
	case r.Raw < 0:
		return fmt.Errorf("the size of %d bytes is not valid", r.Raw)
	}
	return nil
}

func checkObject(key string, raw, stored int64) error {
	if raw < 0 || stored < 0 {
		return fmt.Errorf("sizes of %d bytes and %d stored bytes are not valid", raw, stored)
	}
	return storage.ValidateKey(key)
}
