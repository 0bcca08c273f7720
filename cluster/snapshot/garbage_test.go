package snapshot

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestGarbage(t *testing.T) {
	const hour = 3_600_000
	name := func(node string, term, index uint64, at int64) string {
		return upload{cluster: "c1", node: node, point: point{term, index}, at: at, id: "X"}.prefix()
	}
	whole := func(prefix string) []string { return []string{prefix + "/000000.part", prefix + "/manifest.json"} }
	newest, second, third := name("n1", 2, 40, 9*hour), name("n2", 1, 50, 8*hour), name("n3", 1, 45, 7*hour)
	old := name("n1", 1, 44, hour) + "/000000.part"      // abandoned
	slow := name("n2", 1, 44, 8*hour+1) + "/000000.part" // may still be in progress
	ahead := name("n3", 2, 41, hour) + "/000000.part"    // newer than all
	foreign := []string{
		"snapshots/c2/n1/1-1-1~X/manifest.json", "snapshots/c1/n1/hello", "queue.json",
		third + "/notes.txt", third + "/1.part", name("n1", 1, 43, hour) + "/000000.part.bak", // files of people
	}

	keys := slices.Concat(whole(newest), whole(second), whole(third), []string{old, slow, ahead}, foreign)
	want := []string{third + "/manifest.json", third + "/000000.part", old}
	for range 10 {
		if got := Garbage(keys, "c1", 2); !slices.Equal(got, want) {
			t.Fatalf("it is %v, want %v", got, want)
		}
	}
	if got := Garbage(keys, "c1", 0); len(got) != 5 {
		t.Errorf("with none to keep it is %v", got)
	}
	if got := Garbage([]string{old, slow, ahead}, "c1", 2); got != nil {
		t.Errorf("without a complete one it is %v", got)
	}
}

// TestGarbageLeavesTheNewest checks Garbage for any content of the bucket.
func TestGarbageLeavesTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []string
		for range rapid.IntRange(0, 12).Draw(t, "uploads") {
			u := upload{
				cluster: rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "cluster"),
				node:    rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
				point:   point{rapid.Uint64Range(1, 3).Draw(t, "term"), rapid.Uint64Range(1, 9).Draw(t, "index")},
				at:      rapid.Int64Range(0, 3*underWay.Milliseconds()).Draw(t, "at"),
				id:      rapid.StringMatching(`[A-Z]{3}`).Draw(t, "id"),
			}
			for part := range rapid.IntRange(0, 3).Draw(t, "parts") {
				keys = append(keys, fmt.Sprintf("%s/%06d.part", u.prefix(), part))
			}
			if rapid.Bool().Draw(t, "complete") {
				keys = append(keys, u.manifest())
			}
		}
		keep := rapid.IntRange(1, 3).Draw(t, "keep")
		before := completed(survey(keys, "c1"))
		garbage := Garbage(keys, "c1", keep)
		// The collector may stop at any point.
		gone := garbage[:rapid.IntRange(0, len(garbage)).Draw(t, "deleted")]
		left := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(gone, k) })
		after := completed(survey(left, "c1"))
		for i, f := range before[:min(keep, len(before))] {
			if i >= len(after) || after[i].upload != f.upload || len(after[i].parts) != len(f.parts) {
				t.Fatalf("of %+v there is left %+v", before, after)
			}
		}
		for _, f := range after {
			if i := slices.IndexFunc(before, func(g found) bool { return g.upload == f.upload }); len(before[i].parts) != len(f.parts) {
				t.Fatalf("%+v has lost parts before its manifest", f)
			}
		}
		for _, k := range gone {
			if u, _ := parseKey(k); u.cluster != "c1" {
				t.Fatalf("%s is not of the cluster", k)
			}
		}
		if len(gone) == len(garbage) && len(after) > keep && len(before) > keep {
			t.Fatalf("%d are left", len(after))
		}
	})
}

func TestCollect(t *testing.T) {
	b := fault.New(filled(t), 1)
	n := len(keys(t, b))
	away := b.Inject(fault.Rule{Kind: fault.LoseRequest, Skip: 2})
	if deleted, err := Collect(t.Context(), b, testCluster, 2, 10); err == nil || deleted != 1 {
		t.Errorf("%d are deleted; %v", deleted, err)
	}
	away.Stop()
	wantUploads(t, b, "n1/2-35", "n2/1-20")
	if deleted, err := Collect(t.Context(), b, testCluster, 1, 1); err != nil || deleted != 1 {
		t.Errorf("%d are deleted; %v", deleted, err)
	}
	wantUploads(t, b, "n1/2-35")
	if deleted, err := Collect(t.Context(), b, "c2", 1, 10); err != nil || deleted != 0 {
		t.Errorf("%d are deleted; %v", deleted, err)
	}
	// The rest of the two uploads without manifest is too young to be garbage.
	if left := len(keys(t, b)); left != n-2 {
		t.Errorf("%d of %d objects are left", left, n)
	}
	if _, err := Fetch(t.Context(), b, t.TempDir(), testCluster, FetchOptions{}); err != nil {
		t.Error(err)
	}
}

func TestUnderWayIsLongerThanAnUploadWaits(t *testing.T) {
	if underWay < 2*(longPause+findLimit) || underWay < 10*time.Minute {
		t.Error("an upload that waits for the bucket would be taken for given up")
	}
}

// TestCollectOthers checks that the snapshots of a cluster without a recent upload are
// removed, and that those of this cluster and of a standby are not.
func TestCollectOthers(t *testing.T) {
	ctx, b := t.Context(), mem.New()
	put := func(cluster string, at int64) (keys []string) {
		u := upload{cluster: cluster, node: "n1", point: point{1, uint64(at)}, at: at, id: "X"}
		for _, key := range []string{u.prefix() + "/000000.part", u.manifest()} {
			if w := b.PutIfAbsent(ctx, key, nil); w.Err != nil {
				t.Fatal(w.Err)
			}
			keys = append(keys, key)
		}
		return keys
	}
	kept := slices.Concat(put("ours", 1), put("standby", 2), put("standby", 200))
	put("gone", 3)
	put("gone", 99)
	if n, err := CollectOthers(ctx, b, "ours", 100, 1); n != 1 || err != nil {
		t.Fatalf("%d deleted, %v", n, err)
	}
	if n, err := CollectOthers(ctx, b, "ours", 100, 10); n != 3 || err != nil {
		t.Fatalf("%d deleted, %v", n, err)
	}
	var left []string
	b.List(ctx, "", func(i storage.Info) bool { left = append(left, i.Key); return true })
	if slices.Sort(kept); !slices.Equal(left, kept) {
		t.Errorf("%q is left, want %q", left, kept)
	}
}
