package flush

import (
	"context"
	"fmt"
	"math"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// First returns the content with which a leader acquires a document. doc is the existing
// document (nil: none), v is the state of the new leader, and adopted reports whether v
// came from doc. First costs no more than a flush, except after an adoption, or for a large
// state without an archive: it then writes a checkpoint first.
func First(
	ctx context.Context, cfg Config, bucket storage.Bucket, lineage string,
	doc *document.File, v *fsm.View, adopted bool,
) (*document.Content, error) {
	c := &document.Content{State: v, InlineMax: cfg.InlineMax, Meta: v.Meta(), Counts: v.Counts()}
	c.Meta.Lineage = lineage
	if doc != nil && !adopted {
		c.Archive = doc.Archive // the unflushed log continues this archive
	}
	switch {
	case c.Archive != nil && doc.Large:
		c.State, c.Meta, c.Counts, c.Added = nil, doc.Meta, doc.Counts, Added(doc)
		return c, nil
	case !adopted && document.Fits(v, cfg.InlineMax):
		return c, nil
	}
	prev, err := bridge(ctx, bucket, lineage, doc)
	if err != nil {
		return nil, err
	}
	checkpoint, err := archive.WriteCheckpoint(ctx, bucket, lineage, prev, v)
	if err != nil {
		return nil, fmt.Errorf("write the first checkpoint: %w", err)
	}
	c.Archive = &document.Archive{Checkpoint: checkpoint, Tail: archive.NewTail(checkpoint.LSN).Frame()}
	if c.Added = Added(doc); len(c.Added) > 0 {
		c.State = nil // a content cannot have both
	}
	return c, nil
}

// Added returns the available jobs that a person has added to a large document, or nil; doc
// may be nil. The leader carries them over until the next flush, so that they are not lost
// if it fails before it has enqueued them.
func Added(doc *document.File) []*fsm.Job {
	if doc == nil || !doc.Large {
		return nil
	}
	return doc.NewJobs(math.MaxUint64)
}

// bridge returns the LSN at which the archive of an adopted document ended. It writes the
// document's tail as a segment, so that the past survives the document.
func bridge(ctx context.Context, bucket storage.Bucket, lineage string, doc *document.File) (fsm.LSN, error) {
	switch {
	case doc == nil || doc.Header == nil:
		return fsm.LSN{}, nil
	case doc.Archive == nil:
		return doc.Header.LSN(), nil
	case doc.Archive.Tail.Entries == 0: // the state may be later
		return doc.Archive.LSN(), nil
	}
	ref, data := archive.Segment(lineage, doc.Archive.Tail)
	if err := archive.Put(ctx, bucket, ref.Key, data); err != nil {
		return fsm.LSN{}, fmt.Errorf("keep the tail of the document: %w", err)
	}
	return doc.Archive.LSN(), nil
}
