package leader

import (
	"context"
	"time"

	"osqueue/internal/sleep"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/probe"
)

// collectMost is the largest number of objects that one round removes. A round also ends after Config.CollectInterval.
const collectMost = 1_000_000

// collect removes objects that are not needed any more from the bucket, every
// Config.CollectInterval, until ctx ends. The document in the bucket says which objects
// are needed.
func (t *Term) collect(ctx context.Context) {
	var probes map[string]bool
	var copies archive.Copies
	for sleep.For(ctx, t.cfg.CollectInterval) {
		if t.flusher.Failing() != "" {
			continue
		}
		var err error
		if probes, err = probe.Collect(ctx, t.cfg.Bucket, probes); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot collect garbage in the bucket; trying again", "error", err)
		}
		if err := t.collectOnce(ctx, &copies); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot collect garbage in the bucket; trying again", "error", err)
		}
	}
}

func (t *Term) collectOnce(ctx context.Context, copies *archive.Copies) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.CollectInterval)
	defer cancel()
	seen, err := t.readDocument(ctx)
	if err != nil || !t.alive(seen.Doc) {
		return err // the next flush detects the lost document
	}
	before := time.UnixMilli(t.clock.now()).Add(-t.cfg.Flush.Window)
	kept, more, err := copies.Read(ctx, t.cfg.Bucket)
	if err != nil {
		return err
	}
	if more {
		t.log.Warn("there are too many copies of documents: objects that only some of them need are deleted when they "+
			"are older than --pitr-window; remove the copies that you do not need", "prefix", archive.CopyPrefix)
	}
	deleted, err := archive.Collect(ctx, t.cfg.Bucket, seen.Doc, before, collectMost, t.stillAlive, kept...)
	if deleted > 0 {
		t.log.Debug("deleted objects that are past the window", "objects", deleted, "before", before)
	}
	return err
}

// alive reports whether a document belongs to this leader term and its heartbeat is so
// recent that no other broker can have taken it over.
func (t *Term) alive(doc *document.File) bool {
	return doc != nil && doc.Header != nil && doc.Header.Epoch == t.fence.Epoch() && !doc.Overtaken &&
		t.clock.now()-doc.BrokerHeartbeat < t.cfg.BrokerTimeout.Milliseconds()
}

// stillAlive reads the document again: this node may have been paused for long.
func (t *Term) stillAlive(ctx context.Context) (bool, error) {
	seen, err := t.readDocument(ctx)
	return err == nil && t.alive(seen.Doc), err
}
