package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// List returns the keys of all objects that the lineage may have in the bucket. Keys that this
// package did not write may be among them.
func List(ctx context.Context, bucket storage.Bucket, lineage string) ([]string, error) {
	var names []string
	err := each(ctx, bucket, lineage, func(i storage.Info) bool {
		names = append(names, i.Key)
		return true
	})
	return names, err
}

// each calls fn for each object that the lineage may have in the bucket, until fn returns false; "" is every
// lineage.
func each(ctx context.Context, bucket storage.Bucket, lineage string, fn func(storage.Info) bool) error {
	more := true
	for _, prefix := range []string{checkpointPrefix, logPrefix} {
		if lineage != "" {
			prefix += lineage + "/"
		}
		err := bucket.List(ctx, prefix, func(i storage.Info) bool {
			more = fn(i)
			return more
		})
		if err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
		if !more {
			break
		}
	}
	return nil
}

// Keep returns the list of kept checkpoints of an archive in which next replaces the checkpoint
// of a. window is how far back states are kept.
func Keep(a *document.Archive, next *document.Checkpoint, window time.Duration) []document.Kept {
	kept := slices.Clip(a.Kept)
	last := document.Kept{LSN: a.Checkpoint.LSN, Prev: a.Checkpoint.Prev, At: a.Checkpoint.At}
	switch {
	case last.LSN.Compare(next.LSN) >= 0:
		return kept
	case next.Prev != next.LSN && !isNeeded(kept, last): // next will be kept, and last may be what is damaged
		return kept
	}
	return keep(kept, last, spacing(window))
}

// Prune returns the list without the checkpoints that are only needed for states before start,
// ms. c is the checkpoint behind those of the list.
func Prune(kept []document.Kept, c *document.Checkpoint, start int64) []document.Kept {
	for len(kept) > 1 && kept[1].At <= start || len(kept) == 1 && c.At <= start {
		kept = kept[1:]
	}
	return kept
}

// spacing returns the least time between two kept checkpoints, ms. A state is restored by a
// replay of at most the log between two, and the document has at most 100 of them.
func spacing(window time.Duration) int64 {
	return max(window/100, min(window/24, time.Hour)).Milliseconds()
}

// keep adds a checkpoint to the kept ones. It leaves out one that is not needed, and less than
// every ms newer than the last one.
func keep(kept []document.Kept, c document.Kept, every int64) []document.Kept {
	if isNeeded(kept, c) || c.At >= kept[len(kept)-1].At+every {
		return append(kept, c)
	}
	return kept
}

// isNeeded reports whether the states after a checkpoint cannot be restored without it, because
// no log leads there from the last of the kept ones.
func isNeeded(kept []document.Kept, c document.Kept) bool { return len(kept) == 0 || c.Prev != c.LSN }

// youngest is collector.young of Collect: a node may be reading a younger checkpoint.
const youngest = int64(time.Hour / time.Millisecond)

// stillEvery is the number of objects after which Collect asks again whether it may continue.
const stillEvery = storage.MaxBatch

// Collect deletes up to most objects that are not needed, by the rule in doc.go. root is a
// version of the document that was current at some time. before is the beginning of the window, by
// the machine's clock: if even the first checkpoint that the root keeps is younger, no object is
// too old. Collect returns the number of deleted objects,
// also with an error; the next call finds the rest. Only the active leader calls it.
//
// Collect deletes nothing while an object that the root needs is missing, and no object that
// one of the copies needs.
//
// Collect calls still after each listing, before it deletes, and after every 1000 objects.
// still reports whether the document is root, or a later one by the same leader; nil means
// always. A successor needs no object that is garbage by root, but a writer that puts the
// document back to an earlier state (Repair) does.
func Collect(
	ctx context.Context, bucket storage.Bucket, root *document.File, before time.Time, most int,
	still func(context.Context) (bool, error), copies ...Copy,
) (deleted int, err error) {
	if root == nil || root.Archive == nil || root.Archive.Checkpoint.Key == "" { // every object is after the origin
		return 0, nil
	}
	c := newCollector(bucket, root, before, most)
	c.still, c.copies = still, copies
	err = c.run(ctx)
	switch {
	case errors.Is(err, errNoLonger):
		err = nil
	case err != nil:
		err = fmt.Errorf("collect garbage: %w", err)
	}
	return most - c.left, err
}

// errNoLonger ends a collection whose document is not the current one any more.
var errNoLonger = errors.New("the document has changed since it was read")

// collector is one call of Collect.
type collector struct {
	bucket storage.Bucket
	root   *document.File
	kept   []document.Kept // with the root's checkpoint
	oldest fsm.LSN         // of the first one, if it is as old as the window; otherwise zero
	still  func(context.Context) (bool, error)
	copies []Copy
	left   int   // objects that may still be deleted
	young  int64 // a checkpoint between two kept ones is deleted when it is as old, by the machine's clock, ms
	atOnce int   // most names in memory; if there are more, they are listed again
}

func newCollector(bucket storage.Bucket, root *document.File, before time.Time, most int) *collector {
	a := root.Archive
	c := &collector{bucket: bucket, root: root, left: most, young: youngest, atOnce: 64 * stillEvery}
	c.kept = append(slices.Clone(a.Kept), document.Kept{LSN: a.Checkpoint.LSN, Prev: a.Checkpoint.Prev, At: a.Checkpoint.At})
	if c.kept[0].At <= before.UnixMilli() {
		c.oldest = c.kept[0].LSN
	}
	return c
}

func (c *collector) run(ctx context.Context) error {
	missing, err := NewAudit(c.bucket).Missing(ctx, c.root.Archive)
	if missing != nil || err != nil {
		return err
	}
	return c.deleteGarbage(ctx)
}

func (c *collector) deleteGarbage(ctx context.Context) error {
	if err := c.collect(ctx, checkpointPrefix, c.root.Archive.Checkpoint.LSN); err != nil {
		return err
	}
	return c.collect(ctx, logPrefix, c.oldest)
}

// collect deletes the garbage with a prefix, from old to new. There is none after the LSN end.
func (c *collector) collect(ctx context.Context, prefix string, end fsm.LSN) error {
	lineage := c.root.Lineage()
	for more := true; more && c.left > 0; {
		var keys []string
		err := c.bucket.List(ctx, prefix+lineage+"/", func(i storage.Info) bool {
			n, ok := parseName(i.Key)
			if !ok || n.lineage != lineage {
				return true
			}
			if c.isGarbage(n) {
				keys = append(keys, i.Key)
			}
			return n.last.Compare(end) <= 0 && len(keys) < c.atOnce
		})
		if err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
		more = len(keys) == c.atOnce
		if err := c.delete(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// isGarbage reports whether no state that is kept needs an object.
func (c *collector) isGarbage(n name) bool {
	switch {
	case isNeededByCopy(c.copies, n):
		return false
	case !n.kind.ofCheckpoint():
		return n.last.Compare(c.oldest) <= 0
	case n.last.Compare(c.oldest) < 0:
		return true
	}
	i, kept := slices.BinarySearchFunc(c.kept, n.last, func(k document.Kept, lsn fsm.LSN) int { return k.LSN.Compare(lsn) })
	// The log leads over it from the kept one before to the kept one behind it, or to the hole before that.
	between := !kept && i > 0 && i < len(c.kept) && n.last.Compare(c.kept[i].Prev) <= 0
	return between && n.at <= c.root.Now()-c.young
}

// delete deletes objects, up to the number that may still be deleted.
func (c *collector) delete(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys[:min(len(keys), c.left)], stillEvery) {
		if c.still != nil {
			ok, err := c.still(ctx)
			if err != nil {
				return err
			}
			if !ok {
				return errNoLonger
			}
		}
		done, err := remove(ctx, c.bucket, some)
		c.left -= done
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes objects, manifests first: a checkpoint without manifest is not a checkpoint,
// whichever of its parts are left.
func remove(ctx context.Context, bucket storage.Bucket, keys []string) (deleted int, err error) {
	var manifests, rest []string
	for _, key := range keys {
		if strings.HasSuffix(key, manifestSuffix) {
			manifests = append(manifests, key)
		} else {
			rest = append(rest, key)
		}
	}
	for _, group := range [][]string{manifests, rest} {
		failed := storage.DeleteAll(ctx, bucket, group)
		deleted += len(group) - len(failed)
		for key, err := range failed {
			return deleted, fmt.Errorf("delete %q, one of %d: %w", key, len(failed), err)
		}
	}
	return deleted, nil
}

// Used is the space of a lineage's objects in a bucket, whether they are needed or not.
type Used struct {
	Checkpoints     int // whole ones
	CheckpointBytes int64
	Log             int // segments and segment indexes
	LogBytes        int64
}

// Usage counts the objects of a lineage by a listing.
func Usage(ctx context.Context, bucket storage.Bucket, lineage string) (Used, error) {
	var u Used
	if lineage == "" {
		return u, nil // a legacy document has none
	}
	err := each(ctx, bucket, lineage, func(i storage.Info) bool {
		u.count(i)
		return true
	})
	return u, err
}

func (u *Used) count(i storage.Info) {
	n, ok := parseName(i.Key)
	switch {
	case !ok:
	case n.kind == segmentKind || n.kind == segmentIndexKind:
		u.Log++
		u.LogBytes += i.Size
	default:
		u.CheckpointBytes += i.Size
		if n.kind == manifestKind {
			u.Checkpoints++
		}
	}
}

// Describe returns the kind of an object by its key, for people; "" for a key that is not of
// this package.
func Describe(key string) string {
	n, ok := parseName(key)
	if !ok {
		return ""
	}
	switch n.kind {
	case segmentKind:
		return fmt.Sprintf("log segment after %s up to %s", n.after, n.last)
	case segmentIndexKind:
		return fmt.Sprintf("segment index of the log after %s up to %s", n.after, n.last)
	case partKind:
		return fmt.Sprintf("part of the checkpoint of %s", n.last)
	default:
		return fmt.Sprintf("checkpoint of %s", n.last)
	}
}

// HasArchive reports whether the bucket has an object of an archive, of any lineage, from which
// a document could be rebuilt, or a backup. Each queue begins with an empty checkpoint, and a small one may
// have only that. HasArchive reads one page of each of three listings.
func HasArchive(ctx context.Context, bucket storage.Bucket) (found bool, err error) {
	err = each(ctx, bucket, "", func(i storage.Info) bool {
		n, ok := parseName(i.Key)
		found = ok && !n.last.IsZero()
		return !found
	})
	if found || err != nil {
		return found, err
	}
	err = bucket.List(ctx, backupPrefix, func(i storage.Info) bool {
		found = IsBackup(i.Key)
		return !found
	})
	return found, err
}

// CopyPrefix begins the keys of copies of documents that were replaced.
const CopyPrefix = "conflicts/"

// copiesMost bounds the copies whose objects are kept.
const copiesMost = 1000

// Copy names the objects that a copy of a document needs: a checkpoint, and the log from
// there to the state of the document.
type Copy struct {
	lineage, checkpoint string // checkpoint is the directory of the checkpoint
	from, to            fsm.LSN
}

// needs reports whether a copy needs an object.
func (c *Copy) needs(n name) bool {
	switch {
	case n.lineage != c.lineage:
		return false
	case n.kind.ofCheckpoint():
		return n.directory() == c.checkpoint
	default:
		return n.last.Compare(c.from) > 0 && n.after.Compare(c.to) < 0
	}
}

// Copies reads the copies in a bucket, each of them once: they do not change. The zero value
// is ready to use. One goroutine uses it.
type Copies struct {
	known map[string]*Copy // by key; nil: a copy that needs nothing
}

// Read returns the objects that the present copies in the bucket need, for up to 1000 copies.
// more reports whether there are others.
func (s *Copies) Read(ctx context.Context, bucket storage.Bucket) (all []Copy, more bool, err error) {
	var keys []string
	err = bucket.List(ctx, CopyPrefix, func(i storage.Info) bool {
		more = len(keys) == copiesMost
		if !more {
			keys = append(keys, i.Key)
		}
		return !more
	})
	if err != nil {
		return nil, false, fmt.Errorf("list %q: %w", CopyPrefix, err)
	}
	known := make(map[string]*Copy, len(keys))
	for _, key := range keys {
		c, ok := s.known[key]
		if !ok {
			if c, err = readCopy(ctx, bucket, key); err != nil {
				return nil, false, err
			}
		}
		known[key] = c
		if c != nil {
			all = append(all, *c)
		}
	}
	s.known = known
	return all, more, nil
}

// readCopy returns nil if the object does not exist, or is not a document with an archive.
func readCopy(ctx context.Context, bucket storage.Bucket, key string) (*Copy, error) {
	obj, err := bucket.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the copy %q: %w", key, err)
	}
	doc, err := document.Decode(obj.Data)
	if err != nil || doc.Archive == nil {
		return nil, nil //nolint:nilerr // what cannot be read needs nothing
	}
	return &Copy{
		lineage: doc.Lineage(), checkpoint: strings.TrimSuffix(doc.Archive.Checkpoint.Key, manifestSuffix),
		from: doc.Archive.Checkpoint.LSN, to: doc.Archive.LSN(),
	}, nil
}

// isNeededByCopy reports whether one of the copies needs an object.
func isNeededByCopy(copies []Copy, n name) bool {
	for i := range copies {
		if copies[i].needs(n) {
			return true
		}
	}
	return false
}
