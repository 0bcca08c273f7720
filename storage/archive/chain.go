package archive

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// chain is the history that ends in a root, in order, as far as it follows from names. No object
// is opened to build it.
type chain struct {
	lineage     string
	checkpoints []point  // complete ones, by LSN; of equal ones the named one last
	sources     []source // by where they begin; of equal ones the longest first
	strays      []string // keys of the lineage's objects that are not in the chain
}

// point is a checkpoint in the chain.
type point struct {
	lsn, prev fsm.LSN
	at        int64                // the machine's clock, ms
	key       string               // of the manifest
	named     *document.Checkpoint // by the root; nil: by a listing
}

// pointOf returns the checkpoint of an archive. That of a young queue is the origin.
func pointOf(a *document.Archive) point {
	c := &a.Checkpoint
	if c.Key == "" {
		return point{}
	}
	return point{c.LSN, c.Prev, c.At, c.Key, c}
}

// namePoint returns the checkpoint of a manifest's name.
func namePoint(n name) point { return point{n.last, n.after, n.at, n.key(), nil} }

// isOrigin reports whether p is the empty machine before the first entry, which is no object.
func (p *point) isOrigin() bool { return p.key == "" }

// newChain walks back from the roots. An LSN identifies an entry and all entries before it. So a
// segment or checkpoint that ends at an LSN of the chain is in the chain, whichever node wrote it
// and whether or not a root ever named it.
func newChain(lineage string, names []string, roots ...*document.File) *chain {
	w := walker{chain: &chain{lineage: lineage}, at: make(map[fsm.LSN][]name), seen: make(map[fsm.LSN]bool), on: make(map[string]bool)}
	var all []name
	for _, key := range names {
		n, ok := parseName(key)
		if !ok || n.lineage != lineage {
			continue
		}
		all = append(all, n)
		if n.kind == segmentKind || n.kind == manifestKind {
			w.at[n.last] = append(w.at[n.last], n)
		}
	}
	for _, root := range roots {
		w.root(root)
	}
	w.walk()
	l := w.chain
	for _, n := range all {
		key := n.key()
		if n.kind == partKind {
			key = n.directory() + manifestSuffix // in the chain is the checkpoint that it is of
		}
		if !w.on[key] {
			l.strays = append(l.strays, n.key())
		}
	}
	l.sort()
	return l
}

func (l *chain) sort() {
	slices.SortFunc(l.checkpoints, comparePoints)
	slices.SortFunc(l.sources, func(a, b source) int {
		return cmp.Or(a.after.Compare(b.after), b.last.Compare(a.last),
			boolCompare(b.ref != nil, a.ref != nil), strings.Compare(a.key, b.key))
	})
}

// comparePoints sorts checkpoints by LSN; of equal ones the named one is last.
func comparePoints(a, b point) int {
	return cmp.Or(a.lsn.Compare(b.lsn), boolCompare(a.named != nil, b.named != nil), strings.Compare(a.key, b.key))
}

// boolCompare sorts false before true.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// walker walks the chain.
type walker struct {
	chain *chain
	at    map[fsm.LSN][]name // segments and checkpoints by where they end
	seen  map[fsm.LSN]bool
	todo  []fsm.LSN
	on    map[string]bool // keys in the chain
}

// root adds the objects and the LSNs that the root names to the chain.
func (w *walker) root(doc *document.File) {
	w.visit(doc.LSN())
	a := doc.Archive
	if a == nil {
		return
	}
	w.checkpoint(pointOf(a))
	for i := range a.Log {
		w.source(refSource(&a.Log[i]))
	}
	w.visit(a.Tail.Last)
	if a.Tail.Entries > 0 {
		w.chain.sources = append(w.chain.sources, tailSource(&a.Tail))
	}
}

func (w *walker) checkpoint(p point) {
	if w.on[p.key] {
		return
	}
	w.on[p.key] = true
	w.chain.checkpoints = append(w.chain.checkpoints, p)
	w.visit(p.lsn)
	w.visit(p.prev)
}

func (w *walker) source(s source) {
	if w.on[s.key] {
		return
	}
	w.on[s.key] = true
	w.chain.sources = append(w.chain.sources, s)
	w.visit(s.last)
	w.visit(s.after)
	if s.after.IsZero() { // the log of a young queue
		w.checkpoint(point{})
	}
}

func (w *walker) visit(lsn fsm.LSN) {
	if !w.seen[lsn] {
		w.seen[lsn] = true
		w.todo = append(w.todo, lsn)
	}
}

func (w *walker) walk() {
	for len(w.todo) > 0 {
		lsn := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		for _, n := range w.at[lsn] {
			if n.kind == manifestKind {
				w.checkpoint(namePoint(n))
			} else {
				w.source(nameSource(n))
			}
		}
	}
}

// cover returns the sources that lead from one LSN in the chain to another, and the LSN at which
// they end: an earlier one if entries in between are missing. A source that begins where the
// previous one ends is preferred to one that overlaps it.
func (l *chain) cover(from, to fsm.LSN) (path []source, end fsm.LSN) {
	end = from
	var longest *source // of those that begin earlier
	for i := 0; end.Compare(to) < 0; {
		for ; i < len(l.sources) && l.sources[i].after.Compare(end) < 0; i++ {
			if s := &l.sources[i]; longest == nil || s.last.Compare(longest.last) > 0 {
				longest = s
			}
		}
		next := longest
		if i < len(l.sources) && l.sources[i].after == end {
			next = &l.sources[i]
		}
		if next == nil || next.last.Compare(end) <= 0 {
			break
		}
		path, end = append(path, *next), next.last
	}
	return path, end
}

// checkpointUpTo returns the newest checkpoint that is not past a limit.
func (l *chain) checkpointUpTo(to limit) (p point, ok bool) {
	for _, p := range slices.Backward(l.checkpoints) {
		if p.lsn.Compare(to.lsn) <= 0 && p.at <= to.at {
			return p, true
		}
	}
	return point{}, false
}

// kept returns the list of kept checkpoints of an archive whose checkpoint is that of an LSN.
func (l *chain) kept(before fsm.LSN) (kept []document.Kept) {
	for _, p := range l.checkpoints {
		if p.lsn.Compare(before) >= 0 {
			break
		}
		every := int64(0) // behind a hole
		if n := len(kept); n > 0 {
			if kept[n-1].LSN == p.lsn {
				continue
			}
			if _, end := l.cover(kept[n-1].LSN, p.lsn); end.Compare(p.lsn) >= 0 {
				every = time.Hour.Milliseconds()
			}
		}
		kept = keep(kept, document.Kept{LSN: p.lsn, Prev: p.prev, At: p.at}, every)
	}
	return kept
}

// without returns the chain without the given objects.
func (l *chain) without(bad map[string]bool) *chain {
	w := *l
	w.checkpoints = slices.DeleteFunc(slices.Clone(l.checkpoints), func(p point) bool { return bad[p.key] && !p.isOrigin() })
	w.sources = slices.DeleteFunc(slices.Clone(l.sources), func(s source) bool { return bad[s.key] })
	return &w
}
