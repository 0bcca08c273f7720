package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/storage"
)

// onEach runs a test on every store that has a proxy.
func onEach(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	for _, kind := range []Kind{GoFakeS3, VersityGW, GCS} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := StartKind(t, kind)
			test(t, &rig{t: t, store: s, p: s.Proxy(t), node: open(t, s.URL())})
		})
	}
}

// rig is a store, and a node's view of it.
type rig struct {
	t     *testing.T
	store *Store
	p     *Proxy
	node  storage.Bucket
}

func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

// create writes the first version of a key, which no fault may meet.
func (r *rig) create(key, data string) storage.Version {
	r.t.Helper()
	w := r.node.PutIfAbsent(r.context(), key, []byte(data))
	if w.Outcome != storage.Committed {
		r.t.Fatalf("%s: %v, %v", key, w.Outcome, w.Err)
	}
	return w.Version
}

func (r *rig) wantVersions(want ...string) {
	r.t.Helper()
	r.store.Settle()
	if got := fmt.Sprintf("%s", r.store.Versions()); got != fmt.Sprint(want) {
		r.t.Errorf("versions %s, want %s", got, want)
	}
}

// Orders are for their target only, and end.
func TestTargets(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *rig) {
		r.p.Inject(LoseRequest, Writes, 1)
		r.p.LoseAnswers(1)
		if w := r.node.PutIfAbsent(r.context(), "log/a", []byte("x")); w.Outcome != storage.Unknown {
			t.Errorf("the first write of anything: %v", w.Outcome)
		}
		if _, err := r.store.Bucket().Get(r.context(), "log/a"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("it was cut, and is there: %v", err)
		}
		r.create("log/b", "x")
		if w := r.node.PutIfAbsent(r.context(), docKey, []byte("one")); w.Outcome != storage.Unknown {
			t.Errorf("the first write of the document: %v", w.Outcome)
		}
		r.wantVersions("one")
		if w := r.node.PutIfAbsent(r.context(), docKey, []byte("two")); w.Outcome != storage.Conflict {
			t.Errorf("it is there, and may be created again: %v", w.Outcome)
		}
		if n := r.p.Refused(); n != 1 {
			t.Errorf("%d writes refused by their condition", n)
		}
	})
}

func TestDownAndSlow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *rig) {
		v := r.create(docKey, "one")
		r.p.SetDown(true)
		if w := r.node.PutIfMatch(r.context(), docKey, []byte("two"), v); w.Outcome != storage.Unknown {
			t.Errorf("down, and the write is %v", w.Outcome)
		}
		r.wantVersions("one")
		r.p.Behave()
		r.p.SetSlow(200 * time.Millisecond)
		began := time.Now()
		if w := r.node.PutIfMatch(r.context(), docKey, []byte("two"), v); w.Outcome != storage.Committed {
			t.Errorf("%v, %v", w.Outcome, w.Err)
		}
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("slow, and it took %v", took)
		}
		r.wantVersions("one", "two")
	})
}

func TestAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]Away{"refuses": Refuses, "hangs": Hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, r *rig) {
				v := r.create(docKey, "one")
				r.p.SetAway(away)
				ctx, cancel := context.WithTimeout(r.context(), 300*time.Millisecond)
				defer cancel()
				w := r.node.PutIfMatch(ctx, docKey, []byte("lost"), v)
				if w.Outcome != storage.Unknown {
					t.Errorf("%v", w.Outcome)
				}
				if hung := errors.Is(w.Err, context.DeadlineExceeded); hung != (away == Hangs) {
					t.Errorf("it ended with %v", w.Err)
				}
				r.p.SetAway(Here)
				if w := r.node.PutIfMatch(r.context(), docKey, []byte("two"), v); w.Outcome != storage.Committed {
					t.Errorf("back, and the write is %v, %v", w.Outcome, w.Err)
				}
				r.wantVersions("one", "two")
			})
		})
	}
}

// TestMisbehave: all kinds of random faults happen in time, and the record has the
// versions that the store had.
func TestMisbehave(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *rig) {
		v := r.create(docKey, "0")
		r.p.Misbehave(1, 0.5)
		certain := map[string]bool{"0": true}
		for i := 1; len(r.p.Hits()) < len(random); i++ {
			if i > 500 {
				t.Fatalf("hits after %d writes: %v", i, r.p.Hits())
			}
			data := fmt.Sprint(i)
			w := r.node.PutIfMatch(r.context(), docKey, []byte(data), v)
			if w.Outcome == storage.Committed {
				v, certain[data] = w.Version, true
				continue
			}
			r.store.Settle()
			o, err := r.store.Bucket().Get(r.context(), docKey)
			if err != nil {
				t.Fatal(err)
			}
			if w.Outcome == storage.Conflict && string(o.Data) == data {
				t.Fatalf("write %s was refused, and applied", data)
			}
			v = o.Version
		}
		r.p.Behave()
		for _, version := range r.store.Versions() {
			delete(certain, string(version))
		}
		if len(certain) > 0 {
			t.Errorf("committed and not in the record: %v", certain)
		}
	})
}

func TestSameSeedSameThrows(t *testing.T) {
	t.Parallel()
	q := request{write: true, document: true, conditional: true}
	a, b, other := newChance(7, 0.5), newChance(7, 0.5), newChance(8, 0.5)
	differ := false
	for range 100 {
		x, hit := a.draw(q)
		y, again := b.draw(q)
		if x != y || hit != again {
			t.Fatalf("%v and %v", x, y)
		}
		if z, _ := other.draw(q); z != x {
			differ = true
		}
	}
	if !differ {
		t.Error("another seed throws the same")
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	s := StartKind(t, File)
	b := open(t, s.URL())
	w := b.PutIfAbsent(t.Context(), docKey, []byte("one"))
	if got := s.Versions(); len(got) != 1 {
		t.Errorf("versions %q", got)
	}
	b.PutIfMatch(t.Context(), docKey, []byte("two"), w.Version)
	if got := fmt.Sprintf("%s", s.Versions()); got != "[one two]" {
		t.Errorf("versions %s", got)
	}
	if s.HasProxy() {
		t.Error("a directory has no proxy")
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	if k, err := parseKind(""); k != GoFakeS3 || err != nil {
		t.Errorf("by default %q, %v", k, err)
	}
	for _, want := range Kinds {
		if k, err := parseKind(string(want)); k != want || err != nil {
			t.Errorf("%q, %v", k, err)
		}
	}
	if _, err := parseKind("minio"); err == nil || !strings.Contains(err.Error(), "gofakes3, versitygw, gcs, file") {
		t.Errorf("an unknown store: %v", err)
	}
}
