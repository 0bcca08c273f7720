package fsm

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestJobIDsAgainstMap adds, replaces and removes jobs while the table grows and shrinks.
func TestJobIDsAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, want := newJobIDs(), make(map[string]*Job)
		for range 20 {
			adds := r.IntN(4) > 0
			for range r.IntN(2000) {
				id := "job " + strconv.Itoa(r.IntN(5000))
				if adds {
					want[id] = &Job{ID: id}
					x.put(want[id])
				} else {
					delete(want, id)
					x.remove(id)
				}
			}
			checkIDs(t, &x, want)
		}
		for id := range want {
			delete(want, id)
			x.remove(id)
		}
		checkIDs(t, &x, want)
		if x.buckets > 1 {
			t.Fatalf("an empty table has %d buckets", x.buckets)
		}
	}
}

func checkIDs(t *testing.T, x *jobIDs, want map[string]*Job) {
	t.Helper()
	seen := 0
	x.all(func(j *Job) {
		seen++
		if want[j.ID] != j {
			t.Fatalf("the table has job %q, or an old version", j.ID)
		}
	})
	if seen != len(want) || x.len != len(want) {
		t.Fatalf("the table has %d jobs and counts %d, want %d", seen, x.len, len(want))
	}
	for n := range 5000 {
		if id := "job " + strconv.Itoa(n); x.get(id) != want[id] {
			t.Fatalf("get(%q) is %v, want %v", id, x.get(id), want[id])
		}
	}
}

// TestJobIDsAreSmall checks the number of places for each job.
func TestJobIDsAreSmall(t *testing.T) {
	t.Parallel()
	x := newJobIDs()
	for n := range 100_000 {
		x.put(&Job{ID: strconv.Itoa(n)})
		if n%10_000 != 9999 {
			continue
		}
		places := 0
		for i := range x.buckets {
			for b := x.bucket(i); b != nil; b = b.more {
				places += bucketJobs
			}
		}
		if perJob := float64(places) / float64(n+1); perJob > 1.7 {
			t.Fatalf("%d jobs have %.2f places each", n+1, perJob)
		}
	}
}
