package archive

import (
	"testing"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestAuditGoesOn checks that a pass after one that ended early does not read the same objects
// again.
func TestAuditGoesOn(t *testing.T) {
	t.Parallel()
	w, other := fixedWorld(t.Context(), true), fixedWorld(t.Context(), true)
	root := *w.root.Archive
	first, second := root.Log[0], other.root.Archive.Log[0]
	o, err := other.bucket.Get(w.ctx, second.Key)
	must(err)
	must(Put(w.ctx, w.bucket, second.Key, o.Data))
	root.Log = []document.Ref{first, second}

	bucket := fault.New(w.bucket, 1)
	a := NewAudit(bucket)
	lost := func(key string) *fault.Injection {
		return bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}, KeyPrefix: key})
	}
	rule := lost(second.Key)
	if _, _, err := a.needs(w.ctx, &root); err == nil || rule.Hits() == 0 {
		t.Fatalf("the second segmentIndex was read: %v", err)
	}
	rule.Stop()
	rule = lost(first.Key)
	if all, found, err := a.needs(w.ctx, &root); err != nil || found != nil || len(all) == 0 || rule.Hits() > 0 {
		t.Errorf("%d objects, %+v, %v; the first segmentIndex was read %d times again", len(all), found, err, rule.Hits())
	}
	root.Log = root.Log[1:]
	if _, _, err := a.needs(w.ctx, &root); err != nil || len(a.segmentIndexes) != 1 {
		t.Errorf("%d segmentIndexes are remembered, %v", len(a.segmentIndexes), err)
	}
}
