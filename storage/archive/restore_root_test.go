package archive

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// beginning returns a state with the given number of jobs, to be written.
func beginning(t *testing.T, jobs int) Beginning {
	t.Helper()
	r := newRecorder(1_700_000_000_000)
	for i := range jobs {
		r.apply(enqueue(&fsmpb.NewJob{Id: fmt.Sprint("job", i), Type: "a", Payload: []byte(`{"n":1}`)}))
	}
	if _, err := Begin(r.m, Origin{Lineage: otherLineage, Pause: true}); err != nil {
		t.Fatal(err)
	}
	return Beginning{State: r.m.View(), NowMs: r.now}
}

// isBeginning checks that the document at the root is b, and can be adopted.
func isBeginning(t *testing.T, bucket storage.Bucket, b Beginning) {
	t.Helper()
	o, err := bucket.Get(t.Context(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := document.Decode(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Broker != nil || doc.Overtaken || doc.Header.Cluster != "" || doc.Lineage() != otherLineage {
		t.Errorf("%+v %+v", doc, doc.Header)
	}
	m, err := Machine(t.Context(), bucket, doc)
	if err != nil || m.View().Hash() != b.State.Hash() {
		t.Errorf("it is another state, %v", err)
	}
}

// A document that was not seen is not written over.
func TestWriteBeginningOverWhatIsThere(t *testing.T) {
	bucket, ctx := mem.New(), testContext(t)
	b := beginning(t, 1)
	w := bucket.PutIfAbsent(ctx, rootKey, []byte("first"))
	if _, err := WriteBeginning(ctx, bucket, rootKey, "", b); !errors.Is(err, ErrMoved) {
		t.Errorf("%v", err)
	}
	next := bucket.PutIfMatch(ctx, rootKey, []byte("second"), w.Version)
	if _, err := WriteBeginning(ctx, bucket, rootKey, w.Version, b); !errors.Is(err, ErrMoved) {
		t.Errorf("%v", err)
	}
	if o, err := bucket.Get(ctx, rootKey); err != nil || string(o.Data) != "second" {
		t.Errorf("%q %v", o.Data, err)
	}
	if _, err := WriteBeginning(ctx, bucket, rootKey, next.Version, b); err != nil {
		t.Fatal(err)
	}
	isBeginning(t, bucket, b)
	must(bucket.Delete(ctx, rootKey))
	if _, err := WriteBeginning(ctx, bucket, rootKey, next.Version, b); !errors.Is(err, ErrMoved) {
		t.Errorf("%v", err)
	}
}

// Our write was applied, its answer lost, and a cluster adopted it at once.
func TestWriteBeginningThatWasAdoptedAtOnce(t *testing.T) {
	inner, ctx := mem.New(), testContext(t)
	bucket := fault.New(inner, 1)
	lost := bucket.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: []storage.Op{storage.OpPutIfAbsent}, KeyPrefix: rootKey, Times: 1})
	read := bucket.Inject(fault.Rule{Kind: fault.Stall, Ops: []storage.Op{storage.OpGet}, KeyPrefix: rootKey, Times: 1})
	done := make(chan error, 1)
	go func() {
		_, err := WriteBeginning(ctx, bucket, rootKey, "", beginning(t, 1))
		done <- err
	}()
	must(read.WaitHits(ctx, 1))
	o, err := inner.Get(ctx, rootKey)
	must(err)
	doc, err := document.Decode(o.Data)
	must(err)
	h := *doc.Header
	h.Node, h.Cluster, h.Epoch, h.Write, h.Writes = "n1", "c", h.Epoch+1, "theirs", append(h.Writes, "theirs")
	m, err := Machine(ctx, inner, doc)
	must(err)
	c := &document.Content{Archive: doc.Archive, Meta: m.Meta(), Counts: m.Counts()}
	if w := inner.PutIfMatch(ctx, rootKey, document.Encode(c, h, "h:1", 5), o.Version); w.Outcome != storage.Committed {
		t.Fatalf("%+v", w)
	}
	read.Release(ctx)
	if err := <-done; err != nil || lost.Hits() != 1 {
		t.Errorf("%v after %d lost answers", err, lost.Hits())
	}
}

// After any single failed request the document is the old one or the new one, and the reported
// result is true.
func TestWriteBeginningWithFaults(t *testing.T) {
	b := beginning(t, 20)
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate, fault.Reject, fault.Throttle} {
		for k := 0; ; k++ {
			inner := mem.New()
			bucket := fault.New(inner, 1)
			rule := bucket.Inject(fault.Rule{Kind: kind, Skip: k, Times: 1})
			_, err := WriteBeginning(testContext(t), bucket, rootKey, "", b)
			if rule.Hits() == 0 {
				if k < 3 {
					t.Errorf("only %d requests", k)
				}
				break
			}
			rule.Release(testContext(t))
			if err != nil {
				t.Errorf("%s at request %d: %v", kind, k, err)
				continue
			}
			isBeginning(t, inner, b)
		}
	}
}

// A crash at any moment of a restore leaves the old document or the new one, complete, also
// when a request in flight arrives later.
func TestWriteBeginningCrashes(t *testing.T) {
	b := beginning(t, 20)
	old := fixedWorld(t.Context(), true)
	outcomes := make(map[string]int)
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate} {
		for k := 0; ; k++ {
			w := old.copied(t.Context())
			o, err := w.bucket.Get(t.Context(), rootKey)
			must(err)
			bucket := fault.New(w.bucket, 1)
			rule := bucket.Inject(fault.Rule{Kind: kind, Skip: k})
			ctx, die := context.WithCancel(t.Context())
			dead := make(chan struct{})
			go func() {
				defer close(dead)
				_ = rule.WaitHits(ctx, 1) // or the end
				die()
			}()
			_, err = WriteBeginning(ctx, bucket, rootKey, o.Version, b)
			die()
			<-dead
			if rule.Hits() == 0 {
				break
			}
			outcomes[wholeRoot(t, w.bucket)]++
			rule.Release(testContext(t))
			if now := wholeRoot(t, w.bucket); err == nil && now != otherLineage {
				t.Errorf("%s from request %d on: it was reported as written, and is not there", kind, k)
			}
		}
	}
	if outcomes[lineage] == 0 || outcomes[otherLineage] == 0 {
		t.Errorf("the documents left behind are %v", outcomes)
	}
}

// wholeRoot checks that the document is complete, and returns its lineage.
func wholeRoot(t *testing.T, bucket storage.Bucket) string {
	t.Helper()
	r, err := Verify(t.Context(), bucket, rootKey)
	if err != nil || !r.OK() {
		t.Fatalf("%+v %v", r, err)
	}
	h, err := Open(t.Context(), bucket, rootKey)
	must(err)
	return h.Document().Lineage()
}

// When the context ends it is said that it is not known.
func TestWriteBeginningGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := fault.New(mem.New(), 1)
		bucket.Inject(fault.Rule{Kind: fault.LoseRequest})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := WriteBeginning(ctx, bucket, rootKey, "", beginning(t, 1)); !errors.Is(err, fault.ErrInjected) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
