package document

import (
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
)

// Check returns an error if a document with content c could not be read again: there is
// no archive, it is inconsistent, or Meta or Jobs belong to another entry.
func (c *Content) Check() error {
	switch {
	case c.Archive == nil:
		return errors.New("the content has no archive")
	case c.Jobs != nil && c.Meta.LSN != c.Jobs.LSN():
		return fmt.Errorf("the metadata is of %s, but the jobs are of %s", c.Meta.LSN, c.Jobs.LSN())
	}
	if err := c.Archive.Check(); err != nil {
		return fmt.Errorf("the parts of the archive do not fit together: %w", err)
	}
	if c.Archive.LSN() != c.Meta.LSN {
		return fmt.Errorf("the archive ends at %s, but the content is of %s", c.Archive.LSN(), c.Meta.LSN)
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
