package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// A store that waits for all bytes of a wrong stream never gets them, in whatever pieces it reads.
func TestSourceHoldsTheEndBack(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 10)
	for name, r := range map[string]func() io.Reader{
		"whole":         func() io.Reader { return bytes.NewReader(data) },
		"bytes":         func() io.Reader { return iotest.OneByteReader(bytes.NewReader(data)) },
		"with its end":  func() io.Reader { return iotest.DataErrReader(bytes.NewReader(data)) },
		"longer":        func() io.Reader { return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(io.ErrClosedPipe)) },
		"with no bytes": func() io.Reader { return &halting{r: bytes.NewReader(data)} },
	} {
		for piece := 1; piece <= len(data)+1; piece++ {
			for _, right := range []bool{true, false} {
				c := Content{Size: int64(len(data)), Sum: sha256.Sum256(data)}
				if !right {
					c.Sum[0] ^= 1
				}
				s, err := NewSource(t.Context(), "k", r(), c)
				if err != nil {
					t.Fatal(err)
				}
				got, err := pieces(s, piece)
				if right && (err != nil || !bytes.Equal(got, data) || s.Close() != nil) {
					t.Fatalf("%s, in pieces of %d: %d bytes, %v", name, piece, len(got), err)
				}
				if !right && (!errors.Is(err, ErrContent) || len(got) >= len(data) || !errors.Is(s.Close(), ErrContent)) {
					t.Fatalf("%s, in pieces of %d: %d bytes of a wrong stream, %v", name, piece, len(got), err)
				}
			}
		}
	}
}

// pieces reads all of r with a buffer of that size.
func pieces(r io.Reader, size int) (all []byte, err error) {
	buffer := make([]byte, size)
	for {
		n, err := r.Read(buffer)
		all = append(all, buffer[:n]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// halting returns no bytes every other time.
type halting struct {
	r    io.Reader
	halt bool
}

func (h *halting) Read(p []byte) (int, error) {
	if h.halt = !h.halt; h.halt {
		return 0, nil
	}
	return h.r.Read(p)
}

func TestSourceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := Content{Size: 4, Sum: sha256.Sum256([]byte("abcd"))}
	s, err := NewSource(ctx, "k", strings.NewReader("abcd"), c)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	cancel()
	for range 2 {
		if n, err := s.Read(make([]byte, 2)); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %d, %v", n, err)
		}
	}
	if err := s.Close(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := NewSource(ctx, "k", nil, c); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}

	s, err = NewSource(t.Context(), "k", strings.NewReader("abcd"), c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Read(make([]byte, 4)); n != 0 || !errors.Is(err, errOver) {
		t.Errorf("after Close: %d, %v", n, err)
	}
}

// A bucket without streams has none under a decorator, which is not called for them.
func TestDecoratedWithoutStreams(t *testing.T) {
	b := Decorate(struct{ Bucket }{}, func(_ context.Context, c Call, _ func(context.Context) Answer) Answer {
		t.Errorf("%s reached the decorator", c.Op)
		return Answer{}
	})
	ctx := t.Context()
	w := b.PutStream(ctx, "k", strings.NewReader(""), Content{})
	_, err1 := b.GetRange(ctx, "k", 0, 1)
	_, err2 := b.Stat(ctx, "k")
	_, err3 := b.SignPut(ctx, "k", Content{}, time.Hour)
	_, err4 := b.SignGet(ctx, "k", time.Hour)
	for i, err := range []error{w.Err, err1, err2, err3, err4} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if w.Outcome != Unknown {
		t.Errorf("%+v", w)
	}
}
