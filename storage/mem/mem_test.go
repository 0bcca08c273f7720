package mem_test

import (
	"context"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Bucket { return mem.New() })
}

func TestOpenSharesByName(t *testing.T) {
	ctx := context.Background()
	open := func(raw string) storage.Bucket {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mem.Open(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, again, other := open("mem://shared-by-name"), open("mem://shared-by-name/"), open("mem://")
	if w := a.PutIfAbsent(ctx, "k", nil); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	if _, err := again.Get(ctx, "k"); err != nil {
		t.Errorf("the same name is another bucket: %v", err)
	}
	if _, err := other.Get(ctx, "k"); err == nil {
		t.Error("another name is the same bucket")
	}
	if _, err := mem.Open(ctx, &url.URL{Scheme: "mem", Host: "x", Path: "/prefix"}); err == nil {
		t.Error("a memory bucket took a path")
	}
}
