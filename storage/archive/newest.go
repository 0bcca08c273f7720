package archive

import (
	"context"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// Newest returns the newest LSN at which a segment or a checkpoint of a lineage ends, or a zero
// LSN. It can be later than that of the document: a leader writes objects before the document
// names them, and an older copy of the document can be put back.
func Newest(ctx context.Context, bucket storage.Bucket, lineage string) (newest fsm.LSN, err error) {
	err = each(ctx, bucket, lineage, func(key string) {
		n, ok := parseName(key)
		if ok && (n.kind == segmentKind || n.kind == manifestKind) && n.last.Compare(newest) > 0 {
			newest = n.last
		}
	})
	return newest, err
}

// beside returns the history that ends at an LSN which is not in the history of the document,
// because a later document does not follow from it.
func (h *History) beside(lsn fsm.LSN) *History {
	other := *h
	other.line = newLine(h.line.lineage, h.names, &document.File{Header: &document.Header{Term: lsn.Term, Index: lsn.Index}})
	return &other
}
