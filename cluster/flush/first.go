package flush

import (
	"context"
	"fmt"
	"math/rand/v2"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// First returns the content with which a leader acquires a document. doc is the existing
// document (nil: none), and v is the state of the new leader. First costs no more than a flush,
// unless neither the document nor the entries in memory lead to v, or apart is set, because v was
// adopted or the archive of doc is not complete: it then writes a checkpoint first.
func First(
	ctx context.Context, cfg Config, bucket storage.Bucket, lineage string,
	doc *document.File, v *fsm.View, unflushed *UnflushedLog, apart bool,
) (*document.Content, error) {
	c := &document.Content{Jobs: v, ViewMax: cfg.viewMax(doc == nil || doc.Header == nil || doc.Viewed), Meta: v.Meta(), Counts: v.Counts()}
	c.Meta = fsmpb.Clone(c.Meta) // the view's does not change
	c.Meta.Lineage = lineage
	if doc != nil && doc.Archive != nil && !apart {
		if c.Archive = reach(cfg, doc.Archive, unflushed, v); c.Archive == nil { // the unflushed log continues it later
			c.Archive, c.Jobs, c.Meta, c.Counts = doc.Archive, nil, metaOf(doc), doc.Header.Counts
		}
		return c, nil
	}
	if doc == nil && !apart {
		young := &document.Archive{Tail: archive.NewTail(fsm.LSN{}).Frame()}
		if c.Archive = reach(cfg, young, unflushed, v); c.Archive != nil {
			return c, nil
		}
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
	if doc != nil && doc.Archive != nil {
		c.Archive.Kept = archive.Keep(doc.Archive, &checkpoint, cfg.Window)
	}
	return c, nil
}

// reach returns archive a with the entries after it up to v in its tail, or nil if they are
// not in memory, or too many for a tail.
func reach(cfg Config, a *document.Archive, unflushed *UnflushedLog, v *fsm.View) *document.Archive {
	l, err := resume(a)
	if err != nil {
		return nil
	}
	entries, more, ok := unflushed.Range(l.last(), v.LSN(), cfg.TailRaw)
	if !ok || more || l.tail.Append(entries...) != nil || l.last() != v.LSN() || l.tail.Stored() > cfg.TailMax {
		return nil
	}
	return l.archive()
}

// metaOf returns what the header of a document says about its state.
func metaOf(doc *document.File) *fsm.Meta {
	h := doc.Header
	return &fsm.Meta{
		Term: h.LSN().Term, Index: h.LSN().Index, NowMs: h.Now, LastSeq: h.LastSeq, LastToken: h.LastToken, Lineage: h.Lineage,
		Cluster: h.Cluster, Epoch: h.Registered, Level: h.Level, CompletedTotal: doc.CompletedTotal,
	}
}

// bridge returns the LSN at which the archive of an adopted document ended. It writes the
// document's tail as a segment, so that the past survives the document.
func bridge(ctx context.Context, bucket storage.Bucket, lineage string, doc *document.File) (fsm.LSN, error) {
	switch {
	case doc == nil || doc.Header == nil:
		return fsm.LSN{}, nil
	case doc.Archive.Tail.Entries == 0:
		return doc.Archive.LSN(), nil
	}
	ref, data := archive.Segment(lineage, doc.Archive.Tail)
	if err := archive.Put(ctx, bucket, ref.Key, data); err != nil {
		return fsm.LSN{}, fmt.Errorf("keep the tail of the document: %w", err)
	}
	return doc.Archive.LSN(), nil
}

// termsAhead bounds the random distance of the term of an adopted state.
const termsAhead = 1 << 20

// Adopt makes a state that was read from a version of the document the state of a cluster. The
// raft term of the cluster is term, and left is the LSN at which its machine was before. The state
// gets an LSN that no other cluster uses.
//
// The next term would not be unique. A leader that took the document over may have written
// objects to the bucket, and failed before its document named them; another cluster may
// have adopted the same document before, and lost it. A reader that follows the history by
// names (package archive) would take their entries for those of this cluster. Their last
// term is unknown, so Adopt picks a random term far ahead.
func Adopt(m *fsm.Machine, cluster string, version storage.Version, term uint64, left fsm.LSN) {
	ahead := max(m.LSN().Term, left.Term) + 1 + rand.Uint64N(termsAhead)
	m.Transplant(cluster, string(version), term, ahead)
}
