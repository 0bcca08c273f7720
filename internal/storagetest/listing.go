package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"osqueue/storage"
)

func (s *suite) list(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	if keys := mustKeys(ctx, t, b, ""); len(keys) != 0 {
		t.Fatalf("a new bucket holds %q", keys)
	}
	var want []string
	for i := range s.objects {
		key := fmt.Sprintf("log/%04d.seg", i)
		mustCommit(t, b.PutIfAbsent(ctx, key, make([]byte, i)))
		want = append(want, key)
	}
	mustCommit(t, b.PutIfAbsent(ctx, "queue.json", []byte("{}")))
	var sizes []int64
	var got []string
	err := s.second(t, b).List(ctx, "log/", func(i storage.Info) bool {
		got, sizes = append(got, i.Key), append(sizes, i.Size)
		return true
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("list log/ = %d keys, %v; want %d", len(got), err, len(want))
	}
	for i, size := range sizes {
		if size != int64(i) {
			t.Fatalf("size of %s is %d, want %d", got[i], size, i)
		}
	}
	if got := mustKeys(ctx, t, b, ""); len(got) != len(want)+1 {
		t.Fatalf("list of everything has %d keys, want %d", len(got), len(want)+1)
	}
}

func (s *suite) listOrder(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	want := slices.DeleteFunc(slices.Clone(manyKeys), func(k string) bool { return k == "a/b" })
	for i := range want { // written in another order
		key := want[i*7%len(want)]
		mustCommit(t, b.PutIfAbsent(ctx, key, []byte(key)))
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "a/b/c.d", "b", "b.", "b/~", "zz", "A", "/", "..", "a//"} {
		var matching []string
		for _, key := range want {
			if strings.HasPrefix(key, prefix) {
				matching = append(matching, key)
			}
		}
		if got := mustKeys(ctx, t, b, prefix); !slices.Equal(got, matching) {
			t.Errorf("list %q = %q, want %q", prefix, got, matching)
		}
	}
}

func (s *suite) listStops(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for i := range 9 {
		mustCommit(t, b.PutIfAbsent(ctx, fmt.Sprintf("d%d/k", i), nil))
	}
	calls := 0
	err := b.List(ctx, "", func(storage.Info) bool {
		calls++
		return calls < 4
	})
	if err != nil || calls != 4 {
		t.Fatalf("list called back %d times and returned %v, want 4 times and nil", calls, err)
	}
}
