package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"osqueue/client"
)

// sealed encrypts a stream.
func sealed(t testing.TB, c client.Cipher, plain []byte, about ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(t.Context(), c, &out, about...)
	check(t, err)
	_, err = io.Copy(w, iotest.HalfReader(bytes.NewReader(plain)))
	check(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

// from opens a ciphertext in memory.
func from(data []byte) Opener {
	return func(offset int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data[min(offset, int64(len(data))):])), nil
	}
}

// opened decrypts all of a stream. It returns what was read before an error, too.
func opened(t testing.TB, c client.Cipher, data []byte, size int64, about ...string) ([]byte, error) {
	t.Helper()
	r, err := NewReader(t.Context(), c, from(data), size, about...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func text(size int) []byte {
	out := make([]byte, size)
	rand.Read(out)
	return out
}

// headOf returns the size of everything before the first chunk's text.
func headOf(data []byte) int { return lengthSize + int(binary.BigEndian.Uint32(data)) + tinkHeader }

// sizes returns plaintext sizes near the ends of chunks.
func sizes(t testing.TB, c client.Cipher) []int {
	first := chunkSize - tagSize - headOf(sealed(t, c, nil))
	var out []int
	for _, end := range []int{first, first + chunkSize - tagSize, first + 2*(chunkSize-tagSize)} {
		out = append(out, end-1, end, end+1)
	}
	return append(out, 0, 1, 64<<10-1, 64<<10, 64<<10+1, 1<<20+7)
}

func TestStreams(t *testing.T) {
	r := open(t, create(t, "shop"))
	for _, size := range sizes(t, r) {
		plain := text(size)
		data := sealed(t, r, plain, "job", "pdf")
		if got, err := opened(t, r, data, int64(len(data)), "job", "pdf"); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes came back as %d, %v", size, len(got), err)
		}
		if bytes.Contains(data, plain[:min(size, 16)]) && size >= 16 {
			t.Errorf("%d bytes are in the clear", size)
		}
		for _, about := range [][]string{{"job", "png"}, {"jobpdf"}, {"job"}, {}} {
			if got, err := opened(t, r, data, int64(len(data)), about...); !errors.Is(err, client.ErrTampered) || got != nil {
				t.Errorf("as %q: %d bytes, %v", about, len(got), err)
			}
		}
		if again := sealed(t, r, plain, "job", "pdf"); bytes.Equal(again, data) {
			t.Error("two encryptions gave the same bytes")
		}
	}
}

// The chunks are those of Tink, whose reader takes the keys that the Cipher wraps.
func TestStreamsAreTinks(t *testing.T) {
	r := open(t, create(t, "shop"))
	for _, size := range sizes(t, r) {
		plain := text(size)
		data := sealed(t, r, plain)
		n := lengthSize + int(binary.BigEndian.Uint32(data))
		key, err := r.DecryptWithContext(t.Context(), data[lengthSize:n], binding(nil))
		check(t, err)
		tink, err := subtle.NewAESGCMHKDF(key, "SHA256", keySize, chunkSize, n)
		check(t, err)
		chunks, err := tink.NewDecryptingReader(bytes.NewReader(data[n:]), nil)
		check(t, err)
		if got, err := io.ReadAll(chunks); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Tink reads %d bytes of %d, %v", len(got), size, err)
		}
	}
}

func TestSeek(t *testing.T) {
	c := open(t, create(t, "shop"))
	for _, size := range sizes(t, c) {
		plain := text(size)
		data := sealed(t, c, plain)
		opens := 0
		r, err := NewReader(t.Context(), c, func(offset int64) (io.ReadCloser, error) {
			opens++
			return from(data)(offset)
		}, int64(len(data)))
		check(t, err)
		if end, err := r.Seek(0, io.SeekEnd); err != nil || end != int64(size) {
			t.Fatalf("the end of %d bytes is at %d, %v", size, end, err)
		}
		for _, at := range slices.Concat(sizes(t, c), []int{size - 1, size, size + 1}) {
			if at < 0 {
				continue
			}
			_, err := r.Seek(int64(at), io.SeekStart)
			check(t, err)
			got, err := io.ReadAll(io.LimitReader(r, 70_000))
			if want := plain[min(at, size):min(at+70_000, size)]; err != nil || !bytes.Equal(got, want) {
				t.Errorf("at %d of %d: %d bytes, %v, want %d", at, size, len(got), err, len(want))
			}
			if now, err := r.Seek(0, io.SeekCurrent); err != nil || now != int64(at+len(got)) {
				t.Errorf("after a read of %d at %d: at %d, %v", len(got), at, now, err)
			}
		}
		if _, err := r.Seek(-1, io.SeekStart); err == nil {
			t.Error("seek to -1")
		}
		check(t, r.Close())
		if size > 1<<20 && opens > 60 {
			t.Errorf("the source was opened %d times", opens)
		}
	}
}

// damages returns changed ciphertexts of plain, by name.
func damages(data, other []byte) map[string][]byte {
	out := map[string][]byte{}
	head := headOf(data)
	borders := []int{0, lengthSize, head - tinkHeader, head, len(data)}
	for at := chunkSize; at < len(data); at += chunkSize {
		borders = append(borders, at)
	}
	near := map[int]bool{}
	for at := range head {
		near[at] = true
	}
	for _, at := range borders {
		for d := -tagSize - 1; d <= tagSize+1; d++ {
			if at+d >= 0 && at+d <= len(data) {
				near[at+d] = true
			}
		}
	}
	for at := range near {
		if at < len(data) {
			out[fmt.Sprint("cut to ", at)] = data[:at]
			for _, bit := range []byte{1, 0x80} {
				flipped := bytes.Clone(data)
				flipped[at] ^= bit
				out[fmt.Sprintf("bit %x of byte %d", bit, at)] = flipped
			}
		}
	}
	chunk := func(data []byte, i int) []byte { return data[i*chunkSize : min((i+1)*chunkSize, len(data))] }
	last := (len(data) - 1) / chunkSize
	out["without the last chunk"] = data[:last*chunkSize]
	out["with more"] = append(bytes.Clone(data), 0)
	out["with a chunk more"] = append(bytes.Clone(data), chunk(data, last)...)
	out["chunks swapped"] = slices.Concat(chunk(data, 0), chunk(data, 2), chunk(data, 1), data[3*chunkSize:])
	out["a chunk doubled"] = slices.Concat(data[:2*chunkSize], chunk(data, 1), data[2*chunkSize:])
	out["a chunk left out"] = slices.Concat(data[:chunkSize], data[2*chunkSize:])
	out["a chunk of another stream"] = slices.Concat(data[:chunkSize], chunk(other, 1), data[2*chunkSize:])
	out["the end of another stream"] = slices.Concat(data[:last*chunkSize], chunk(other, last))
	out["the key of another stream"] = slices.Concat(other[:head-tinkHeader], data[head-tinkHeader:])
	return out
}

func TestEveryDamageIsNoticed(t *testing.T) {
	r := open(t, create(t, "shop"))
	plain := text(3*chunkSize + 100)
	data, other := sealed(t, r, plain), sealed(t, r, text(len(plain)))
	for name, bad := range damages(data, other) {
		for _, size := range []int{len(bad), len(data)} { // as the store says, and as the owner remembers
			if name == "with more" && size == len(data) || name == "with a chunk more" && size == len(data) {
				continue // what is behind the end is not read
			}
			got, err := opened(t, r, bad, int64(size))
			if !errors.Is(err, client.ErrTampered) && !errors.Is(err, client.ErrNoKey) || !bytes.HasPrefix(plain, got) {
				t.Errorf("%s, read as %d bytes: %d bytes, %v", name, size, len(got), err)
			}
		}
	}
}

// A length that is wrong is noticed by a reader that only asks for it.
func TestTheEndIsChecked(t *testing.T) {
	c := open(t, create(t, "shop"))
	data := sealed(t, c, text(3*chunkSize))
	r, err := NewReader(t.Context(), c, from(data), 2*chunkSize)
	check(t, err)
	defer r.Close()
	if end, err := r.Seek(0, io.SeekEnd); !errors.Is(err, client.ErrTampered) {
		t.Errorf("the end is at %d, %v", end, err)
	}
	if _, err := r.Seek(5*chunkSize, io.SeekStart); err != nil {
		t.Error(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, client.ErrTampered) {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

// A connection that breaks is no damage: the same reader continues.
func TestAStreamContinues(t *testing.T) {
	c := open(t, create(t, "shop"))
	plain := text(3 * chunkSize)
	data := sealed(t, c, plain)
	broken := true
	r, err := NewReader(t.Context(), c, func(offset int64) (io.ReadCloser, error) {
		rest := data[offset:]
		if broken {
			return io.NopCloser(io.MultiReader(bytes.NewReader(rest[:len(rest)*2/3]), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
		}
		return io.NopCloser(bytes.NewReader(rest)), nil
	}, int64(len(data)))
	check(t, err)
	defer r.Close()
	got, err := io.ReadAll(r)
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, client.ErrTampered) || len(got) == 0 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	broken = false
	rest, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(append(got, rest...), plain) {
		t.Errorf("%d and %d bytes, %v", len(got), len(rest), err)
	}
}

// failing is a cipher whose service is away, or whose keys are too long.
type failing struct {
	client.Cipher
	long bool
}

func (f failing) EncryptWithContext(context.Context, []byte, []byte) ([]byte, error) {
	if f.long {
		return make([]byte, maxWrappedKey+1), nil
	}
	return nil, errAway
}

func (failing) DecryptWithContext(context.Context, []byte, []byte) ([]byte, error) {
	return nil, errAway
}

func TestACipherThatFails(t *testing.T) {
	var out bytes.Buffer
	if _, err := NewWriter(t.Context(), failing{}, &out); !errors.Is(err, errAway) || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	if _, err := NewWriter(t.Context(), failing{long: true}, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	data := sealed(t, open(t, create(t, "a")), text(10))
	if _, err := opened(t, failing{}, data, int64(len(data))); !errors.Is(err, errAway) || errors.Is(err, client.ErrTampered) {
		t.Errorf("a service that is away: %v", err)
	}
	errFull := errors.New("the disk is full")
	w, err := NewWriter(t.Context(), open(t, create(t, "a")), writerFunc(func([]byte) (int, error) { return 0, errFull }))
	if w != nil || !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Streams outlive the rotation of the ring, as texts do.
func TestStreamsAndRotation(t *testing.T) {
	path := create(t, "")
	plain := text(100)
	data := sealed(t, open(t, path), plain)
	rotated, err := Rotate(path, false)
	check(t, err)
	if got, err := opened(t, open(t, path), data, int64(len(data))); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_, err = Remove(path, rotated.Keys[0].ID)
	check(t, err)
	if _, err := opened(t, open(t, path), data, int64(len(data))); !errors.Is(err, client.ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keys.json")
	if _, err := Create(path, "a"); err != nil {
		f.Fatal(err)
	}
	r, err := OpenRing(path)
	check(f, err)
	plain := text(2*chunkSize + 100)
	good := sealed(f, r, plain)
	// The input replaces a part of a good stream, or is the stream.
	f.Add([]byte{}, 0, len(good), int64(len(good)), int64(0))
	f.Add([]byte{1, 2, 3}, chunkSize, 3, int64(len(good)), int64(chunkSize))
	f.Add([]byte{0, 0, 0, 5, 1, 0, 0, 0, 1, 40}, 0, len(good), int64(200), int64(7))
	f.Add([]byte{0, 0, 255, 255}, 0, 4, int64(1)<<62, int64(1)<<40)
	f.Fuzz(func(t *testing.T, in []byte, at, cut int, size, seek int64) {
		if at < 0 || at > len(good) || cut < 0 || cut > len(good)-at {
			return
		}
		data := slices.Concat(good[:at], in, good[at+cut:])
		s, err := NewReader(t.Context(), r, func(offset int64) (io.ReadCloser, error) {
			if offset < 0 || offset > size {
				t.Fatalf("opened at %d of %d", offset, size)
			}
			return from(data)(offset)
		}, size)
		if err != nil {
			return
		}
		defer s.Close()
		seek = max(seek%int64(len(plain)+10), 0)
		if _, err := s.Seek(seek, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if want := plain[min(seek, int64(len(plain))):]; !bytes.HasPrefix(want, got) || err == nil && len(got) != len(want) {
			t.Fatalf("%d bytes from %d, %v; want %d", len(got), seek, err, len(want))
		}
	})
}
