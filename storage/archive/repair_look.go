package archive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// look verifies the document, or the part that can be recovered.
func (r *repair) look(ctx context.Context) error {
	if r.missing {
		w := recovered{}
		err := r.lookBehind(ctx, &w)
		if err == nil {
			r.v.note(r.key, fmt.Errorf("%w: %w", ErrDamaged, storage.ErrNotFound))
		}
		return err
	}
	doc, err := document.Decode(r.old.Data)
	if err == nil {
		r.doc, r.sure, r.v = doc, true, newVerifier(r.bucket, r.key)
		_, err := r.v.document(ctx, doc, VerifyOptions{})
		return err
	}
	unreadable := fmt.Errorf("%w: %w", ErrDamaged, err)
	w, err := recoverDocument(r.old.Data)
	if err != nil {
		return err
	}
	switch {
	case w.doc != nil:
		r.doc, r.sure, r.v = w.doc, true, newVerifier(r.bucket, r.key)
		_, err = r.v.document(ctx, w.doc, VerifyOptions{})
	default:
		err = r.lookBehind(ctx, &w)
	}
	if err == nil {
		r.v.note(r.key, unreadable)
	}
	return err
}

// lookBehind uses only the names of objects, back from the newest LSN at which one of them
// ends. If the document still states an LSN, objects after it do not count.
func (r *repair) lookBehind(ctx context.Context, w *recovered) error {
	r.sure = w.header != nil
	last := everything.lsn
	if r.sure {
		last = w.header.LSN()
	} else {
		lineage, err := r.onlyLineage(ctx)
		if err != nil {
			return err
		}
		w.header = &document.Header{Lineage: lineage}
	}
	names, err := List(ctx, r.bucket, w.header.Lineage)
	if err != nil {
		return err
	}
	for _, end := range ends(names, last) {
		r.doc, r.v = w.document(end), newVerifier(r.bucket, r.key)
		m, err := r.v.behind(ctx, r.doc, VerifyOptions{})
		if err != nil || m != nil && m.Meta().LSN == end {
			return err
		}
	}
	return ErrNothingGood
}

// ends returns the LSNs at which complete objects of the line may end, newest first.
func ends(names []string, last fsm.LSN) []fsm.LSN {
	found := make(map[fsm.LSN]bool)
	for _, key := range names {
		n, ok := parseName(key)
		if ok && (n.kind == segmentKind || n.kind == manifestKind) && n.last.Compare(last) <= 0 {
			found[n.last] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b fsm.LSN) int { return b.Compare(a) })
}

// onlyLineage returns the requested lineage, or the only one in the bucket.
func (r *repair) onlyLineage(ctx context.Context) (string, error) {
	if r.opts.Lineage != "" {
		return r.opts.Lineage, nil
	}
	found := make(map[string]bool)
	for _, prefix := range []string{checkpointPrefix, logPrefix} {
		err := r.bucket.List(ctx, prefix, func(i storage.Info) bool {
			lineage, _, _ := strings.Cut(strings.TrimPrefix(i.Key, prefix), "/")
			found[lineage] = true
			return true
		})
		if err != nil {
			return "", fmt.Errorf("list %q: %w", prefix, err)
		}
	}
	lineages := slices.Sorted(maps.Keys(found))
	switch len(lineages) {
	case 0:
		return "", ErrNothingGood
	case 1:
		return lineages[0], nil
	}
	return "", &whoseError{lineages}
}
