package idtable

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

type item struct{ id string }

func idOf(i *item) string { return i.id }

// TestTableAgainstMap adds, replaces and removes items while the table grows and shrinks.
func TestTableAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, want := New(idOf), make(map[string]*item)
		for range 20 {
			adds := r.IntN(4) > 0
			for range r.IntN(2000) {
				id := "job " + strconv.Itoa(r.IntN(5000))
				if adds {
					want[id] = &item{id}
					x.Put(want[id])
				} else {
					delete(want, id)
					x.Remove(id)
				}
			}
			checkIDs(t, x, want)
		}
		for id := range want {
			delete(want, id)
			x.Remove(id)
		}
		checkIDs(t, x, want)
		if x.buckets > 1 {
			t.Fatalf("an empty table has %d buckets", x.buckets)
		}
	}
}

func checkIDs(t *testing.T, x *Table[item], want map[string]*item) {
	t.Helper()
	seen := 0
	for i := range x.buckets {
		for b := x.bucket(i); b != nil; b = b.more {
			seen += b.used()
		}
	}
	if seen != len(want) || x.Len() != len(want) {
		t.Fatalf("the table has %d items and counts %d, want %d", seen, x.Len(), len(want))
	}
	for n := range 5000 {
		if id := "job " + strconv.Itoa(n); x.Get(id) != want[id] {
			t.Fatalf("get(%q) is %v, want %v", id, x.Get(id), want[id])
		}
	}
}

// TestTableIsSmall checks the number of places for each job.
func TestTableIsSmall(t *testing.T) {
	t.Parallel()
	x := New(idOf)
	for n := range 100_000 {
		x.Put(&item{id: strconv.Itoa(n)})
		if n%10_000 != 9999 {
			continue
		}
		places := 0
		for i := range x.buckets {
			for b := x.bucket(i); b != nil; b = b.more {
				places += bucketItems
			}
		}
		if perJob := float64(places) / float64(n+1); perJob > 1.7 {
			t.Fatalf("%d jobs have %.2f places each", n+1, perJob)
		}
	}
}
