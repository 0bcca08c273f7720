package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
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
	if !strings.HasSuffix(manifestKey, manifestName) {
		return nil, fmt.Errorf("%w: %q is not the key of a manifest, which ends in %s", storage.ErrInvalidKey, manifestKey, manifestName)
	}
	m, err := Stat(ctx, bucket, manifestKey, want)
	if err != nil {
		return nil, err
	}
	r := &Reader{m: m, sum: sha256.New()}
	ctx, r.cancel = context.WithCancel(ctx)
	r.src = newSource(ctx, bucket, m)
	r.unzip, err = zstd.NewReader(r.src,
		zstd.WithDecoderConcurrency(1), // in the caller's goroutine
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(windowMax))
	if err != nil {
		r.cancel()
		r.src.stop()
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
	r.src.stop()
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
	next func() ([]byte, error, bool) // the next part
	stop func()
	rest []byte // of the part taken last
	err  error  // what Read has returned
}

func newSource(ctx context.Context, bucket storage.Bucket, m *Manifest) *source {
	numbers := make([]int, len(m.Parts))
	for i := range numbers {
		numbers[i] = i
	}
	s := &source{}
	s.next, s.stop = iter.Pull2(Ahead(ctx, readAhead, numbers, func(ctx context.Context, i int) ([]byte, error) {
		return m.part(ctx, bucket, i)
	}))
	return s
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		data, err, ok := s.next()
		if !ok {
			err = io.EOF
		}
		s.rest, s.err = data, err
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Ahead yields get's result for each item, in order, and calls get for the next count items
// meanwhile. When the loop ends, Ahead cancels the calls in flight and waits for them.
func Ahead[T, R any](ctx context.Context, count int, items []T, get func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	type result struct {
		value R
		err   error
	}
	return func(yield func(R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		var waiting []chan result // oldest first
		start := func() {
			out, item := make(chan result, 1), items[0]
			items, waiting = items[1:], append(waiting, out)
			running.Go(func() {
				value, err := get(ctx, item)
				out <- result{value, err}
			})
		}
		for len(items) > 0 || len(waiting) > 0 {
			for len(items) > 0 && len(waiting) <= count {
				start()
			}
			r := <-waiting[0]
			waiting = waiting[1:]
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}
