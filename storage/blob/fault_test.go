package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/mem"
)

// small makes ten parts of a thousand bytes.
const small = 100

var writeFaults = []fault.Rule{
	{Kind: fault.LoseRequest},
	{Kind: fault.LoseAnswer},
	{Kind: fault.DeliverLate},
	{Kind: fault.Reject},
	{Kind: fault.Throttle},
	{Kind: fault.Slow, Delay: time.Minute},
	{Kind: fault.DeliverLate, Delay: 30 * time.Millisecond},
}

// inBubble runs a test on a bucket with faults, in a time of its own.
func inBubble(t *testing.T, name string, test func(t *testing.T, b *fault.Bucket, inner *recording.Bucket)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inner := recording.New(mem.New(), nil)
			b := fault.New(inner, 1)
			defer b.Close()
			test(t, b, inner)
		})
	})
}

// TestWriteFaults: a fault that passes, of each kind and at each operation of a
// writer, is overcome, nothing is written twice, and what comes late changes
// nothing.
func TestWriteFaults(t *testing.T) {
	data := noise(1000)
	for _, rule := range writeFaults {
		for skip := range 12 { // eleven parts, one manifest
			for _, times := range []int{1, 3} {
				rule.Skip, rule.Times = skip, times
				inBubble(t, fmt.Sprintf("%s %d times after %d", rule.Kind, times, skip), func(t *testing.T, b *fault.Bucket, inner *recording.Bucket) {
					i := b.Inject(rule)
					m := mustWrite(t, b, data, small)
					if i.Hits() == 0 {
						t.Fatal("the fault was not tried")
					}
					for _, w := range i.Release(t.Context()) {
						if w.Outcome != storage.Conflict {
							t.Fatalf("a late write ended as %+v", w)
						}
					}
					if got, err := read(t.Context(), inner, m.Key, &m.Sum); err != nil || !bytes.Equal(got, data) {
						t.Fatalf("%d bytes came back (%v)", len(got), err)
					}
				})
			}
		}
	}
}

// TestComparesAgain: the look at what is there, after a lost answer, can fail and
// lie as well.
func TestComparesAgain(t *testing.T) {
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.Throttle, fault.Garble, fault.Truncate} {
		inBubble(t, string(kind), func(t *testing.T, b *fault.Bucket, _ *recording.Bucket) {
			b.Inject(fault.Rule{Kind: fault.LoseAnswer, Times: 1})
			i := b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{storage.OpGet}, Times: 2})
			mustWrite(t, b, noise(1000), small)
			if i.Hits() != 2 {
				t.Fatal("the fault was not tried")
			}
		})
	}
}

// TestWriterDies ends the context of a writer at each of its operations, with the
// operation lost, done, or on its way: until the manifest is there nothing looks
// like a blob, and if it is there the blob is whole. Abort cleans up, but never
// under a manifest that may still arrive.
func TestWriterDies(t *testing.T) {
	data := noise(1000)
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.LoseAnswer, fault.DeliverLate, fault.Stall} {
		for skip := range 12 {
			inBubble(t, fmt.Sprintf("%s after %d", kind, skip), func(t *testing.T, b *fault.Bucket, inner *recording.Bucket) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				i := b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{storage.OpPutIfAbsent}, Skip: skip, Delay: time.Hour})
				if kind == fault.LoseAnswer { // nor can it look what became of it
					b.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}})
				}
				_, err := write(ctx, b, data, small)
				if !errors.Is(err, context.DeadlineExceeded) || kind != fault.Stall && !errors.Is(err, fault.ErrInjected) {
					t.Fatalf("write: %v", err)
				}
				i.Release(t.Context())
				keys := keysOf(t, inner)
				announced := slices.Contains(keys, "manifest.json")
				if announced != (skip == 11 && (kind == fault.LoseAnswer || kind == fault.DeliverLate)) {
					t.Fatalf("objects %v", keys)
				}
				switch {
				case announced:
					if got, err := read(t.Context(), inner, blob.ManifestKey(prefix), nil); err != nil || !bytes.Equal(got, data) {
						t.Fatalf("with its manifest there, the blob has %d bytes (%v)", len(got), err)
					}
				case skip < 11 && kind != fault.DeliverLate && len(keys) > 0:
					t.Fatalf("Abort has left %v", keys)
				}
			})
		}
	}
}

// TestReadFaults: a fault that passes is overcome at each operation of a reader.
func TestReadFaults(t *testing.T) {
	data := noise(1000)
	for _, kind := range []fault.Kind{fault.LoseRequest, fault.Throttle, fault.Slow, fault.Garble, fault.Truncate} {
		for skip := range 12 {
			inBubble(t, fmt.Sprintf("%s after %d", kind, skip), func(t *testing.T, b *fault.Bucket, _ *recording.Bucket) {
				m := mustWrite(t, b, data, small)
				i := b.Inject(fault.Rule{Kind: kind, Ops: []storage.Op{storage.OpGet}, Skip: skip, Times: 2, Delay: time.Minute})
				got, err := read(t.Context(), b, m.Key, &m.Sum)
				hits := 2
				if kind == fault.Slow { // is not followed by another try
					hits = min(2, 12-skip)
				}
				if err != nil || !bytes.Equal(got, data) || i.Hits() != hits {
					t.Fatalf("%d bytes came back after %d hits (%v)", len(got), i.Hits(), err)
				}
			})
		}
	}
}

// TestReadFails: a fault that stays is an error that says which kind it is, and
// never an end.
func TestReadFails(t *testing.T) {
	for _, c := range []struct {
		kind    fault.Kind
		damaged bool
	}{{fault.LoseRequest, false}, {fault.Throttle, false}, {fault.Stall, false}, {fault.Garble, true}, {fault.Truncate, true}} {
		for skip := range 12 {
			inBubble(t, fmt.Sprintf("%s from %d", c.kind, skip), func(t *testing.T, b *fault.Bucket, _ *recording.Bucket) {
				m := mustWrite(t, b, noise(1000), small)
				b.Inject(fault.Rule{Kind: c.kind, Skip: skip})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := read(ctx, b, m.Key, &m.Sum)
				if err == nil || errors.Is(err, blob.ErrDamaged) != c.damaged || errors.Is(err, storage.ErrNotFound) {
					t.Fatalf("read: %v", err)
				}
			})
		}
	}
}

// TestDamage flips, cuts, lengthens and removes each object.
func TestDamage(t *testing.T) {
	data := noise(1000)
	for _, name := range []string{"part-000000", "part-000003", "part-000010", "manifest.json"} {
		for how, damage := range map[string]func(object []byte) []byte{
			"flipped":  func(o []byte) []byte { o[len(o)/2] ^= 4; return o },
			"cut":      func(o []byte) []byte { return o[:len(o)-1] },
			"longer":   func(o []byte) []byte { return append(o, ' ') },
			"empty":    func([]byte) []byte { return nil },
			"replaced": func(o []byte) []byte { return noise(len(o)) },
			"removed":  nil,
		} {
			inBubble(t, name+" "+how, func(t *testing.T, _ *fault.Bucket, b *recording.Bucket) {
				m := mustWrite(t, b, data, small)
				key := prefix + "/" + name
				o, err := b.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				b.Delete(t.Context(), key)
				if damage != nil {
					b.PutIfAbsent(t.Context(), key, damage(bytes.Clone(o.Data)))
				}
				_, err = read(t.Context(), b, m.Key, &m.Sum)
				gone := damage == nil
				if errors.Is(err, storage.ErrNotFound) != gone || errors.Is(err, blob.ErrDamaged) != (!gone || name != "manifest.json") ||
					!strings.Contains(fmt.Sprint(err), name) {
					t.Fatalf("read: %v", err)
				}
			})
		}
	}
}

// TestSwapped: the parts of another blob are not taken for its own.
func TestSwapped(t *testing.T) {
	inBubble(t, "parts", func(t *testing.T, _ *fault.Bucket, b *recording.Bucket) {
		m := mustWrite(t, b, noise(1000), small)
		first, _ := b.Get(t.Context(), prefix+"/part-000001")
		second, _ := b.Get(t.Context(), prefix+"/part-000002")
		b.PutIfMatch(t.Context(), prefix+"/part-000001", second.Data, first.Version)
		b.PutIfMatch(t.Context(), prefix+"/part-000002", first.Data, second.Version)
		if _, err := read(t.Context(), b, m.Key, &m.Sum); !errors.Is(err, blob.ErrDamaged) {
			t.Fatalf("read: %v", err)
		}
	})
}
