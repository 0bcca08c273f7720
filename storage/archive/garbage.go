package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// Garbage returns what of the names nobody needs, in the order in which it is to
// be deleted, so that whatever is left when that ends early is whole: oldest
// first, and of a base the manifest first. root is a version of the document that
// was the current one at some time; before is the oldest time, by the machine's
// clock, for which the state has to be kept. doc.go says why this is safe.
//
// Nothing is garbage while an object is missing that the root names.
func Garbage(lineage string, names []string, root *queuefile.Document, before time.Time) []string {
	if root == nil || root.Archive == nil || root.Lineage() != lineage || !allNamed(names, root.Archive) {
		return nil
	}
	to := limit{root.Archive.Base.LSN, before.UnixMilli()}
	oldest, ok := newLine(lineage, names, root).baseUpTo(to)
	if !ok {
		return nil
	}
	var old []name
	for _, key := range names {
		n, ok := parseName(key)
		if ok && n.lineage == lineage && n.needless(oldest) {
			old = append(old, n)
		}
	}
	slices.SortFunc(old, func(a, b name) int {
		return cmp.Or(a.last.Compare(b.last), strings.Compare(a.directory(), b.directory()),
			cmp.Compare(a.kind, b.kind), strings.Compare(a.part, b.part))
	})
	keys := make([]string, len(old))
	for i := range old {
		keys[i] = old[i].key()
	}
	return keys
}

// needless reports whether n lies before a base. Another base of the same LSN
// does not.
func (n name) needless(oldest point) bool {
	c := n.last.Compare(oldest.lsn)
	isLog := n.kind == segmentKind || n.kind == chapterKind
	return c < 0 || c == 0 && isLog
}

// allNamed reports whether all objects are listed that a names.
func allNamed(names []string, a *queuefile.Archive) bool {
	missing := map[string]bool{a.Base.Key: true}
	for i := range a.Log {
		missing[a.Log[i].Key] = true
	}
	for _, key := range names {
		delete(missing, key)
	}
	return len(missing) == 0
}

// List returns the keys of all objects that the lineage may have in the bucket,
// among them those of others.
func List(ctx context.Context, bucket storage.Bucket, lineage string) ([]string, error) {
	var names []string
	for _, prefix := range []string{basePrefix, logPrefix} {
		prefix += lineage + "/"
		err := bucket.List(ctx, prefix, func(i storage.Info) bool {
			names = append(names, i.Key)
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, err)
		}
	}
	return names, nil
}

// Collect deletes at most so many of the objects that are Garbage in the bucket.
// It returns how many it deleted, also with an error; the rest is found by the
// next call. Only the active leader calls it.
//
// still is asked when it is known what is there, and before anything is deleted:
// whether the document is still root, or a later one of the same leader's. nil does
// not ask. A successor needs nothing that is old by root; but who has put the document
// back to an earlier state (Repair) does.
func Collect(
	ctx context.Context, bucket storage.Bucket, root *queuefile.Document, before time.Time, most int,
	still func(context.Context) (bool, error),
) (deleted int, err error) {
	if root == nil || root.Archive == nil {
		return 0, nil
	}
	names, err := List(ctx, bucket, root.Lineage())
	if err != nil {
		return 0, fmt.Errorf("collect garbage: %w", err)
	}
	old := Garbage(root.Lineage(), names, root, before)
	if still != nil && len(old) > 0 {
		if ok, err := still(ctx); !ok || err != nil {
			return 0, err
		}
	}
	for _, key := range old {
		if deleted == most {
			break
		}
		if err := bucket.Delete(ctx, key); err != nil {
			return deleted, fmt.Errorf("collect garbage: delete %q: %w", key, err)
		}
		deleted++
	}
	return deleted, nil
}
