package archive

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// garbageOfAll returns the names that are not needed, in the order of their removal. It decides as the
// collector does, with all names and the whole line in memory.
func garbageOfAll(lineage string, names []string, root *document.File, before time.Time, copies ...Copy) []string {
	if root == nil || root.Archive == nil || root.Lineage() != lineage || !allNamed(names, root.Archive) {
		return nil
	}
	to := limit{lsn: root.Archive.Checkpoint.LSN, at: before.UnixMilli()}
	l := newLine(lineage, names, root)
	oldest, ok := l.checkpointUpTo(to)
	if !ok {
		return nil
	}
	thin := l.redundant(oldest, root.Archive.Checkpoint.LSN, root.Now())
	var old []name
	for _, key := range names {
		n, ok := parseName(key)
		if ok && n.lineage == lineage && (n.needless(oldest) || n.kind.ofCheckpoint() && thin[n.directory()]) && !isNeeded(copies, n) {
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

// redundant returns the directories of the checkpoints after oldest that are not needed to
// restore any state, because the log leads on from an earlier checkpoint that is kept. The
// root's checkpoint, and one that bridges a hole of the log, are needed. A document that is
// newer than the root may name a checkpoint after the root's.
func (l *line) redundant(oldest point, root fsm.LSN, now int64) map[string]bool {
	thin := make(map[string]bool)
	_, end := l.cover(oldest.lsn, everything.lsn)
	kept := oldest.at
	for _, p := range l.checkpoints {
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
func allNamed(names []string, a *document.Archive) bool {
	missing := map[string]bool{a.Checkpoint.Key: true}
	for i := range a.Log {
		missing[a.Log[i].Key] = true
	}
	for _, key := range names {
		delete(missing, key)
	}
	return len(missing) == 0
}
