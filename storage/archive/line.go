package archive

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// line is the history that ends in a root, as far as names tell: what can be
// read of it, in order. It is made without a look into any object.
type line struct {
	lineage string
	bases   []point  // complete ones, by LSN; of equal ones the named one last
	sources []source // by where they begin; of equal ones the longest first
	strays  []string // keys of the lineage's objects that are not on the line
}

// point is a base on the line.
type point struct {
	lsn, prev fsm.LSN
	at        int64           // the machine's clock, ms
	key       string          // of the manifest
	named     *queuefile.Base // by the root; nil: by a listing
}

// newLine walks back from the root. An LSN names an entry and all that was before
// it, so what ends where the line has been is on the line, whoever wrote it: a
// segment or a base, whether it was ever named or not.
func newLine(lineage string, names []string, root *queuefile.Document) *line {
	w := walker{line: &line{lineage: lineage}, at: make(map[fsm.LSN][]name), seen: make(map[fsm.LSN]bool), on: make(map[string]bool)}
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
	w.root(root)
	w.walk()
	l := w.line
	for _, n := range all {
		key := n.key()
		if n.kind == partKind {
			key = n.directory() + manifestSuffix // on the line is the base that it is of
		}
		if !w.on[key] {
			l.strays = append(l.strays, n.key())
		}
	}
	l.sort()
	return l
}

func (l *line) sort() {
	slices.SortFunc(l.bases, comparePoints)
	slices.SortFunc(l.sources, func(a, b source) int {
		return cmp.Or(a.after.Compare(b.after), b.last.Compare(a.last),
			boolCompare(b.ref != nil, a.ref != nil), strings.Compare(a.key, b.key))
	})
}

// boolCompare has false before true.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// walker walks the line.
type walker struct {
	line *line
	at   map[fsm.LSN][]name // segments and bases by where they end
	seen map[fsm.LSN]bool
	todo []fsm.LSN
	on   map[string]bool // keys on the line
}

// root puts what the root names on the line, and the places that it tells of.
func (w *walker) root(doc *queuefile.Document) {
	w.visit(doc.Meta.LSN)
	a := doc.Archive
	if a == nil {
		return
	}
	w.base(point{a.Base.LSN, a.Base.Prev, a.Base.At, a.Base.Key, &a.Base})
	for i := range a.Log {
		w.source(refSource(&a.Log[i]))
	}
	w.visit(a.Tail.Last)
	if a.Tail.Entries > 0 {
		w.line.sources = append(w.line.sources, tailSource(&a.Tail))
	}
}

func (w *walker) base(p point) {
	if w.on[p.key] {
		return
	}
	w.on[p.key] = true
	w.line.bases = append(w.line.bases, p)
	w.visit(p.lsn)
	w.visit(p.prev)
}

func (w *walker) source(s source) {
	if w.on[s.key] {
		return
	}
	w.on[s.key] = true
	w.line.sources = append(w.line.sources, s)
	w.visit(s.last)
	w.visit(s.after)
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
				w.base(point{n.last, n.after, n.at, n.key(), nil})
			} else {
				w.source(source{after: n.after, last: n.last, until: n.at, key: n.key()})
			}
		}
	}
}

// cover returns the sources that lead from one LSN on the line on to another,
// and where they end: short of it if entries in between are not there. A source
// that begins where the one before it ends goes before one that overlaps.
func (l *line) cover(from, to fsm.LSN) (path []source, end fsm.LSN) {
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

// baseUpTo is the newest base that is not past a limit.
func (l *line) baseUpTo(to limit) (p point, ok bool) {
	for _, p := range slices.Backward(l.bases) {
		if p.lsn.Compare(to.lsn) <= 0 && p.at <= to.at {
			return p, true
		}
	}
	return point{}, false
}

// without is the line without objects.
func (l *line) without(bad map[string]bool) *line {
	w := *l
	w.bases = slices.DeleteFunc(slices.Clone(l.bases), func(p point) bool { return bad[p.key] })
	w.sources = slices.DeleteFunc(slices.Clone(l.sources), func(s source) bool { return bad[s.key] })
	return &w
}
