package snapshot

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// inBubble runs a test with the clock of synctest.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// running starts Run; stop ends it and waits.
func running(t *testing.T, s *Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// later advances the time by d and lets everything due happen.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestTheFirstIsUploadedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBucket(t)
		s := newStore(t, t.TempDir(), b)
		stop := running(t, s)
		defer stop()
		later(0)
		wantUploads(t, b)
		take(t, s, 3, 100)
		later(0)
		wantUploads(t, b, "n1/3-100")
		st := s.Status()
		if st.Bucket.Index != 100 || st.Bucket.Term != 3 || st.BucketNode != "n1" || st.Failing != "" || st.Bucket.At.After(time.Now()) {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestUploadsKeepTheirInterval(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBucket(t)
		s := newStore(t, t.TempDir(), b)
		stop := running(t, s)
		defer stop()
		for i := range uint64(100) { // 50 minutes
			take(t, s, 1, 10_000*(i+1))
			later(30 * time.Second)
		}
		later(DefaultUploadInterval)
		// 10, 20, 30 and 40 minutes after the first, and the last one.
		wantUploads(t, b, "n1/1-1000000", "n1/1-800000", "n1/1-600000", "n1/1-400000", "n1/1-200000", "n1/1-10000")
		before := len(keys(t, b))
		later(24 * time.Hour)
		if n := len(keys(t, b)); n != before {
			t.Errorf("%d objects more without anything new", n-before)
		}
	})
}

// TestLateUploadAfterAnOutage makes snapshots while the bucket is unavailable. When it is
// available again, Run uploads the newest one within the longest pause, and never the
// others.
func TestLateUploadAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := fault.New(newBucket(t), 1)
		s := newStore(t, t.TempDir(), b)
		away := b.Inject(fault.Rule{Kind: fault.LoseRequest})
		stop := running(t, s)
		defer stop()
		for i := range uint64(60) {
			take(t, s, 1, 10_000*(i+1))
			later(time.Minute)
			if st := s.Status(); !strings.Contains(st.Failing, fault.ErrInjected.Error()) || st.Local.Index != 10_000*(i+1) {
				t.Fatalf("the status is %+v", st)
			}
		}
		if away.Hits() > 200 {
			t.Errorf("the bucket was asked %d times in an hour in which it was away", away.Hits())
		}
		away.Stop()
		later(2 * longPause)
		wantUploads(t, b, "n1/1-600000")
		if st := s.Status(); st.Failing != "" || st.Bucket.Index != 600_000 {
			t.Errorf("the status is %+v", st)
		}
	})
}

// TestFailureIsTold checks that Status shows a failure during an upload whose writes are
// repeated.
func TestFailureIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := fault.New(newBucket(t), 1)
		s := newStore(t, t.TempDir(), b)
		full := b.Inject(fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfAbsent}})
		stop := running(t, s)
		defer stop()
		take(t, s, 1, 100)
		later(10 * time.Second)
		if st := s.Status(); !strings.Contains(st.Failing, storage.ErrThrottled.Error()) {
			t.Errorf("the status is %+v", st)
		}
		take(t, s, 1, 200)
		later(stallLimit) // the first attempt ends
		full.Stop()
		later(2 * longPause)
		wantUploads(t, b, "n1/1-200")
		if st := s.Status(); st.Failing != "" {
			t.Errorf("the status is %+v", st)
		}
	})
}

// TestLateUploadAfterARestart finds a snapshot that was never uploaded.
func TestLateUploadAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, b := t.TempDir(), newBucket(t)
		take(t, newStore(t, dir, b), 1, 100)
		for range 3 { // and uploads it once
			s := newStore(t, dir, b)
			stop := running(t, s)
			later(time.Minute)
			stop()
			wantUploads(t, b, "n1/1-100")
			if s.Status().Bucket.Index != 100 {
				t.Errorf("the status is %+v", s.Status())
			}
		}
	})
}

// TestNodesShareUploads runs three nodes that make snapshots at about the same entries.
func TestNodesShareUploads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBucket(t)
		var stores []*Store
		for i := range 3 {
			s := newStore(t, t.TempDir(), b, func(o *Options) { o.Node = fmt.Sprintf("n%d", i+1) })
			stop := running(t, s)
			defer stop()
			stores = append(stores, s)
		}
		for round := range uint64(5) {
			for i, s := range stores {
				take(t, s, 1, 10_000*(round+1)+100*uint64(i))
				later(10 * time.Second)
			}
			later(20 * time.Minute)
		}
		wantUploads(t, b, "n1/1-50000", "n1/1-40000", "n1/1-30000", "n1/1-20000", "n1/1-10000")
		for _, s := range stores {
			if st := s.Status(); st.Bucket.Index != 50_000 || st.BucketNode != "n1" || st.Failing != "" {
				t.Errorf("a status is %+v", st)
			}
		}
	})
}

func TestNothingIsUploadedWithoutACluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBucket(t)
		var named atomic.Bool
		s := newStore(t, t.TempDir(), b, func(o *Options) {
			o.Cluster = func() string {
				if named.Load() {
					return testCluster
				}
				return ""
			}
		})
		stop := running(t, s)
		defer stop()
		take(t, s, 1, 100)
		later(10 * time.Minute)
		if n := len(keys(t, b)); n != 0 || s.Status().Failing != "" {
			t.Errorf("%d objects; the status is %+v", n, s.Status())
		}
		named.Store(true)
		later(2 * longPause)
		wantUploads(t, b, "n1/1-100")
	})
}

// TestDamagedSnapshotIsNotUploaded checks that Run reports a damaged snapshot and continues
// with the next one.
func TestDamagedSnapshotIsNotUploaded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir, b := t.TempDir(), newBucket(t)
		id := take(t, newStore(t, dir, nil), 1, 100)
		flip(t, dir, localDir, id, stateFile)
		s := newStore(t, dir, b)
		stop := running(t, s)
		defer stop()
		later(time.Minute)
		wantUploads(t, b)
		if st := s.Status(); st.Failing == "" || st.Damaged == "" {
			t.Errorf("the status is %+v", st)
		}
		take(t, s, 1, 200)
		later(2 * longPause)
		wantUploads(t, b, "n1/1-200")
	})
}

// TestFaultsAtEveryOperation causes each kind of fault at each operation of an upload. The
// upload must succeed in the end, leave no incomplete upload that looks complete, and never
// have an unknown result.
func TestFaultsAtEveryOperation(t *testing.T) {
	kinds := []fault.Kind{
		fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate, fault.Reject, fault.Throttle,
		fault.Stall, fault.Slow, fault.Garble, fault.Truncate,
	}
	for _, kind := range kinds {
		for _, op := range []storage.Op{storage.OpList, storage.OpPutIfAbsent, storage.OpGet, storage.OpDelete} {
			for skip := 0; ; skip++ {
				hit := true
				t.Run(fmt.Sprintf("%s %s %d", kind, op, skip), func(t *testing.T) {
					inBubble(t, func(t *testing.T) { hit = oneFault(t, kind, op, skip) })
				})
				if !hit {
					if op == storage.OpPutIfAbsent && kind != fault.Garble && kind != fault.Truncate && skip < 4 {
						t.Errorf("%s hit %d writes only", kind, skip)
					}
					break
				}
			}
		}
	}
}

// oneFault uploads with a fault at one operation; hit is false if there was no such
// operation.
func oneFault(t *testing.T, kind fault.Kind, op storage.Op, skip int) (hit bool) {
	inner := newBucket(t)
	b := fault.New(inner, 1)
	s := newStore(t, t.TempDir(), b)
	rule := b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{op}, Skip: skip, Times: 1, Delay: time.Second})
	stop := running(t, s)
	defer stop()
	take(t, s, 1, 100)
	later(2 * DefaultUploadInterval)
	rule.Release(t.Context())
	later(2 * longPause)
	if st := s.Status(); st.Bucket.Index != 100 || st.Failing != "" {
		t.Fatalf("the status is %+v", st)
	}
	for _, f := range completed(survey(keys(t, inner), testCluster)) {
		wantWhole(t, inner, f)
	}
	if _, err := Fetch(t.Context(), inner, t.TempDir(), testCluster, FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	return rule.Hits() > 0
}

// TestCrashAtEveryOperation ends the process at each operation of an upload. The next
// process uploads the snapshot again, and a complete upload is whole.
func TestCrashAtEveryOperation(t *testing.T) {
	for skip := 0; ; skip++ {
		reached := false
		t.Run(fmt.Sprint(skip), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { reached = oneCrash(t, skip) })
		})
		if !reached {
			if skip < 3 {
				t.Fatalf("there were %d operations only", skip)
			}
			return
		}
	}
}

func oneCrash(t *testing.T, skip int) (reached bool) {
	dir, inner := t.TempDir(), newBucket(t)
	b := fault.New(inner, 1)
	down := b.Inject(fault.Rule{Kind: fault.LoseRequest, Skip: skip})
	s := newStore(t, dir, b)
	stop := running(t, s)
	take(t, s, 1, 100)
	later(time.Minute)
	stop()
	for _, f := range completed(survey(keys(t, inner), testCluster)) {
		wantWhole(t, inner, f)
	}
	stop = running(t, newStore(t, dir, inner))
	defer stop()
	later(time.Minute)
	wantUploads(t, inner, "n1/1-100")
	return down.Hits() > 0
}

func wantWhole(t *testing.T, b storage.Bucket, f found) {
	t.Helper()
	_, rc, err := openUpload(t.Context(), b, f.upload)
	if err != nil {
		t.Fatalf("%s is not whole: %v", f.prefix(), err)
	}
	defer rc.Close()
	if err := drain(rc); err != nil {
		t.Fatalf("%s is not whole: %v", f.prefix(), err)
	}
}

// TestCovering checks that an upload is sufficient if the leader's log continues from it.
func TestCovering(t *testing.T) {
	const slack = 100
	own := point{7, 1000}
	for there, want := range map[point]bool{
		{7, 1000}:           true,
		{7, 900}:            true,
		{7, 899}:            false,
		{5, 900}:            true,
		{5, 899}:            false,
		{7, 1001}:           true,
		{8, 1200}:           true,
		{5, 1001}:           false, // of a lost history: in this one, term 7 began before
		{7, math.MaxUint64}: true,
		{5, math.MaxUint64}: false,
	} {
		all := []found{{upload: upload{point: point{9, 1}}}, {upload: upload{point: there}, complete: true}}
		if got := covering(all, own, slack) != nil; got != want {
			t.Errorf("%s for %s: %v", there, own, got)
		}
	}
	if covering([]found{{upload: upload{point: point{1, 1}}, complete: true}}, own, math.MaxUint64) == nil {
		t.Error("no slack is enough")
	}
}
