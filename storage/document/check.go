package document

import (
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
)

// Check returns an error if a document with content c could not be read again: there is
// neither a state nor an archive, there are jobs to enqueue together with a state, the
// archive is ahead of the state or inconsistent, or Meta belongs to another entry.
func (c *Content) Check() error {
	switch {
	case c.State == nil && c.Archive == nil:
		return errors.New("the content has neither a state nor an archive")
	case c.State != nil && len(c.Added) > 0:
		return errors.New("the content has jobs that are to be enqueued beside a state")
	case c.State != nil && c.Meta.LSN != c.State.LSN():
		return fmt.Errorf("the content's meta is of %s and its state of %s", c.Meta.LSN, c.State.LSN())
	case c.Archive == nil:
		return nil
	}
	if err := c.Archive.Check(); err != nil {
		return fmt.Errorf("the archive does not hold together: %w", err)
	}
	if !c.Archive.reaches(c.Meta.LSN, c.State != nil) {
		return fmt.Errorf("the archive goes up to %s and the content to %s", c.Archive.LSN(), c.Meta.LSN)
	}
	return nil
}

// reaches reports whether a can be the archive of a document with that LSN: the archive of
// an inline state may end earlier.
func (a *Archive) reaches(lsn fsm.LSN, inline bool) bool {
	c := a.LSN().Compare(lsn)
	return c == 0 || inline && c < 0
}

// Check returns an error that gives the position in the document where a is inconsistent,
// or nil: each part must continue where the previous one ends. It does not check the
// objects and the data of the tail; package archive does.
func (a *Archive) Check() error {
	if err := a.Base.check(); err != nil {
		return fmt.Errorf("/base: %w", err)
	}
	end := a.Base.LSN
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

func (b *Base) check() error {
	if b.Prev.Compare(b.LSN) > 0 {
		return fmt.Errorf("it is of %s and what was before it is of %s", b.LSN, b.Prev)
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
		return fmt.Errorf("it has %d entries in %d bytes", t.Entries, len(t.Data))
	}
	return nil
}

func (r *Run) check(after fsm.LSN) error {
	switch {
	case r.After != after:
		return fmt.Errorf("it goes on from %s and what is before it ends at %s", r.After, after)
	case (r.Entries > 0) != (r.After.Compare(r.Last) < 0), r.After.Compare(r.Last) > 0:
		return fmt.Errorf("it has %d entries after %s up to %s", r.Entries, r.After, r.Last)
	case r.Raw < 0:
		return fmt.Errorf("it has %d bytes", r.Raw)
	}
	return nil
}

func checkObject(key string, raw, stored int64) error {
	if raw < 0 || stored < 0 {
		return fmt.Errorf("it has %d bytes in %d", raw, stored)
	}
	return storage.ValidateKey(key)
}
