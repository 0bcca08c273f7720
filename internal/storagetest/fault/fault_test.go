package fault_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformanceWithoutRules(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Bucket { return fault.New(mem.New(), 1) })
}

// TestConformanceWithIdleRules has rules that match nothing, or have ended.
func TestConformanceWithIdleRules(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Bucket {
		b := fault.New(mem.New(), 1)
		b.Inject(fault.Rule{Kind: fault.Reject, KeyPrefix: "no/such/key"})
		b.Inject(fault.Rule{Kind: fault.LoseRequest, Skip: 1 << 30})
		b.Inject(fault.Rule{Kind: fault.Garble}).Stop()
		return b
	})
}

// setup returns a bucket whose object "k" holds "old" at version v.
func setup(t *testing.T) (b *fault.Bucket, inner *mem.Bucket, v storage.Version) {
	inner = mem.New()
	b = fault.New(inner, 7)
	t.Cleanup(func() { b.Close() })
	return b, inner, b.PutIfAbsent(t.Context(), "k", []byte("old")).Version
}

func content(t *testing.T, b storage.Bucket) string {
	t.Helper()
	o, err := b.Get(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return string(o.Data)
}

func TestWritesHit(t *testing.T) {
	for _, c := range []struct {
		kind    fault.Kind
		outcome storage.Outcome
		holds   string
		err     error
	}{
		{fault.LoseRequest, storage.Unknown, "old", fault.ErrInjected},
		{fault.LoseAnswer, storage.Unknown, "new", fault.ErrInjected},
		{fault.DeliverLate, storage.Unknown, "old", fault.ErrInjected},
		{fault.Reject, storage.Conflict, "old", fault.ErrInjected},
		{fault.Throttle, storage.Unknown, "old", storage.ErrThrottled},
		{fault.Slow, storage.Committed, "new", nil},
		{fault.Garble, storage.Committed, "new", nil}, // reads only
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			b, inner, v := setup(t)
			i := b.Inject(fault.Rule{Kind: c.kind, Times: 1})
			w := b.PutIfMatch(t.Context(), "k", []byte("new"), v)
			if w.Outcome != c.outcome || !errors.Is(w.Err, c.err) {
				t.Errorf("write = %+v, want %v and %v", w, c.outcome, c.err)
			}
			if got := content(t, inner); got != c.holds {
				t.Errorf("the store holds %q, want %q", got, c.holds)
			}
			if want := map[fault.Kind]int{fault.Garble: 0}; i.Hits() != 1 && i.Hits() != want[c.kind] {
				t.Errorf("%d hits", i.Hits())
			}
		})
	}
}

func TestReadsHit(t *testing.T) {
	for kind, want := range map[fault.Kind]string{
		fault.LoseRequest: "error", fault.Throttle: "error", fault.Garble: "<html>", fault.Truncate: "o", fault.Slow: "old",
		fault.LoseAnswer: "old", fault.Reject: "old",
	} {
		b, _, v := setup(t)
		b.Inject(fault.Rule{Kind: kind, Times: 1})
		o, err := b.Get(t.Context(), "k")
		if want == "error" {
			if err == nil {
				t.Errorf("%s: get returned %q", kind, o.Data)
			}
		} else if err != nil || !strings.HasPrefix(string(o.Data), want) || o.Version != v {
			t.Errorf("%s: get = %q %q %v, want %q", kind, o.Data, o.Version, err, want)
		}
		if kind == fault.Truncate && string(o.Data) != "o" {
			t.Errorf("truncated to %q", o.Data)
		}
	}
}

func TestStreamsHit(t *testing.T) {
	c := storage.Content{Size: 3, Sum: sha256.Sum256([]byte("new"))}
	for kind, want := range map[fault.Kind]struct {
		outcome storage.Outcome
		there   bool
		err     error
	}{
		fault.LoseRequest: {storage.Unknown, false, fault.ErrInjected},
		fault.LoseAnswer:  {storage.Unknown, true, fault.ErrInjected},
		fault.DeliverLate: {storage.Unknown, false, fault.ErrInjected},
		fault.Reject:      {storage.Conflict, false, fault.ErrInjected},
		fault.Throttle:    {storage.Unknown, false, storage.ErrThrottled},
		fault.Slow:        {storage.Committed, true, nil},
	} {
		b, inner, _ := setup(t)
		i := b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{storage.OpPutStream}})
		w := b.PutStream(t.Context(), "s", strings.NewReader("new"), c)
		if w.Outcome != want.outcome || !errors.Is(w.Err, want.err) {
			t.Errorf("%s: %+v", kind, w)
		}
		if _, err := inner.Get(t.Context(), "s"); (err == nil) != want.there {
			t.Errorf("%s: the store answers %v", kind, err)
		}
		if kind == fault.DeliverLate {
			if late := i.Release(t.Context()); len(late) != 1 || late[0].Outcome != storage.Committed {
				t.Errorf("delivered late: %+v", late)
			}
		}
	}
	for kind, want := range map[fault.Kind]string{fault.LoseRequest: "", fault.Throttle: "", fault.Garble: "<html>", fault.Truncate: "l", fault.Slow: "ld"} {
		b, _, _ := setup(t)
		b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{storage.OpGetRange, storage.OpStat}})
		body, err := b.GetRange(t.Context(), "k", 1, 2)
		if (err != nil) != (want == "") {
			t.Errorf("%s: %v", kind, err)
		}
		if err == nil {
			got, err := io.ReadAll(body)
			if !strings.HasPrefix(string(got), want) || (err != nil) != (kind == fault.Truncate) {
				t.Errorf("%s: %q, %v", kind, got, err)
			}
		}
		if _, err := b.Stat(t.Context(), "k"); (err != nil) != (want == "") {
			t.Errorf("%s: stat: %v", kind, err)
		}
	}
}

func TestListAndDeleteHit(t *testing.T) {
	b, inner, _ := setup(t)
	b.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpList, storage.OpDelete}, Times: 2})
	err1 := b.List(t.Context(), "", func(storage.Info) bool { return true })
	err2 := b.Delete(t.Context(), "k")
	if !errors.Is(err1, fault.ErrInjected) || !errors.Is(err2, fault.ErrInjected) || content(t, inner) != "old" {
		t.Fatalf("list: %v, delete: %v", err1, err2)
	}
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Fatalf("after the last hit: %v", err)
	}
}

func TestLateWriteIsDeliveredOnRelease(t *testing.T) {
	b, inner, v := setup(t)
	i := b.Inject(fault.Rule{Kind: fault.DeliverLate, Times: 2})
	data := []byte("late")
	b.PutIfMatch(t.Context(), "k", data, v)
	copy(data, "XXXX") // the caller may reuse its slice at once
	b.PutIfMatch(t.Context(), "k", []byte("later"), v)
	if got := content(t, b); got != "old" || i.Hits() != 2 {
		t.Fatalf("before delivery the store holds %q, %d hits", got, i.Hits())
	}
	answers := i.Release(t.Context())
	if len(answers) != 2 || answers[0].Outcome != storage.Committed || answers[1].Outcome != storage.Conflict {
		t.Fatalf("delivery: %+v", answers)
	}
	if got := content(t, inner); got != "late" {
		t.Fatalf("after delivery the store holds %q", got)
	}
	if again := i.Release(t.Context()); len(again) != 0 {
		t.Fatalf("delivered twice: %+v", again)
	}
}

func TestLateWriteIsDeliveredByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inner, v := setup(t)
		i := b.Inject(fault.Rule{Kind: fault.DeliverLate, Delay: time.Minute, Times: 1})
		b.PutIfMatch(t.Context(), "k", []byte("late"), v)
		time.Sleep(59 * time.Second)
		if got := content(t, inner); got != "old" {
			t.Fatalf("delivered early: %q", got)
		}
		answers, err := i.WaitDelivered(t.Context(), 1)
		if err != nil || answers[0].Outcome != storage.Committed || content(t, inner) != "late" {
			t.Fatalf("delivery: %+v, %v", answers, err)
		}
		b.Inject(fault.Rule{Kind: fault.DeliverLate, Delay: time.Minute})
		b.PutIfMatch(t.Context(), "k", []byte("never"), answers[0].Version)
		if err := b.Close(); err != nil || content(t, inner) != "late" {
			t.Fatalf("Close delivered a late write (%v)", err)
		}
	})
}

func TestStallUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inner, v := setup(t)
		i := b.Inject(fault.Rule{Kind: fault.Stall})
		done := make(chan storage.Write)
		go func() { done <- b.PutIfMatch(t.Context(), "k", []byte("new"), v) }()
		if err := i.WaitHits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := content(t, inner); got != "old" {
			t.Fatalf("the stalled write reached the store: %q", got)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if w := b.PutIfMatch(short, "k", []byte("x"), v); !errors.Is(w.Err, context.DeadlineExceeded) {
			t.Fatalf("write with a deadline: %+v", w)
		}
		i.Release(t.Context())
		if w := <-done; w.Outcome != storage.Committed || content(t, b) != "new" {
			t.Fatalf("after release: %+v", w)
		}
	})
}

func TestLostAnswerTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inner, v := setup(t)
		b.Inject(fault.Rule{Kind: fault.LoseAnswer, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := b.PutIfMatch(ctx, "k", []byte("new"), v)
		if w.Outcome != storage.Unknown || !errors.Is(w.Err, context.DeadlineExceeded) || content(t, inner) != "new" {
			t.Fatalf("write = %+v", w)
		}
	})
}

func TestSkipTimesAndPrefix(t *testing.T) {
	b := fault.New(mem.New(), 1)
	defer b.Close()
	i := b.Inject(fault.Rule{Kind: fault.Reject, KeyPrefix: "log/", Skip: 2, Times: 3})
	got := ""
	for n := range 8 {
		b.PutIfAbsent(t.Context(), fmt.Sprintf("other/%d", n), nil)
		got += b.PutIfAbsent(t.Context(), fmt.Sprintf("log/%d", n), nil).Outcome.String()[:3] + " "
	}
	if want := "com com con con con com com com "; got != want || i.Hits() != 3 {
		t.Fatalf("outcomes %s with %d hits, want %s", got, i.Hits(), want)
	}
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inner, v := setup(t)
		b.Inject(fault.Rule{Kind: fault.Slow, Rate: 10})
		began := time.Now()
		var both sync.WaitGroup
		both.Go(func() { b.PutIfAbsent(t.Context(), "l", make([]byte, 30)) })
		both.Go(func() { b.PutIfMatch(t.Context(), "k", make([]byte, 20), v) })
		both.Wait()
		if took := time.Since(began); took != 5*time.Second || content(t, inner) == "old" {
			t.Fatalf("50 bytes at 10 bytes a second took %v", took)
		}
	})
}

// TestProbability checks the share of hits, and that a seed repeats them.
func TestProbability(t *testing.T) {
	run := func(seed uint64) (pattern string) {
		b := fault.New(mem.New(), seed)
		defer b.Close()
		i := b.Inject(fault.Rule{Kind: fault.LoseRequest, Probability: 0.25})
		for n := range 1000 {
			pattern += b.PutIfAbsent(t.Context(), fmt.Sprint("k", n), nil).Outcome.String()[:1]
		}
		if i.Hits() < 200 || i.Hits() > 300 || i.Hits() != strings.Count(pattern, "u") {
			t.Errorf("%d hits of 1000 at probability 0.25", i.Hits())
		}
		return pattern
	}
	if run(1) != run(1) {
		t.Error("the same seed gave other hits")
	}
	if run(1) == run(2) {
		t.Error("another seed gave the same hits")
	}
}

func TestWaitHitsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := setup(t)
		i := b.Inject(fault.Rule{Kind: fault.Reject})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := i.WaitHits(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("WaitHits = %v", err)
		}
	})
}
