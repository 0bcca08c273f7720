package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"osqueue/storage"
)

func (s *suite) getAbsent(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	mustCommit(t, b.PutIfAbsent(ctx, "dir/there", []byte("x")))
	for _, key := range []string{"absent", "dir/absent", "dir", "dir/there/below"} {
		if _, err := b.Get(ctx, key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get %q = %v, want ErrNotFound", key, err)
		}
	}
}

func (s *suite) createOnce(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v := mustCommit(t, b.PutIfAbsent(ctx, "queue.json", []byte("one")))
	mustConflict(t, b.PutIfAbsent(ctx, "queue.json", []byte("two")))
	mustConflict(t, b.PutIfAbsent(ctx, "queue.json", []byte("one")))
	mustHold(ctx, t, b, "queue.json", "one", v)
	mustHold(ctx, t, s.second(t, b), "queue.json", "one", v)
}

func (s *suite) replaceByVersion(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	other := s.second(t, b)
	v := mustCommit(t, b.PutIfAbsent(ctx, "queue.json", []byte("0")))
	seen := map[storage.Version]bool{v: true}
	for i, data := range []string{"1", "22", "", "4444", "{}"} {
		writer, reader := b, other
		if i%2 == 1 {
			writer, reader = other, b
		}
		v = mustCommit(t, writer.PutIfMatch(ctx, "queue.json", []byte(data), v))
		mustHold(ctx, t, reader, "queue.json", data, v)
		if seen[v] {
			t.Fatalf("version %q came twice for different bytes", v)
		}
		seen[v] = true
	}
}

func (s *suite) staleVersion(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v1 := mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("1")))
	v2 := mustCommit(t, b.PutIfMatch(ctx, "k", []byte("2"), v1))
	mustConflict(t, b.PutIfMatch(ctx, "k", []byte("3"), v1))
	mustConflict(t, b.PutIfMatch(ctx, "k", []byte("2"), v1))
	mustHold(ctx, t, b, "k", "2", v2)
}

// foreignVersion replaces by versions that are none of this object's.
func (s *suite) foreignVersion(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v1 := mustCommit(t, b.PutIfAbsent(ctx, "k1", []byte("1")))
	v2 := mustCommit(t, b.PutIfAbsent(ctx, "k2", []byte("2")))
	for _, v := range []storage.Version{"", "x", "99999999", "*", "\"\"", "x-00", "1-0000000000000000"} {
		mustConflict(t, b.PutIfMatch(ctx, "k1", []byte("3"), v))
	}
	mustConflict(t, b.PutIfMatch(ctx, "k1", []byte("3"), v2))
	mustConflict(t, b.PutIfMatch(ctx, "absent", []byte("3"), v1))
	for _, v := range []storage.Version{"", "0", "1", "-1", "*"} {
		mustConflict(t, b.PutIfMatch(ctx, "absent", []byte("3"), v))
	}
	mustHold(ctx, t, b, "k1", "1", v1)
	if _, err := b.Get(ctx, "absent"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("a refused write left an object: get = %v", err)
	}
}

func (s *suite) sameBytesAgain(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v1 := mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("same")))
	v2 := mustCommit(t, b.PutIfMatch(ctx, "k", []byte("same"), v1))
	v3 := mustCommit(t, b.PutIfMatch(ctx, "k", []byte("other"), v2))
	v4 := mustCommit(t, b.PutIfMatch(ctx, "k", []byte("same"), v3))
	mustHold(ctx, t, b, "k", "same", v4)
	if s.repeats {
		return
	}
	if v1 == v2 || v1 == v4 || v2 == v4 {
		t.Fatalf("the same bytes brought a version back: %q %q %q", v1, v2, v4)
	}
	mustConflict(t, b.PutIfMatch(ctx, "k", []byte("late"), v1))
	mustConflict(t, b.PutIfMatch(ctx, "k", []byte("late"), v2))
	if err := b.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if v5 := mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("same"))); v5 == v4 || v5 == v2 || v5 == v1 {
		t.Fatalf("deleting and creating again brought version %q back", v5)
	}
}

func (s *suite) contents(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	big := make([]byte, 3<<20)
	for i, r := 0, rand.NewChaCha8([32]byte{1}); i < len(big); i += 8 {
		n := r.Uint64()
		for j := range 8 {
			big[i+j] = byte(n >> (8 * j))
		}
	}
	for name, data := range map[string]string{
		"empty": "", "zero": "\x00", "newline": "\n", "crlf": "a\r\nb", "utf8": "żółw 亀\u2028", "invalid": "\xff\xfe",
		"html": "<html><body>502</body></html>", "gzip": "\x1f\x8b\x08\x00rest", "big": string(big), "json": `{"a":1}`,
	} {
		v := mustCommit(t, b.PutIfAbsent(ctx, "c/"+name, []byte(data)))
		o := mustGet(ctx, t, b, "c/"+name)
		if string(o.Data) != data || o.Version != v {
			t.Errorf("%s: %d bytes came back as %d, version %q as %q", name, len(data), len(o.Data), v, o.Version)
		}
	}
	w := b.PutIfAbsent(ctx, "nil", nil)
	mustHold(ctx, t, b, "nil", "", mustCommit(t, w))
}

func (s *suite) callerKeepsItsSlices(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	data := []byte("mine")
	v := mustCommit(t, b.PutIfAbsent(ctx, "k", data))
	copy(data, "XXXX")
	o := mustGet(ctx, t, b, "k")
	copy(o.Data, "YYYY")
	mustHold(ctx, t, b, "k", "mine", v)
}

// manyKeys are valid keys with every character that a store could treat in
// its own way, in ascending order.
var manyKeys = []string{
	"A", "a+b", "a,b", "a-b", "a.b", "a/b", "a/b-c", "a/b/c.d", "a:b", "a=b", "a@b", "aa", "a~b", "b..c", "b/~/-", "z_",
}

func (s *suite) keys(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for _, key := range manyKeys {
		if key == "a/b" { // on a directory bucket it excludes a/b/c.d
			continue
		}
		v := mustCommit(t, b.PutIfAbsent(ctx, key, []byte(key)))
		v = mustCommit(t, b.PutIfMatch(ctx, key, []byte(key+"!"), v))
		mustHold(ctx, t, b, key, key+"!", v)
	}
	long := strings.Repeat("k", storage.MaxSegmentBytes)
	long = long + "/" + long + "/" + strings.Repeat("e", storage.MaxKeyBytes-2*len(long)-2)
	mustHold(ctx, t, b, long, "long", mustCommit(t, b.PutIfAbsent(ctx, long, []byte("long"))))
}

func (s *suite) badKeys(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for _, key := range []string{"", "/", "/abs", "a//b", "a/", "..", "a/../b", ".osqueue/x", "a b", "ä", strings.Repeat("k", 2000)} {
		_, err := b.Get(ctx, key)
		absent, match := b.PutIfAbsent(ctx, key, nil), b.PutIfMatch(ctx, key, nil, "1")
		for _, e := range []error{err, absent.Err, match.Err, b.Delete(ctx, key)} {
			if !errors.Is(e, storage.ErrInvalidKey) {
				t.Errorf("key %.20q: %v, want ErrInvalidKey", key, e)
			}
		}
		if absent.Outcome != storage.Unknown || match.Outcome != storage.Unknown {
			t.Errorf("key %.20q: outcomes %v and %v, want unknown", key, absent.Outcome, match.Outcome)
		}
	}
	if keys := mustKeys(ctx, t, b, ""); len(keys) != 0 {
		t.Errorf("bad keys left objects: %q", keys)
	}
}

func (s *suite) deleteObject(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v := mustCommit(t, b.PutIfAbsent(ctx, "d/k", []byte("1")))
	mustCommit(t, b.PutIfAbsent(ctx, "d/kept", []byte("2")))
	for range 2 { // the second time there is nothing to delete
		if err := b.Delete(ctx, "d/k"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(ctx, "d"); err != nil {
		t.Fatalf("delete of a name that only begins keys: %v", err)
	}
	if _, err := b.Get(ctx, "d/k"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("get after delete = %v, want ErrNotFound", err)
	}
	mustConflict(t, b.PutIfMatch(ctx, "d/k", []byte("3"), v))
	if got := mustKeys(ctx, t, b, ""); len(got) != 1 || got[0] != "d/kept" {
		t.Fatalf("after delete the bucket holds %q", got)
	}
}

func (s *suite) deleteThenCreate(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for range 3 {
		v := mustCommit(t, b.PutIfAbsent(ctx, "deep/er/k", []byte("1")))
		v = mustCommit(t, b.PutIfMatch(ctx, "deep/er/k", []byte("2"), v))
		mustHold(ctx, t, b, "deep/er/k", "2", v)
		if err := b.Delete(ctx, "deep/er/k"); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *suite) endedContext(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	v := mustCommit(t, b.PutIfAbsent(ctx, "k", []byte("1")))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := b.Get(ended, "k")
	absent, match := b.PutIfAbsent(ended, "new", []byte("2")), b.PutIfMatch(ended, "k", []byte("2"), v)
	errs := []error{
		err, absent.Err, match.Err, b.Delete(ended, "k"),
		b.List(ended, "", func(storage.Info) bool { return true }),
	}
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d under an ended context: %v, want context.Canceled", i, err)
		}
	}
	if absent.Outcome != storage.Unknown || match.Outcome != storage.Unknown {
		t.Errorf("outcomes %v and %v, want unknown", absent.Outcome, match.Outcome)
	}
	if o := mustGet(ctx, t, b, "k"); !bytes.Equal(o.Data, []byte("1")) {
		t.Errorf("an operation under an ended context changed the object to %q", o.Data)
	}
}

// deleteMany removes more than a batch, with absent and invalid keys among it.
func (s *suite) deleteMany(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	var keys []string
	for i := range s.objects {
		key := fmt.Sprintf("many/%04d=+@", i)
		mustCommit(t, b.PutIfAbsent(ctx, key, []byte("x")))
		keys = append(keys, key)
	}
	mustCommit(t, b.PutIfAbsent(ctx, "many-kept", []byte("x")))
	for i := range storage.MaxBatch {
		keys = append(keys, fmt.Sprintf("many/absent-%d", i))
	}
	const bad = "many//bad"
	failed := storage.DeleteAll(ctx, b, append(keys, bad))
	if len(failed) != 1 || !errors.Is(failed[bad], storage.ErrInvalidKey) {
		t.Errorf("failed: %v, want only %q", failed, bad)
	}
	if left := mustKeys(ctx, t, s.second(t, b), "many"); len(left) != 1 || left[0] != "many-kept" {
		t.Errorf("left are %q", left)
	}
	if failed := storage.DeleteAll(ctx, b, nil); len(failed) > 0 {
		t.Errorf("of no keys: %v", failed)
	}
}
