package archive

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// sweep walks the line back from a root as newLine does, to the newest checkpoint that is
// as old as the window, in a bounded memory. A segment or a checkpoint leads from an LSN
// back to an earlier one, so that a walk in the order of their last LSNs, newest first, meets
// all that leads to an LSN before all that ends there. If a listing has more of them than
// the sweep may hold, the sweep keeps the newest, walks these, and continues with the next
// newest of another listing.
//
//	for !s.over {
//		s.begin()
//		s.add(…) // each name of a listing
//		s.run()
//	}
type sweep struct {
	root   *document.File
	before int64
	size   bounds

	edges       []edge
	checkpoints []point // checkpoints among the edges
	// upper is the last LSN of the newest edges that the next run walks, unless it is the
	// first run; floor is that of the newest ones that did not fit.
	upper, floor fsm.LSN
	later, cut   bool // whether upper, floor are set

	reached map[fsm.LSN]bool // LSNs on the line that no edge of which was walked yet
	line    []point          // checkpoints on the line before the root's, newest first

	// The log covers all entries after low up to end, where it is joined without a hole.
	low, end fsm.LSN
	covered  bool

	over   bool
	found  bool
	oldest point // the checkpoint before which nothing is needed, if found
}

// edge is a segment or a checkpoint of the listing, without its name.
type edge struct {
	after, last fsm.LSN
	checkpoint  int // its place in sweep.checkpoints; -1: a segment
}

func newSweep(root *document.File, before int64, size bounds) *sweep {
	s := &sweep{root: root, before: before, size: size, reached: make(map[fsm.LSN]bool)}
	a := root.Archive
	for _, lsn := range []fsm.LSN{root.LSN(), a.Checkpoint.LSN, a.Checkpoint.Prev, a.Tail.Last} {
		s.reached[lsn] = true
	}
	for i := range a.Log {
		s.reached[a.Log[i].After], s.reached[a.Log[i].Last] = true, true
	}
	return s
}

// begin begins a listing.
func (s *sweep) begin() {
	s.edges, s.checkpoints, s.cut = s.edges[:0], s.checkpoints[:0], false
	a := s.root.Archive
	s.addCheckpoint(point{a.Checkpoint.LSN, a.Checkpoint.Prev, a.Checkpoint.At, a.Checkpoint.Key, &a.Checkpoint})
	for i := range a.Log {
		s.addEdge(edge{a.Log[i].After, a.Log[i].Last, -1})
	}
	if a.Tail.Entries > 0 {
		s.addEdge(edge{a.Tail.After, a.Tail.Last, -1})
	}
}

// add takes the name of an object of the lineage.
func (s *sweep) add(key string, n name) {
	switch {
	case n.kind == segmentKind:
		s.addEdge(edge{n.after, n.last, -1})
	case n.kind == manifestKind && key != s.root.Archive.Checkpoint.Key:
		s.addCheckpoint(point{n.last, n.after, n.at, key, nil})
	}
}

func (s *sweep) addCheckpoint(p point) {
	if s.takes(p.lsn) {
		s.checkpoints = append(s.checkpoints, p)
		s.addEdge(edge{p.prev, p.lsn, len(s.checkpoints) - 1})
	}
}

func (s *sweep) addEdge(e edge) {
	if !s.takes(e.last) {
		return
	}
	s.edges = append(s.edges, e)
	if len(s.edges) >= s.size.edges {
		s.halve()
	}
}

func (s *sweep) takes(last fsm.LSN) bool {
	return (!s.later || last.Compare(s.upper) <= 0) && (!s.cut || last.Compare(s.floor) > 0)
}

// halve drops the older half of the edges. Edges with the same last LSN stay together.
func (s *sweep) halve() {
	s.newestFirst()
	half := len(s.edges) / 2
	s.floor, s.cut = s.edges[half].last, true
	for half > 0 && s.edges[half-1].last == s.floor {
		half--
	}
	s.edges = s.edges[:half]
	var checkpoints []point
	for i := range s.edges {
		if e := &s.edges[i]; e.checkpoint >= 0 {
			checkpoints = append(checkpoints, s.checkpoints[e.checkpoint])
			e.checkpoint = len(checkpoints) - 1
		}
	}
	s.checkpoints = checkpoints
}

func (s *sweep) newestFirst() {
	slices.SortFunc(s.edges, func(a, b edge) int { return b.last.Compare(a.last) })
}

// run walks the edges of a listing.
func (s *sweep) run() {
	s.newestFirst()
	for rest := s.edges; len(rest) > 0 && !s.found; {
		n := 1
		for n < len(rest) && rest[n].last == rest[0].last {
			n++
		}
		s.walk(rest[:n])
		rest = rest[n:]
	}
	if s.cut {
		maps.DeleteFunc(s.reached, func(lsn fsm.LSN, _ bool) bool { return lsn.Compare(s.floor) > 0 })
	}
	if !s.found && !s.cut && s.reached[fsm.LSN{}] { // the origin is older than any window
		s.oldest, s.found = point{}, true
	}
	// A sweep that cannot hold the edges of a single LSN proves nothing.
	s.over = s.found || !s.cut || len(s.edges) == 0
	s.later, s.upper = true, s.floor
}

// walk walks the edges that end at the same LSN.
func (s *sweep) walk(edges []edge) {
	lsn := edges[0].last
	if !s.reached[lsn] {
		return // they are not on the line
	}
	delete(s.reached, lsn)
	var checkpoints []point
	for _, e := range edges {
		if e.after != lsn {
			s.reached[e.after] = true
		}
		if e.checkpoint >= 0 {
			checkpoints = append(checkpoints, s.checkpoints[e.checkpoint])
		} else {
			s.cover(e)
		}
	}
	slices.SortFunc(checkpoints, comparePoints)
	to := limit{lsn: s.root.Archive.Checkpoint.LSN, at: s.before}
	for _, p := range slices.Backward(checkpoints) {
		if p.lsn.Compare(to.lsn) <= 0 && p.at <= to.at {
			s.oldest, s.found = p, true
			return
		}
	}
	for _, p := range slices.Backward(checkpoints) {
		if p.lsn.Compare(to.lsn) < 0 {
			s.keep(p)
		}
	}
}

// comparePoints sorts checkpoints by LSN; of equal ones the named one is last.
func comparePoints(a, b point) int {
	return cmp.Or(a.lsn.Compare(b.lsn), boolCompare(a.named != nil, b.named != nil), strings.Compare(a.key, b.key))
}

// cover adds an edge of the log.
func (s *sweep) cover(e edge) {
	switch {
	case !s.covered || e.last.Compare(s.low) < 0:
		s.low, s.end, s.covered = e.after, e.last, true
	case e.after.Compare(s.low) < 0:
		s.low = e.after
	}
}

// keep adds a checkpoint on the line. Of too many it drops the newest, which another collection
// thins.
func (s *sweep) keep(p point) {
	if len(s.line) >= s.size.checkpoints {
		s.line = slices.Delete(s.line, 0, (len(s.line)+1)/2)
	}
	s.line = append(s.line, p)
}

// redundant returns the directories of the checkpoints after the oldest that are not needed
// to restore any state, because the log leads on from an earlier checkpoint that is kept.
// The root's checkpoint, and one that bridges a hole of the log, are needed. A checkpoint
// after the root's may be named by a document that is newer than the root.
func (s *sweep) redundant() []string {
	end := s.oldest.lsn
	if s.covered && s.low.Compare(end) <= 0 {
		end = s.end
	}
	var thin []string
	kept, now := s.oldest.at, s.root.Now()
	for _, p := range slices.Backward(s.line) {
		if p.named == nil && p.prev == p.lsn && p.lsn.Compare(end) <= 0 && p.at <= now-thinAfter && p.at < kept+thinEvery {
			thin = append(thin, strings.TrimSuffix(p.key, manifestSuffix))
		} else {
			kept = p.at
		}
	}
	return thin
}
