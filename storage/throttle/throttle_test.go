package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/mem"
	"osqueue/storage/throttle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func make1(t *testing.T, c throttle.Config) *throttle.Bucket {
	t.Helper()
	b, err := throttle.New(mem.New(), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Bucket {
		return make1(t, throttle.Config{ReadsPerMinute: 1e8, WritesPerMinute: 1e8, WritesPerDay: 1e8})
	})
}

func put(ctx context.Context, b storage.Bucket, i int) storage.Write {
	return b.PutIfAbsent(ctx, fmt.Sprint("k", i), nil)
}

func TestWritesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make1(t, throttle.Config{WritesPerMinute: 60})
		start := time.Now()
		var at []time.Duration
		for i := range 20 {
			if w := put(t.Context(), b, i); w.Outcome != storage.Committed {
				t.Fatal(w)
			}
			at = append(at, time.Since(start))
		}
		// A burst of six, then one a second.
		if at[5] != 0 || at[6] != time.Second || at[19] != 14*time.Second {
			t.Fatalf("writes went through at %v", at)
		}
		s := b.Stats()
		if s.TotalWrites != 20 || s.ThrottledWrites != 14 || s.TotalWriteDelayMs != 14_000 || s.TotalReads != 0 {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestReadsArePacedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make1(t, throttle.Config{ReadsPerMinute: 30, WritesPerMinute: 1})
		put(t.Context(), b, 1)
		start := time.Now()
		for range 4 {
			b.Get(t.Context(), "k1")
			b.List(t.Context(), "", func(storage.Info) bool { return true })
		}
		if d := time.Since(start); d != 10*time.Second { // burst of 3, then one in 2 s
			t.Fatalf("8 reads took %v", d)
		}
		if s := b.Stats(); s.TotalReads != 8 || s.ThrottledReads != 5 || s.TotalReadDelayMs != 10_000 {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestRefusesWhatCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make1(t, throttle.Config{WritesPerMinute: 6, MaxWait: 25 * time.Second}) // one in 10 s
		put(t.Context(), b, 0)
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		w := put(short, b, 1)
		if w.Outcome != storage.Unknown || !errors.Is(w.Err, storage.ErrThrottled) || time.Since(start) != 0 {
			t.Fatalf("write with a short deadline: %+v after %v", w, time.Since(start))
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		outcomes := map[storage.Outcome]int{}
		for i := range 5 {
			group.Go(func() {
				w := put(t.Context(), b, 10+i)
				mu.Lock()
				defer mu.Unlock()
				outcomes[w.Outcome]++
			})
		}
		group.Wait()
		if outcomes[storage.Committed] != 2 || outcomes[storage.Unknown] != 3 || time.Since(start) != 20*time.Second {
			t.Fatalf("outcomes %v after %v", outcomes, time.Since(start))
		}
		if s := b.Stats(); s.TotalWrites != 3 || s.ThrottledWrites != 6 || s.DailyWriteCount != 3 {
			t.Fatalf("stats %+v", s)
		}
	})
}

// signing is a bucket that signs everything.
type signing struct{ *mem.Bucket }

func (signing) SignPut(context.Context, string, storage.Content, time.Duration) (storage.Signed, error) {
	return storage.Signed{Method: http.MethodPut}, nil
}

func (signing) SignGet(context.Context, string, time.Duration) (storage.Signed, error) {
	return storage.Signed{Method: http.MethodGet}, nil
}

// A request that others make is taken from the budget when it is signed.
func TestSignedRequestsCount(t *testing.T) {
	b, err := throttle.New(signing{mem.New()}, throttle.Config{WritesPerDay: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.SignPut(t.Context(), "k", storage.Content{}, time.Hour); err != nil || r.Method != http.MethodPut {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := b.SignPut(t.Context(), "k", storage.Content{}, time.Hour); r.Method != "" || !errors.Is(err, storage.ErrThrottled) {
		t.Errorf("the second one of a day with one write: %+v, %v", r, err)
	}
	if r, err := b.SignGet(t.Context(), "k", time.Hour); err != nil || r.Method != http.MethodGet {
		t.Errorf("%+v, %v", r, err)
	}
	if s := b.Stats(); s.TotalWrites != 1 || s.TotalReads != 1 {
		t.Errorf("%+v", s)
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make1(t, throttle.Config{WritesPerMinute: 6, WritesPerDay: 10})
		put(t.Context(), b, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if w := put(ctx, b, 1); !errors.Is(w.Err, context.Canceled) {
			t.Fatalf("write = %+v", w)
		}
		if s := b.Stats(); s.DailyWriteCount != 1 || s.TotalWrites != 1 {
			t.Fatalf("a cancelled write was counted: %+v", s)
		}
	})
}

func TestDailyBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make1(t, throttle.Config{WritesPerDay: 3})
		time.Sleep(23 * time.Hour) // synctest begins at midnight UTC
		for i := range 3 {
			if w := put(t.Context(), b, i); w.Outcome != storage.Committed {
				t.Fatal(w)
			}
		}
		w := put(t.Context(), b, 3)
		if !errors.Is(w.Err, storage.ErrThrottled) || !strings.Contains(w.Err.Error(), "1h0m0s") {
			t.Fatalf("write over budget: %+v", w)
		}
		if s := b.Stats(); !s.DailyBudgetExceeded || s.DailyWriteCount != 3 || s.ThrottledWrites != 1 {
			t.Fatalf("stats %+v", s)
		}
		if _, err := b.Get(t.Context(), "k1"); err != nil {
			t.Fatalf("a spent write budget stopped reads: %v", err)
		}
		time.Sleep(time.Hour)
		if s := b.Stats(); s.DailyBudgetExceeded || s.DailyWriteCount != 0 {
			t.Fatalf("stats after midnight %+v", s)
		}
		if w := put(t.Context(), b, 3); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
	})
}

func TestStatsHaveTheOriginalsNames(t *testing.T) {
	text, err := json.Marshal(throttle.Stats{TotalReads: 2, DailyBudgetExceeded: true})
	want := `{"totalReads":2,"totalWrites":0,"throttledReads":0,"throttledWrites":0,` +
		`"totalReadDelayMs":0,"totalWriteDelayMs":0,"dailyWriteCount":0,"dailyBudgetExceeded":true}`
	if err != nil || string(text) != want {
		t.Fatalf("%s, %v", text, err)
	}
}

func TestNegativeBudget(t *testing.T) {
	if _, err := throttle.New(mem.New(), throttle.Config{WritesPerDay: -1}); err == nil {
		t.Fatal("a negative budget was taken")
	}
}
