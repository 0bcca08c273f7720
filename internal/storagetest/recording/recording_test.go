package recording_test

import (
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Bucket { return recording.New(mem.New(), nil) })
}

func TestHistory(t *testing.T) {
	ctx := t.Context()
	inner := mem.New()
	b := recording.New(inner, nil)
	v1 := b.PutIfAbsent(ctx, "k", []byte("1")).Version
	b.PutIfAbsent(ctx, "k", []byte("refused"))
	v2 := b.PutIfMatch(ctx, "k", []byte("2"), v1).Version
	b.PutIfMatch(ctx, "k", []byte("refused"), v1)
	b.Get(ctx, "k")
	inner.PutIfMatch(ctx, "k", []byte("foreign"), v2)
	b.Get(ctx, "k")
	b.Get(ctx, "k")
	b.Delete(ctx, "k")
	b.Delete(ctx, "k")
	got := ""
	for _, e := range b.History("k") {
		got += fmt.Sprintf("%s %s; ", e.How, e.Data)
	}
	if want := "created 1; replaced 2; observed foreign; deleted ; "; got != want {
		t.Fatalf("history: %s want: %s", got, want)
	}
	if h := b.History("k"); h[1].Parent != h[0].Version || h[1].Version != v2 {
		t.Fatalf("entry 1 = %+v", h[1])
	}
	if keys := b.Keys(); len(keys) != 1 || keys[0] != "k" || b.History("other") != nil {
		t.Fatalf("keys %q", keys)
	}
}

// TestOrderUnderRaces checks that each recorded version names its predecessor,
// with answers being lost above the recorder.
func TestOrderUnderRaces(t *testing.T) {
	ctx := t.Context()
	accepted := 0
	rec := recording.New(mem.New(), func(recording.Entry) { accepted++ })
	b := fault.New(rec, 3)
	defer b.Close()
	lost := b.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: []storage.Op{storage.OpPutIfMatch}, Probability: 0.2})
	b.PutIfAbsent(ctx, "k", []byte("0"))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 50 {
				o, err := b.Get(ctx, "k")
				if err != nil {
					t.Error(err)
					return
				}
				b.PutIfMatch(ctx, "k", fmt.Appendf(nil, "%d.%d", i, n), o.Version)
			}
		})
	}
	group.Wait()
	h := rec.History("k")
	for i := 1; i < len(h); i++ {
		if h[i].How != recording.Replaced || h[i].Parent != h[i-1].Version {
			t.Fatalf("entry %d %+v does not follow %+v", i, h[i], h[i-1])
		}
	}
	if lost.Hits() == 0 || len(h) < 50 || accepted != len(h) {
		t.Fatalf("%d lost answers, %d versions, %d told: this proved nothing", lost.Hits(), len(h), accepted)
	}
}
