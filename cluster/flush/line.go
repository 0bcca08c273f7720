package flush

import (
	"slices"

	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// line is the archive in the making: the log behind a base, which may itself be
// still under way.
type line struct {
	base *queuefile.Base // nil until it is in the bucket
	refs []queuefile.Ref
	tail *archive.Tail
	rent int64 // bytes of the tail in all documents since the last cut
}

// resume goes on from a document's archive.
func resume(a *queuefile.Archive) (*line, error) {
	tail, err := archive.ResumeTail(&a.Tail)
	if err != nil {
		return nil, err
	}
	base := a.Base
	return &line{base: &base, refs: slices.Clone(a.Log), tail: tail}, nil
}

// begin starts a line at a state whose base is yet to be written.
func begin(at fsm.LSN) *line { return &line{tail: archive.NewTail(at)} }

// last is the entry that the line reaches.
func (l *line) last() fsm.LSN { return l.tail.Run().Last }

// stored is the size of the log in the bucket.
func (l *line) stored() (bytes int64) {
	for i := range l.refs {
		bytes += l.refs[i].Stored
	}
	return bytes
}

// archive is what a document names; nil without a base.
func (l *line) archive() *queuefile.Archive {
	if l.base == nil {
		return nil
	}
	return &queuefile.Archive{Base: *l.base, Log: slices.Clone(l.refs), Tail: l.tail.Frame()}
}

// cut replaces the tail by objects that hold it, and what came after it.
func (l *line) cut(refs ...queuefile.Ref) {
	l.refs = append(l.refs, refs...)
	l.tail, l.rent = archive.NewTail(refs[len(refs)-1].Last), 0
}

// rebase puts a base in the place of the log before it. The log was cut there.
func (l *line) rebase(b *queuefile.Base) {
	l.base = b
	l.refs = slices.DeleteFunc(l.refs, func(r queuefile.Ref) bool { return r.Last.Compare(b.LSN) <= 0 })
}

// foldable is the range of refs that a chapter may take the place of: n segments
// in a row, that lie on one side of a base under way.
func (l *line) foldable(n int, boundary fsm.LSN) (from, to int, ok bool) {
	for i := range l.refs {
		r := &l.refs[i]
		if archive.IsChapter(r.Key) || r.After == boundary {
			from = i
			if archive.IsChapter(r.Key) {
				from++
			}
		}
		if i+1-from == n {
			return from, i + 1, true
		}
	}
	return 0, 0, false
}
