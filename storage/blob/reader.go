package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"osqueue/storage"
)

// windowMax bounds the memory that a stream can ask for: what this version
// writes, with room for later ones.
const windowMax = 64 << 20

// Reader reads the stream of a blob. It is used by one goroutine at a time.
type Reader struct {
	m      *Manifest
	cancel context.CancelFunc
	src    *source
	unzip  *zstd.Decoder
	sum    hash.Hash
	raw    int64
	err    error // of the reads that follow
}

// Open opens the blob with that manifest, for as long as ctx lives. want is the
// manifest's sum as the caller remembers it; nil if it does not. Errors are those
// of Stat. Close must be called.
func Open(ctx context.Context, bucket storage.Bucket, manifestKey string, want *Sum) (*Reader, error) {
	prefix, ok := strings.CutSuffix(manifestKey, manifestName)
	if !ok {
		return nil, fmt.Errorf("%w: %q is not the key of a manifest, which ends in %s", storage.ErrInvalidKey, manifestKey, manifestName)
	}
	m, err := Stat(ctx, bucket, manifestKey, want)
	if err != nil {
		return nil, err
	}
	r := &Reader{m: m, sum: sha256.New()}
	ctx, r.cancel = context.WithCancel(ctx)
	r.src = &source{ctx: ctx, bucket: bucket, prefix: prefix, parts: m.Parts}
	r.unzip, err = zstd.NewReader(r.src,
		zstd.WithDecoderConcurrency(1), // in the caller's goroutine
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(windowMax))
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("read %q: %w", manifestKey, err)
	}
	return r, nil
}

// Manifest describes the blob. It is not to be changed.
func (r *Reader) Manifest() *Manifest { return r.m }

// Read reads the stream. io.EOF means that all of it was read, and that it is
// what was written. See the package for other errors; they are final.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.unzip.Read(p)
	r.raw += int64(n)
	if r.raw > r.m.Raw {
		n, err = 0, r.damaged(fmt.Errorf("the stream has more than %d bytes", r.m.Raw))
	}
	r.sum.Write(p[:n])
	if err != nil {
		r.err = r.explain(err)
	}
	return n, r.err
}

// explain is the error for one of the decompression's.
func (r *Reader) explain(err error) error {
	switch {
	case r.src.err != nil && r.src.err != io.EOF: //nolint:errorlint // it is the source's own, unwrapped
		return r.src.err
	case errors.Is(err, ErrDamaged):
		return err
	case err != io.EOF: //nolint:errorlint // io.Reader's contract
		return r.damaged(err)
	case r.raw != r.m.Raw:
		return r.damaged(fmt.Errorf("the stream has %d bytes; expected %d", r.raw, r.m.Raw))
	case Sum(r.sum.Sum(nil)) != r.m.RawSum:
		return r.damaged(errors.New("checksum mismatch of the stream"))
	}
	return io.EOF
}

func (r *Reader) damaged(why error) error {
	return fmt.Errorf("read %q: %w: %w", r.m.Key, ErrDamaged, why)
}

// Close ends what is under way. It may be called at any point of the stream, and
// more than once.
func (r *Reader) Close() error {
	r.cancel()
	r.src.wg.Wait()
	r.unzip.Close()
	if r.err == nil {
		r.err = fmt.Errorf("read %q: %w", r.m.Key, errClosed)
	}
	return nil
}

// readAhead is how many parts are fetched beyond the one that is being read.
const readAhead = 2

// source is the compressed stream.
type source struct {
	ctx    context.Context
	bucket storage.Bucket
	prefix string
	parts  []Part

	started int            // parts whose fetch has begun
	ahead   []chan fetched // of those that were not taken yet, in order
	wg      sync.WaitGroup
	rest    []byte // of the part taken last
	err     error  // what Read has returned
}

type fetched struct {
	data []byte
	err  error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.rest, s.err = s.take()
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// take waits for the next part, and has others fetched meanwhile.
func (s *source) take() ([]byte, error) {
	s.fetchAhead()
	if len(s.ahead) == 0 {
		return nil, io.EOF
	}
	f := <-s.ahead[0]
	s.ahead = s.ahead[1:]
	s.fetchAhead()
	return f.data, f.err
}

func (s *source) fetchAhead() {
	for len(s.ahead) < readAhead && s.started < len(s.parts) {
		i, c := s.started, make(chan fetched, 1)
		s.wg.Go(func() {
			data, err := fetchPart(s.ctx, s.bucket, s.prefix, i, s.parts[i])
			c <- fetched{data, err}
		})
		s.ahead = append(s.ahead, c)
		s.started++
	}
}
