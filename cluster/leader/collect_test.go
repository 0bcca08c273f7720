package leader

import (
	"math"
	"testing"
	"time"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// A leader whose document is not fresh, by its own clock, must not remove anything: a
// repair that puts an old document back may have replaced the document.
func TestCollectionByASleeper(t *testing.T) {
	ctx, bucket, now := t.Context(), mem.New(), time.Now()
	clock := func() time.Time { return now }
	n := New(Config{Bucket: bucket, Clock: clock, BrokerTimeout: 10 * time.Second}, Effects{
		Read:      func(fn func(*fsm.Machine)) { fn(fsm.New()) },
		ClusterID: func() string { return "c" },
	})
	me := election.Candidate{Node: "n1", Address: "a:1", Cluster: "c", Lineage: "l"}
	first, err := flush.First(ctx, flush.DefaultConfig(), bucket, me.Lineage, nil, fsm.New().View(), flush.NewUnflushedLog(1), false)
	if err != nil {
		t.Fatal(err)
	}
	fence, err := election.Acquire(ctx, bucket, DocumentKey, election.Observed{}, me, first, now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	r := &Term{base: n.base, fence: fence, clock: newLeaderClock(clock, 0, math.MaxInt64)}
	if ok, err := r.stillAlive(ctx); !ok || err != nil {
		t.Fatalf("a leader in its prime: %v, %v", ok, err)
	}
	for what, change := range map[string]func(*document.File){
		"stale":       func(d *document.File) { d.BrokerHeartbeat -= n.cfg.BrokerTimeout.Milliseconds() },
		"a repair's":  func(d *document.File) { d.Header.Epoch++ },
		"overtaken":   func(d *document.File) { d.Overtaken = true },
		"an original": func(d *document.File) { d.Header = nil },
	} {
		seen, err := n.readDocument(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if change(seen.Doc); r.alive(seen.Doc) {
			t.Errorf("%s: it is taken for this term's", what)
		}
	}
	if err := bucket.Delete(ctx, DocumentKey); err != nil {
		t.Fatal(err)
	}
	if ok, err := r.stillAlive(ctx); ok || err != nil {
		t.Errorf("no document is taken for this term's: %v", err)
	}
}
