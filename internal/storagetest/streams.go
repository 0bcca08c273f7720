package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"osqueue/storage"
)

const kib = 1 << 10

// streamSizes are the sizes of the objects of the stream tests, in bytes.
var streamSizes = []int{0, 1, 64*kib - 1, 64 * kib, 64*kib + 1, 8<<20 + 3}

// stream returns bytes that do not compress, and what announces them.
func stream(size int) ([]byte, storage.Content) {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(data)
	return data, announce(data)
}

func announce(data []byte) storage.Content {
	return storage.Content{Size: int64(len(data)), Sum: sha256.Sum256(data)}
}

// watched fails the test if it is read after its call has returned.
type watched struct {
	t    *testing.T
	r    io.Reader
	over atomic.Bool
}

func (w *watched) Read(p []byte) (int, error) {
	if w.over.Load() {
		w.t.Error("the stream was read after the return of PutStream")
	}
	return w.r.Read(p)
}

func putStream(ctx context.Context, t *testing.T, b storage.Bucket, key string, r io.Reader, c storage.Content) storage.Write {
	t.Helper()
	w := &watched{t: t, r: r}
	defer w.over.Store(true)
	return streamer(t, b).PutStream(ctx, key, w, c)
}

func streamer(t *testing.T, b storage.Bucket) storage.Streamer {
	t.Helper()
	s, ok := b.(storage.Streamer)
	if !ok {
		t.Fatalf("%T is no storage.Streamer", b)
	}
	return s
}

func readRange(ctx context.Context, b storage.Streamer, key string, offset, length int64) ([]byte, error) {
	body, err := b.GetRange(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	return data, errors.Join(err, body.Close())
}

// streams writes objects of all sizes, and reads them in every way.
func (s *suite) streams(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	other := s.second(t, b)
	for i, size := range streamSizes {
		key := fmt.Sprintf("blob/%d", i)
		data, c := stream(size)
		v := mustCommit(t, putStream(ctx, t, b, key, iotest.HalfReader(bytes.NewReader(data)), c))
		if o := mustGet(ctx, t, other, key); !bytes.Equal(o.Data, data) || o.Version != v {
			t.Errorf("%d bytes came back as %d, version %q as %q", size, len(o.Data), v, o.Version)
		}
		st, err := streamer(t, other).Stat(ctx, key)
		if err != nil || st.Size != c.Size || st.Sum != nil && *st.Sum != c.Sum {
			t.Errorf("stat of %d bytes = %+v, %v", size, st, err)
		}
		for offset := range borders(size) {
			for end := range borders(size) {
				if end < offset {
					continue
				}
				got, err := readRange(ctx, streamer(t, other), key, int64(offset), int64(end-offset))
				if err != nil || !bytes.Equal(got, data[min(offset, size):min(end, size)]) {
					t.Errorf("bytes %d to %d of %d: %d bytes, %v", offset, end, size, len(got), err)
				}
			}
		}
	}
}

// borders has the offsets near the ends of an object and of a chunk in it, and behind the object.
func borders(size int) map[int]bool {
	all := map[int]bool{}
	for _, at := range []int{0, 1, 64*kib - 1, 64 * kib, size - 1, size, size + 1, size + 64*kib} {
		if at >= 0 && at <= size+64*kib {
			all[at] = true
		}
	}
	return all
}

// streamsCreate checks that a stream never replaces an object, and shares its names with the other writes.
func (s *suite) streamsCreate(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	data, c := stream(64*kib + 1)
	v := mustCommit(t, putStream(ctx, t, b, "blob/a", bytes.NewReader(data), c))
	other, otherC := stream(100)
	for range 2 {
		mustConflict(t, putStream(ctx, t, s.second(t, b), "blob/a", bytes.NewReader(other), otherC))
		mustConflict(t, putStream(ctx, t, b, "blob/a", bytes.NewReader(data), c))
		mustConflict(t, b.PutIfAbsent(ctx, "blob/a", other))
		mustHold(ctx, t, b, "blob/a", string(data), v)
	}
	v = mustCommit(t, b.PutIfMatch(ctx, "blob/a", other, v))
	mustConflict(t, putStream(ctx, t, b, "blob/a", bytes.NewReader(data), c))
	mustHold(ctx, t, b, "blob/a", string(other), v)
	if got, err := readRange(ctx, streamer(t, b), "blob/a", 50, 1000); err != nil || !bytes.Equal(got, other[50:]) {
		t.Errorf("range of the object that replaced it: %d bytes, %v", len(got), err)
	}
	if err := b.Delete(ctx, "blob/a"); err != nil {
		t.Fatal(err)
	}
	mustBeAbsent(ctx, t, b, "blob/a")
	if _, err := readRange(ctx, streamer(t, b), "blob", 0, 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("range of a name that only begins keys: %v", err)
	}
}

func mustBeAbsent(ctx context.Context, t *testing.T, b storage.Bucket, key string) {
	t.Helper()
	for _, offset := range []int64{0, 1} {
		for _, length := range []int64{0, 1} {
			if got, err := readRange(ctx, streamer(t, b), key, offset, length); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("range of %q = %d bytes, %v; want ErrNotFound", key, len(got), err)
			}
		}
	}
	if st, err := streamer(t, b).Stat(ctx, key); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("stat of %q = %+v, %v; want ErrNotFound", key, st, err)
	}
	if got := mustKeys(ctx, t, b, ""); len(got) != 0 {
		t.Errorf("the bucket holds %q", got)
	}
}

// errBroken is the error of a stream.
var errBroken = errors.New("the client has gone")

// streamsCut checks that a stream that is not what was announced leaves nothing, and does not take the name.
func (s *suite) streamsCut(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	for i, size := range streamSizes {
		key := fmt.Sprintf("blob/%d", i)
		data, c := stream(size)
		wrong := bytes.Clone(data)
		if size > 0 {
			wrong[size-1] ^= 1
		}
		for name, bad := range map[string]struct {
			r   io.Reader
			c   storage.Content
			err error
		}{
			"wrong sum":         {bytes.NewReader(data), storage.Content{Size: c.Size, Sum: storage.Sum{1}}, storage.ErrContent},
			"wrong last byte":   {bytes.NewReader(wrong), c, storage.ErrContent},
			"last byte missing": {bytes.NewReader(data[:max(size-1, 0)]), c, storage.ErrContent},
			"half of it":        {bytes.NewReader(data[:size/2]), c, storage.ErrContent},
			"half announced":    {bytes.NewReader(data), storage.Content{Size: c.Size / 2, Sum: c.Sum}, storage.ErrContent},
			"fails at once":     {iotest.ErrReader(errBroken), c, errBroken},
			"fails half-way":    {io.MultiReader(bytes.NewReader(data[:size/2]), iotest.ErrReader(errBroken)), c, errBroken},
			"fails at the last": {io.MultiReader(bytes.NewReader(data[:max(size-1, 0)]), iotest.ErrReader(errBroken)), c, errBroken},
		} {
			if size == 0 && name != "wrong sum" { // the others are right, as nothing is read
				continue
			}
			w := putStream(ctx, t, b, key, bad.r, bad.c)
			if w.Outcome != storage.Unknown || !errors.Is(w.Err, bad.err) || !errors.Is(w.Err, storage.ErrContent) || w.Version != "" {
				t.Errorf("%d bytes, %s: %+v, want unknown with %v", size, name, w, bad.err)
			}
			mustBeAbsent(ctx, t, b, key)
		}
		longer := append(bytes.Clone(data), "more"...)
		mustCommit(t, putStream(ctx, t, b, key, bytes.NewReader(longer), c))
		if o := mustGet(ctx, t, b, key); !bytes.Equal(o.Data, data) {
			t.Errorf("%d bytes of a longer stream came back as %d", size, len(o.Data))
		}
		if err := b.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
}

// streamsEnd ends the context in the middle of a write and of a read.
func (s *suite) streamsEnd(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	data, c := stream(8<<20 + 3)
	writing, cancel := context.WithCancel(ctx)
	w := putStream(writing, t, b, "blob/a", io.MultiReader(bytes.NewReader(data[:4<<20]), readerFunc(func([]byte) (int, error) {
		cancel()
		<-writing.Done() // as a client that has stopped sending
		return 0, writing.Err()
	})), c)
	if w.Outcome != storage.Unknown || !errors.Is(w.Err, context.Canceled) {
		t.Errorf("a cancelled write is %+v", w)
	}
	mustBeAbsent(ctx, t, b, "blob/a")
	mustCommit(t, putStream(ctx, t, b, "blob/a", bytes.NewReader(data), c))

	reading, stop := context.WithCancel(ctx)
	defer stop()
	body, err := streamer(t, b).GetRange(reading, "blob/a", 1, c.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := io.Copy(io.Discard, body); !errors.Is(err, context.Canceled) {
		t.Errorf("the rest after the end of the context: %v", err)
	}

	_, err1 := streamer(t, b).GetRange(reading, "blob/a", 0, 1)
	_, err2 := streamer(t, b).Stat(reading, "blob/a")
	w = putStream(reading, t, b, "blob/b", bytes.NewReader(data), c)
	for i, err := range []error{err1, err2, w.Err} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d under an ended context: %v", i, err)
		}
	}
	if got := mustKeys(ctx, t, b, ""); len(got) != 1 {
		t.Errorf("the bucket holds %q", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// streamsRefuse gives what no object can be.
func (s *suite) streamsRefuse(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	_, c := stream(1)
	for _, key := range []string{"", "a//b", "../x", "a b"} {
		_, err1 := streamer(t, b).GetRange(ctx, key, 0, 1)
		_, err2 := streamer(t, b).Stat(ctx, key)
		w := putStream(ctx, t, b, key, iotest.ErrReader(errBroken), c)
		for _, err := range []error{err1, err2, w.Err} {
			if !errors.Is(err, storage.ErrInvalidKey) {
				t.Errorf("key %q: %v", key, err)
			}
		}
	}
	for _, size := range []int64{-1, storage.MaxStreamBytes + 1} {
		if w := putStream(ctx, t, b, "k", iotest.ErrReader(errBroken), storage.Content{Size: size}); w.Outcome != storage.Unknown || w.Err == nil || errors.Is(w.Err, errBroken) {
			t.Errorf("an object of %d bytes: %+v", size, w)
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, 1 << 40}, {1 << 62, 1 << 62}} {
		if _, err := streamer(t, b).GetRange(ctx, "k", r[0], r[1]); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("range %v: %v", r, err)
		}
	}
}

// StreamsInLittleMemory checks that a write of 64 MiB does not keep them: all that it allocates is less than a
// sixteenth of that.
func StreamsInLittleMemory(t *testing.T, b storage.Streamer) {
	t.Helper()
	const size, most = 64 << 20, 4 << 20
	zeros := func() io.Reader {
		return io.LimitReader(readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil }), size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, zeros()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := b.PutStream(bounded(t), "blob/large", zeros(), storage.Content{Size: size, Sum: storage.Sum(h.Sum(nil))})
	runtime.ReadMemStats(&after)
	mustCommit(t, w)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("a write of %d bytes allocated %d", size, took)
	}
}
