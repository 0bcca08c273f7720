package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"sync"
	"time"
)

// MaxStreamBytes bounds an object of a Streamer: S3 takes no more in one request.
const MaxStreamBytes = 5 << 30

// MaxSigned is the longest time that a signed request is valid for: S3 and GCS sign for no longer.
const MaxSigned = 7 * 24 * time.Hour

// ErrContent is wrapped by the error of a write whose bytes cannot be read or are not the announced ones.
var ErrContent = errors.New("the stream does not have the announced bytes")

// Sum is the SHA-256 of an object.
type Sum [sha256.Size]byte

// Content announces the bytes of an object.
type Content struct {
	Size int64
	Sum  Sum
}

// Validate returns an error if no object can have that key and size.
func (c Content) Validate(key string) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	if c.Size < 0 || c.Size > MaxStreamBytes {
		return fmt.Errorf("object %q has %d bytes: must be 0 to %d", key, c.Size, int64(MaxStreamBytes))
	}
	return nil
}

// Stat describes an object without its bytes.
type Stat struct {
	Size int64
	// Sum is nil if the store does not keep it. If it is set, the store has compared it with the bytes.
	Sum *Sum
}

// Streamer is implemented by a Bucket for objects that are too large for memory. Its objects and those of Bucket
// are the same. A Decorated bucket has the methods in any case; their error wraps errors.ErrUnsupported if
// the bucket below has none.
type Streamer interface {
	// PutStream creates key from the first c.Size bytes of r. It ends as PutIfAbsent does. A conflict may be
	// found after r was read. If r ends early or fails, or the bytes do not have the announced sum, nothing is
	// written: Unknown with ErrContent, and with r's error. PutStream does not read from r after it has returned, so
	// that it waits for a Read under way: r must return when ctx ends.
	PutStream(ctx context.Context, key string, r io.Reader, c Content) Write

	// GetRange returns the bytes of key from offset, at most length of them: less where the object ends, and
	// none behind that. A body that breaks off is an error of Read other than io.EOF. The caller closes the
	// reader, which ends with ctx. ErrNotFound when absent.
	GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)

	// Stat describes the object. ErrNotFound when absent.
	Stat(ctx context.Context, key string) (Stat, error)
}

// Signer is implemented by a Bucket that lets others transfer an object without its credentials. The error
// wraps errors.ErrUnsupported if the store or the credentials cannot sign: the bytes then pass through the
// caller. Nothing is sent to the store. If the credentials are temporary, the request ends with them.
type Signer interface {
	// SignPut signs a request that creates key, and fails if it exists or the size differs. S3 compares the sum,
	// too. GCS is not known to, nor are all stores with the API of S3: there each reader has to.
	SignPut(ctx context.Context, key string, c Content, valid time.Duration) (Signed, error)

	// SignGet signs a request that reads key. A header Range may be added to it.
	SignGet(ctx context.Context, key string, valid time.Duration) (Signed, error)
}

// Signed is a request that anyone who knows it can make until it expires.
type Signed struct {
	Method string
	URL    string
	Header http.Header // to be sent as it is
}

// ValidateSigned returns an error for a time that no request can be valid for.
func ValidateSigned(valid time.Duration) error {
	if valid < time.Second || valid > MaxSigned {
		return fmt.Errorf("a signed request valid for %v: must be 1s to %v", valid, MaxSigned)
	}
	return nil
}

// ValidateRange returns an error if no object can have that key or range.
func ValidateRange(key string, offset, length int64) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	if offset < 0 || length < 0 || offset > MaxStreamBytes || length > MaxStreamBytes {
		return fmt.Errorf("range of %q: %d bytes from %d: each must be 0 to %d", key, length, offset, int64(MaxStreamBytes))
	}
	return nil
}

// Source reads the announced bytes of a stream for a driver. It returns the last of them only after it
// has compared the sum of all: a store that waits for so many bytes never gets those of a wrong stream.
type Source struct {
	ctx context.Context

	mu   sync.Mutex // held while r is read
	r    io.Reader
	sum  hash.Hash
	want Sum
	size int64
	left int64
	err  error // of all reads that follow
}

// NewSource returns the source for a write of key. An error means that nothing may be written.
func NewSource(ctx context.Context, key string, r io.Reader, c Content) (*Source, error) {
	if err := errors.Join(ctx.Err(), c.Validate(key)); err != nil {
		return nil, err
	}
	s := &Source{ctx: ctx, r: r, sum: sha256.New(), want: c.Sum, size: c.Size, left: c.Size}
	if c.Size == 0 {
		return s, s.check()
	}
	return s, nil
}

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.left > 0 {
		s.err = s.ctx.Err()
	}
	switch {
	case s.err != nil:
		return 0, s.err
	case s.left == 0:
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.sum.Write(p[:n])
	s.left -= int64(n)
	switch {
	case s.left == 0:
		s.err = s.check()
	case errors.Is(err, io.EOF):
		s.err = fmt.Errorf("%w: the stream ends after %d bytes of %d", ErrContent, s.size-s.left, s.size)
	case err != nil:
		s.err = fmt.Errorf("%w: %w", ErrContent, err)
	}
	if s.err != nil {
		return 0, s.err
	}
	return n, nil
}

func (s *Source) check() error {
	if got := Sum(s.sum.Sum(nil)); got != s.want {
		return fmt.Errorf("%w: the SHA-256 is %x and not %x", ErrContent, got, s.want)
	}
	return nil
}

// errOver is the error of a read after the end of its call.
var errOver = errors.New("the call has returned")

// Close waits for a Read under way, and keeps later ones from the stream. It returns why the stream cannot be
// stored, or nil. After an error no store has got all of the bytes.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if s.err == nil {
		s.err = errOver
	}
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}
