package storagetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"osqueue/storage"
)

const racers = 8

// race runs fn in racers goroutines, half of them on a second handle, and
// returns what each reported.
func (s *suite) race(t *testing.T, b storage.Bucket, fn func(storage.Bucket, int) storage.Write) []storage.Write {
	handles := [2]storage.Bucket{b, s.second(t, b)}
	writes := make([]storage.Write, racers)
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		group.Go(func() {
			<-start
			writes[i] = fn(handles[i%2], i)
		})
	}
	close(start)
	group.Wait()
	return writes
}

// winner checks that exactly one write was committed and the others were not.
func winner(t *testing.T, writes []storage.Write) int {
	t.Helper()
	won := -1
	for i, w := range writes {
		switch {
		case w.Outcome == storage.Unknown:
			t.Fatalf("write %d ended unknown without a fault: %v", i, w.Err)
		case w.Outcome == storage.Committed && won >= 0:
			t.Fatalf("writes %d and %d both won", won, i)
		case w.Outcome == storage.Committed:
			won = i
		}
	}
	if won < 0 {
		t.Fatal("nobody won")
	}
	return won
}

func (s *suite) oneCreatorWins(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for round := range 10 {
		key := fmt.Sprintf("r/%d", round)
		writes := s.race(t, b, func(b storage.Bucket, i int) storage.Write {
			return b.PutIfAbsent(ctx, key, []byte(strconv.Itoa(i)))
		})
		won := winner(t, writes)
		mustHold(ctx, t, b, key, strconv.Itoa(won), writes[won].Version)
	}
}

func (s *suite) oneReplacerWins(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v := mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("start")))
	for round := range 10 {
		writes := s.race(t, b, func(b storage.Bucket, i int) storage.Write {
			return b.PutIfMatch(ctx, "k", fmt.Appendf(nil, "%d/%d", round, i), v)
		})
		won := winner(t, writes)
		v = writes[won].Version
		mustHold(ctx, t, b, "k", fmt.Sprintf("%d/%d", round, won), v)
	}
}

func (s *suite) countersAddUp(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	const each = 6
	mustCommit(t, b.PutIfAbsent(ctx, "counter", []byte("0")))
	for i, w := range s.race(t, b, func(b storage.Bucket, _ int) (w storage.Write) {
		for n := 0; n < each && (w.Outcome == storage.Committed || n == 0); n++ {
			w = increment(ctx, b, "counter")
		}
		return w
	}) {
		if w.Outcome != storage.Committed {
			t.Fatalf("racer %d: %+v", i, w)
		}
	}
	if o := mustGet(ctx, t, b, "counter"); string(o.Data) != strconv.Itoa(racers*each) {
		t.Fatalf("counter is %s after %d increments", o.Data, racers*each)
	}
}

// increment adds one by compare-and-swap and repeats while it loses races.
func increment(ctx context.Context, b storage.Bucket, key string) storage.Write {
	for {
		o, err := b.Get(ctx, key)
		if err != nil {
			return storage.Write{Err: err}
		}
		n, err := strconv.Atoi(string(o.Data))
		if err != nil {
			return storage.Write{Err: fmt.Errorf("a reader saw a torn object: %w", err)}
		}
		if w := b.PutIfMatch(ctx, key, []byte(strconv.Itoa(n+1)), o.Version); w.Outcome != storage.Conflict {
			return w
		}
	}
}

// readsSeeWrites checks, on a second handle, that no read is older than a write
// that had returned, and that every pair of bytes and version belongs together.
func (s *suite) readsSeeWrites(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	const writes = 40
	reader := s.second(t, b)
	versions := make([]storage.Version, 1, writes)
	versions[0] = mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("0")))
	var mu sync.Mutex
	latest := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(versions) - 1
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := 1; i < writes; i++ {
			w := b.PutIfMatch(ctx, "k", []byte(strconv.Itoa(i)), versions[i-1])
			mu.Lock()
			versions = append(versions, w.Version)
			mu.Unlock()
		}
	})
	seen := map[int]storage.Version{}
	for n := 0; n < writes-1; {
		before := latest()
		o := mustGet(ctx, t, reader, "k")
		got, err := strconv.Atoi(string(o.Data))
		if err != nil || got < before || got < n {
			t.Fatalf("read %q, %v after write %d had returned and %d was read", o.Data, err, before, n)
		}
		n, seen[got] = got, o.Version
	}
	group.Wait()
	for i, v := range seen {
		if versions[i] != v {
			t.Fatalf("write %d made version %q but was read as %q", i, versions[i], v)
		}
	}
}
