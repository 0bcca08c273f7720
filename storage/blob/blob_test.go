package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "checkpoint/li/0-0~1-9~5~abc"

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// noise is a stream that cannot be compressed.
func noise(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	return data
}

// write writes a blob in pieces.
func write(ctx context.Context, b storage.Bucket, data []byte, partBytes int) (*blob.Manifest, error) {
	w := blob.Create(ctx, b, prefix, partBytes)
	defer w.Abort()
	for piece := range piecesOf(data, 700) {
		if n, err := w.Write(piece); err != nil || n != len(piece) {
			return nil, errors.Join(err, errUnlessAll(n, len(piece)))
		}
	}
	return w.Close()
}

func errUnlessAll(n, of int) error {
	if n != of {
		return io.ErrShortWrite
	}
	return nil
}

func piecesOf(data []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(size, len(data))
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

func mustWrite(t tester, b storage.Bucket, data []byte, partBytes int) *blob.Manifest {
	t.Helper()
	m, err := write(t.Context(), b, data, partBytes)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return m
}

// read reads a blob to its end.
func read(ctx context.Context, b storage.Bucket, key string, want *blob.Sum) ([]byte, error) {
	r, err := blob.Open(ctx, b, key, want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// keysOf are the keys in a bucket.
func keysOf(t tester, b storage.Bucket) (keys []string) {
	t.Helper()
	err := b.List(context.Background(), "", func(o storage.Info) bool {
		keys = append(keys, strings.TrimPrefix(o.Key, prefix+"/"))
		return true
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return keys
}

// TestRoundTrip: what was written comes back, in parts of the size that was asked
// for, and the manifest says all of it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 5000).Draw(t, "bytes")
		data := noise(size)
		if rapid.Bool().Draw(t, "compressible") {
			data = bytes.Repeat([]byte("some text "), size/10)
		}
		partBytes := rapid.SampledFrom([]int{0, 1, 9, 100, 1000}).Draw(t, "part")
		withMeta := rapid.Bool().Draw(t, "with meta")
		b := mem.New()
		w := blob.Create(t.Context(), b, prefix, partBytes)
		defer w.Abort()
		_, _ = w.Write(data)
		if withMeta {
			w.SetMeta([]byte(` {"a" : [1, "<é>"]} `))
		}
		m, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		stored, parts := int64(0), 0
		_ = b.List(t.Context(), prefix, func(i storage.Info) bool {
			stored += i.Size
			parts++
			return true
		})
		if m.Raw != int64(len(data)) || m.Stored != stored || len(m.Parts) != parts-1 || m.Key != blob.ManifestKey(prefix) {
			t.Fatalf("manifest %+v of %d bytes in %d parts of %d bytes", m, len(data), parts-1, stored)
		}
		for i, p := range m.Parts {
			if last := i == len(m.Parts)-1; partBytes > 0 && (p.Bytes > int64(partBytes) || !last && p.Bytes < int64(partBytes)) {
				t.Fatalf("part %d has %d bytes, not %d", i, p.Bytes, partBytes)
			}
		}
		r, err := blob.Open(t.Context(), b, m.Key, &m.Sum)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer r.Close()
		if got := r.Manifest(); got.Sum != m.Sum || got.Stored != m.Stored || got.RawSum != m.RawSum || string(got.Meta) != string(m.Meta) ||
			withMeta && string(got.Meta) != `{"a":[1,"<é>"]}` {
			t.Fatalf("manifest %+v was read as %+v", m, got)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back of %d (%v)", len(got), len(data), err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("after its end: %d, %v", n, err)
		}
	})
}

// TestRefusals: what cannot be is reported before anything is written.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		prefix string
		part   int
		meta   string
	}{
		"prefix":    {"/x", 0, "{}"},
		"slash":     {"x/", 0, "{}"},
		"meta":      {"x", 0, `{"a":}`},
		"names":     {"x", 0, `{"a":1,"a":2}`},
		"empty":     {"x", 0, ""},
		"part":      {"x", -1, "{}"},
		"huge part": {"x", 1 << 30, "{}"},
	} {
		b := mem.New()
		w := blob.Create(t.Context(), b, c.prefix, c.part)
		w.SetMeta([]byte(c.meta))
		_, first := w.Write([]byte("x"))
		_, err := w.Close()
		if first == nil || err == nil || len(keysOf(t, b)) > 0 {
			t.Errorf("%s: %v and %v, objects %v", name, first, err, keysOf(t, b))
		}
		w.Abort()
	}
	if _, err := blob.Open(t.Context(), mem.New(), "x/other.json", nil); !errors.Is(err, storage.ErrInvalidKey) {
		t.Errorf("open of what is no manifest: %v", err)
	}
	if _, err := blob.Open(t.Context(), mem.New(), blob.ManifestKey(prefix), nil); !errors.Is(err, storage.ErrNotFound) || errors.Is(err, blob.ErrDamaged) {
		t.Errorf("open of nothing: %v", err)
	}
}

// TestEnds uses a writer and a reader after their ends.
func TestEnds(t *testing.T) {
	b := mem.New()
	w := blob.Create(t.Context(), b, prefix, 100)
	w.Write(noise(1000))
	m, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	before := len(keysOf(t, b))
	w.Abort() // as a deferred one
	if after := len(keysOf(t, b)); after != before {
		t.Errorf("%d objects of %d after an Abort that came too late", after, before)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("a closed writer takes more")
	}
	if _, err := w.Close(); err == nil {
		t.Error("a closed writer can be closed again")
	}
	r, err := blob.Open(t.Context(), b, m.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if _, err := r.Read(make([]byte, 10)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read of a closed reader: %v", err)
	}
}

// TestAbort leaves nothing, at whatever point.
func TestAbort(t *testing.T) {
	for size := 0; size < 2000; size += 70 {
		b := mem.New()
		w := blob.Create(t.Context(), b, prefix, 100)
		w.Write(noise(size))
		w.Abort()
		w.Abort()
		if keys := keysOf(t, b); len(keys) > 0 {
			t.Fatalf("after %d bytes and Abort there are %v", size, keys)
		}
		if _, err := w.Close(); err == nil {
			t.Fatal("an aborted blob was made")
		}
	}
}

// TestTaken: a second attempt under the same prefix fails, and does not remove the
// first one's objects.
func TestTaken(t *testing.T) {
	b := mem.New()
	m := mustWrite(t, b, noise(1000), 100)
	other := bytes.Repeat([]byte("z"), 900)
	if _, err := write(t.Context(), b, other, 7); !errors.Is(err, blob.ErrTaken) {
		t.Fatalf("write over a blob: %v", err)
	}
	if data, err := read(t.Context(), b, m.Key, &m.Sum); err != nil || !bytes.Equal(data, noise(1000)) {
		t.Fatalf("the blob was harmed: %v", err)
	}
	if _, err := write(t.Context(), b, noise(1000), 100); err != nil {
		t.Fatalf("the same blob again: %v", err)
	}
}
