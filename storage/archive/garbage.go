package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// Garbage returns what of the names nobody needs, in the order in which it is to
// be deleted, so that whatever is left when that ends early is whole: oldest
// first, and of a base the manifest first. root is a version of the document that
// was the current one at some time; before is the oldest time, by the machine's
// clock, for which the state has to be kept. doc.go says why this is safe.
//
// Within the time that is kept, it is all bases older than an hour but for one an
// hour, as long as the log leads from one to the next.
//
// Nothing is garbage while an object is missing that the root names, nor is what one of the
// copies needs.
func Garbage(lineage string, names []string, root *queuefile.Document, before time.Time, copies ...Copy) []string {
	if root == nil || root.Archive == nil || root.Lineage() != lineage || !allNamed(names, root.Archive) {
		return nil
	}
	to := limit{root.Archive.Base.LSN, before.UnixMilli()}
	l := newLine(lineage, names, root)
	oldest, ok := l.baseUpTo(to)
	if !ok {
		return nil
	}
	thin := l.redundant(oldest, root.Archive.Base.LSN, root.Meta.Now)
	var old []name
	for _, key := range names {
		n, ok := parseName(key)
		if ok && n.lineage == lineage && (n.needless(oldest) || n.kind.ofBase() && thin[n.directory()]) && !isNeeded(copies, n) {
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

// Bases are thinned: of those that are older than thinAfter, one in thinEvery is
// kept. Both are milliseconds of the machine's clock.
const (
	thinAfter = int64(time.Hour / time.Millisecond)
	thinEvery = int64(time.Hour / time.Millisecond)
)

// redundant returns the directories of the bases after oldest that are not needed
// to restore any state, because the log leads on from an earlier base that is kept.
// The root's base, and a base that bridges a hole of the log, are needed. A base after
// the root's may be named by a document that is newer than the root.
func (l *line) redundant(oldest point, root fsm.LSN, now int64) map[string]bool {
	thin := make(map[string]bool)
	_, end := l.cover(oldest.lsn, everything.lsn)
	kept := oldest.at
	for _, p := range l.bases {
		switch {
		case p.lsn.Compare(oldest.lsn) <= 0 || p.lsn.Compare(root) >= 0:
		case p.named == nil && p.prev == p.lsn && p.lsn.Compare(end) <= 0 && p.at <= now-thinAfter && p.at < kept+thinEvery:
			thin[strings.TrimSuffix(p.key, manifestSuffix)] = true
		default:
			kept = p.at
		}
	}
	return thin
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

// stillEvery is after how many objects Collect asks again whether it may go on.
const stillEvery = storage.MaxBatch

// Collect deletes at most so many of the objects that are Garbage in the bucket.
// It returns how many it deleted, also with an error; the rest is found by the
// next call. Only the active leader calls it.
//
// still is asked when it is known what is there, before anything is deleted and
// after every 1000 objects: whether the document is still root, or a later one of the
// same leader's. nil does not ask. A successor needs nothing that is old by root; but
// who has put the document back to an earlier state (Repair) does.
func Collect(
	ctx context.Context, bucket storage.Bucket, root *queuefile.Document, before time.Time, most int,
	still func(context.Context) (bool, error), copies ...Copy,
) (deleted int, err error) {
	if root == nil || root.Archive == nil {
		return 0, nil
	}
	names, err := List(ctx, bucket, root.Lineage())
	if err != nil {
		return 0, fmt.Errorf("collect garbage: %w", err)
	}
	old := Garbage(root.Lineage(), names, root, before, copies...)
	for old = old[:min(len(old), most)]; len(old) > 0; {
		if still != nil && len(old) > 0 {
			if ok, err := still(ctx); !ok || err != nil {
				return deleted, err
			}
		}
		n := min(len(old), stillEvery)
		done, err := remove(ctx, bucket, old[:n])
		deleted += done
		if err != nil {
			return deleted, fmt.Errorf("collect garbage: %w", err)
		}
		old = old[n:]
	}
	return deleted, nil
}

// remove deletes objects. The manifests go first: a base without manifest is none, whatever is left
// of it.
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
