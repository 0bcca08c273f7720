package flush

import (
	"context"
	"fmt"
	"math"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// First makes the content with which a document is acquired: doc is what stands
// there (nil: nothing), v the state of the new leader, and adopted says that v
// came out of doc. It costs no more than a flush, but after an adoption, and for
// a large state that is in no archive, a base is written first.
func First(
	ctx context.Context, cfg Config, bucket storage.Bucket, lineage string,
	doc *queuefile.Document, v *fsm.View, adopted bool,
) (*queuefile.Content, error) {
	c := &queuefile.Content{State: v, InlineMax: cfg.InlineMax, Meta: v.Meta(), Counts: v.Counts()}
	c.Meta.Lineage = lineage
	if doc != nil && !adopted {
		c.Archive = doc.Archive // the journal goes on from there
	}
	switch {
	case c.Archive != nil && doc.Large:
		c.State, c.Meta, c.Counts, c.Added = nil, doc.Meta, doc.Counts, Added(doc)
		return c, nil
	case !adopted && queuefile.Fits(v, cfg.InlineMax):
		return c, nil
	}
	prev, err := bridge(ctx, bucket, lineage, doc)
	if err != nil {
		return nil, err
	}
	base, err := archive.WriteBase(ctx, bucket, lineage, prev, v)
	if err != nil {
		return nil, fmt.Errorf("write the first base: %w", err)
	}
	c.Archive = &queuefile.Archive{Base: base, Tail: archive.NewTail(base.LSN).Frame()}
	if c.Added = Added(doc); len(c.Added) > 0 {
		c.State = nil // there is no place for them beside it
	}
	return c, nil
}

// Added are the jobs that somebody has put into a large document, or nil (doc can be,
// too): those that wait. They are carried over until the next flush, so that they are
// not lost if the new leader is before it has enqueued them.
func Added(doc *queuefile.Document) []*fsm.Job {
	if doc == nil || !doc.Large {
		return nil
	}
	return doc.NewJobs(math.MaxUint64)
}

// bridge is where the line before an adopted document's state ended. The
// document's tail becomes a segment, so that the past does not go with the
// document.
func bridge(ctx context.Context, bucket storage.Bucket, lineage string, doc *queuefile.Document) (fsm.LSN, error) {
	switch {
	case doc == nil || doc.Header == nil:
		return fsm.LSN{}, nil
	case doc.Archive == nil:
		return doc.Header.LSN(), nil
	case doc.Archive.Tail.Entries == 0: // the state can be a later one
		return doc.Archive.LSN(), nil
	}
	ref, data := archive.Segment(lineage, doc.Archive.Tail)
	if err := archive.Put(ctx, bucket, ref.Key, data); err != nil {
		return fsm.LSN{}, fmt.Errorf("keep the tail of the document: %w", err)
	}
	return doc.Archive.LSN(), nil
}
