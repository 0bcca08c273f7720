package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"osqueue/storage"
	"osqueue/storage/document"
)

// needless reports whether n is before a checkpoint. Another checkpoint of the same LSN is not.
func (n name) needless(oldest point) bool {
	c := n.last.Compare(oldest.lsn)
	isLog := n.kind == segmentKind || n.kind == segmentIndexKind
	return c < 0 || c == 0 && isLog
}

// Checkpoints are thinned: of those older than thinAfter, one per thinEvery is kept. Both are
// milliseconds of the machine's clock.
const (
	thinAfter = int64(time.Hour / time.Millisecond)
	thinEvery = int64(time.Hour / time.Millisecond)
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

// stillEvery is the number of objects after which Collect asks again whether it may continue.
const stillEvery = storage.MaxBatch

// Collect deletes up to most objects that are not needed. The order keeps the rest complete
// when Collect ends early: oldest first, and the manifest of a checkpoint first. root is a
// version of the document that was current at some time. before is the oldest time, by the
// machine's clock, for which the state is kept. doc.go explains why this is safe. Collect
// returns the number of deleted objects, also with an error; the next call finds the rest. Only
// the active leader calls it.
//
// Within the retained time, an object is not needed if it belongs to a checkpoint that is older
// than an hour, except one checkpoint of each hour, and if the log connects the kept
// checkpoints.
//
// Collect deletes nothing while an object that the root names is missing, and no object that
// one of the copies needs.
//
// Collect calls still after each listing, before it deletes, and after every 1000 objects.
// still reports whether the document is root, or a later one by the same leader; nil means
// always. A successor needs no object that is old by root, but a writer that puts the document
// back to an earlier state (Repair) does.
//
// The memory of Collect does not grow with the number of objects. If there are more names than
// it keeps in memory, it lists them again.
func Collect(
	ctx context.Context, bucket storage.Bucket, root *document.File, before time.Time, most int,
	still func(context.Context) (bool, error), copies ...Copy,
) (deleted int, err error) {
	return collect(ctx, bucket, root, before, most, still, copies, bounds{edges: 1 << 20, victims: 1 << 16, checkpoints: 1 << 14})
}

func collect(
	ctx context.Context, bucket storage.Bucket, root *document.File, before time.Time, most int,
	still func(context.Context) (bool, error), copies []Copy, size bounds,
) (deleted int, err error) {
	if root == nil || root.Archive == nil || root.Archive.Checkpoint.Key == "" { // every object is after the origin
		return 0, nil
	}
	c := collector{bucket: bucket, root: root, before: before.UnixMilli(), still: still, copies: copies, size: size, left: most}
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

// bounds limit the memory of a collection.
type bounds struct {
	edges       int // segments and checkpoints of the line
	victims     int // names of objects to be deleted; twice as many for a moment
	checkpoints int // checkpoints to be thinned
}

// collector is one call of Collect.
type collector struct {
	bucket storage.Bucket
	root   *document.File
	before int64 // the beginning of the window by the machine's clock, ms
	still  func(context.Context) (bool, error)
	copies []Copy
	size   bounds
	left   int // objects that may still be deleted
}

func (c *collector) run(ctx context.Context) error {
	old := victims{most: c.size.victims}
	line, err := c.survey(ctx, &old)
	if err != nil || !line.found {
		return err
	}
	for {
		keys := old.needless(line.oldest)
		if err := c.delete(ctx, keys); err != nil {
			return err
		}
		if c.left == 0 || !old.cut || len(keys) < len(old.all) {
			break
		}
		old = victims{most: c.size.victims}
		err := c.list(ctx, func(key string, n name, ours bool) {
			if ours && n.needless(line.oldest) && !isNeeded(c.copies, n) {
				old.add(key, n)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, directory := range line.redundant() {
		if c.left == 0 {
			break
		}
		if err := c.deleteCheckpoint(ctx, directory); err != nil {
			return err
		}
	}
	return nil
}

// survey finds the checkpoint before which no object is needed. It gathers the oldest names in
// the same listing, and lists again only if the window has more objects than fit in memory.
func (c *collector) survey(ctx context.Context, old *victims) (*sweep, error) {
	s := newSweep(c.root, c.before, c.size)
	for first := true; !s.over; first = false {
		missing := namedBy(c.root.Archive)
		s.begin()
		err := c.list(ctx, func(key string, n name, ours bool) {
			delete(missing, key)
			if !ours {
				return
			}
			s.add(key, n)
			if first && n.last.Compare(c.root.Archive.Checkpoint.LSN) <= 0 && !isNeeded(c.copies, n) {
				old.add(key, n)
			}
		})
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			s.found = false
			break
		}
		s.run()
	}
	return s, nil
}

// namedBy returns the keys of the objects that a names.
func namedBy(a *document.Archive) map[string]bool {
	keys := map[string]bool{a.Checkpoint.Key: true}
	for i := range a.Log {
		keys[a.Log[i].Key] = true
	}
	return keys
}

// list calls fn for each object that the lineage may have. ours reports whether n is the
// name of one of them.
func (c *collector) list(ctx context.Context, fn func(key string, n name, ours bool)) error {
	lineage := c.root.Lineage()
	return each(ctx, c.bucket, lineage, func(key string) {
		n, ok := parseName(key)
		fn(key, n, ok && n.lineage == lineage)
	})
}

// deleteCheckpoint deletes the objects of a checkpoint.
func (c *collector) deleteCheckpoint(ctx context.Context, directory string) error {
	for more := true; more && c.left > 0; {
		all := victims{most: c.size.victims}
		err := c.bucket.List(ctx, directory+"/", func(i storage.Info) bool {
			n, ok := parseName(i.Key)
			if ok && n.directory() == directory && !isNeeded(c.copies, n) {
				all.add(i.Key, n)
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("list %q: %w", directory, err)
		}
		if err := c.delete(ctx, all.keys()); err != nil {
			return err
		}
		more = all.cut
	}
	return nil
}

// delete deletes objects, up to the number that may still be deleted.
func (c *collector) delete(ctx context.Context, keys []string) error {
	keys = keys[:min(len(keys), c.left)]
	for len(keys) > 0 {
		if c.still != nil {
			ok, err := c.still(ctx)
			if err != nil {
				return err
			}
			if !ok {
				return errNoLonger
			}
		}
		n := min(len(keys), stillEvery)
		done, err := remove(ctx, c.bucket, keys[:n])
		c.left -= done
		if err != nil {
			return err
		}
		keys = keys[n:]
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
