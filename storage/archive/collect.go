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
	err := each(ctx, bucket, lineage, func(key string) { names = append(names, key) })
	if err != nil {
		return nil, err
	}
	return names, nil
}

// each calls fn with the key of each object that the lineage may have in the bucket.
func each(ctx context.Context, bucket storage.Bucket, lineage string, fn func(key string)) error {
	for _, prefix := range []string{checkpointPrefix, logPrefix} {
		prefix += lineage + "/"
		err := bucket.List(ctx, prefix, func(i storage.Info) bool {
			fn(i.Key)
			return true
		})
		if err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
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
