package flush

import (
	"slices"

	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// line is the archive under construction: the log after a checkpoint, which may itself not
// be in the bucket yet.
type line struct {
	checkpoint *document.Checkpoint // nil until it is in the bucket; zero for a young queue
	kept       []document.Kept      // earlier checkpoints
	refs       []document.Ref
	tail       *archive.Tail
	repeated   int64 // bytes of the tail in all documents since the last seal
}

// resume continues a document's archive.
func resume(a *document.Archive) (*line, error) {
	tail, err := archive.ResumeTail(&a.Tail)
	if err != nil {
		return nil, err
	}
	checkpoint := a.Checkpoint
	return &line{checkpoint: &checkpoint, kept: a.Kept, refs: slices.Clone(a.Log), tail: tail}, nil
}

// begin starts a line at a state whose checkpoint is not written yet.
func begin(at fsm.LSN) *line { return &line{tail: archive.NewTail(at)} }

// last returns the LSN of the last entry in the line.
func (l *line) last() fsm.LSN { return l.tail.Run().Last }

// stored returns the size of the log in the bucket, bytes.
func (l *line) stored() (bytes int64) {
	for i := range l.refs {
		bytes += l.refs[i].Stored
	}
	return bytes
}

// archive returns the archive for a document; nil without a checkpoint.
func (l *line) archive() *document.Archive {
	if l.checkpoint == nil {
		return nil
	}
	return &document.Archive{Checkpoint: *l.checkpoint, Log: slices.Clone(l.refs), Tail: l.tail.Frame(), Kept: l.kept}
}

// cut replaces the tail by the objects that contain it and the entries after it.
func (l *line) cut(refs ...document.Ref) {
	l.refs = append(l.refs, refs...)
	l.tail, l.repeated = archive.NewTail(refs[len(refs)-1].Last), 0
}

// rebase replaces the log before a checkpoint by the checkpoint. The log must be sealed
// there. kept are the earlier checkpoints.
func (l *line) rebase(b *document.Checkpoint, kept []document.Kept) {
	l.checkpoint, l.kept = b, kept
	l.refs = slices.DeleteFunc(l.refs, func(r document.Ref) bool { return r.Last.Compare(b.LSN) <= 0 })
}

// foldable returns a range of refs that a segment index may replace: n consecutive segments
// that do not cross boundary, the LSN of a checkpoint that is being written.
func (l *line) foldable(n int, boundary fsm.LSN) (from, to int, ok bool) {
	for i := range l.refs {
		r := &l.refs[i]
		if archive.IsSegmentIndex(r.Key) || r.After == boundary {
			from = i
			if archive.IsSegmentIndex(r.Key) {
				from++
			}
		}
		if i+1-from == n {
			return from, i + 1, true
		}
	}
	return 0, 0, false
}
