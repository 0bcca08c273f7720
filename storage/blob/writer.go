package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"osqueue/storage"
)

const (
	defaultPartBytes = 8 << 20
	partMax          = 256 << 20 // far from what drivers take
	parallel         = 2         // parts that are uploaded at a time
)

// windowBytes is how far back the compression looks. Readers need as much memory.
const windowBytes = 4 << 20

// abortTimeout bounds Abort: who gives up is often wanted elsewhere, and the bucket is
// often the reason.
const abortTimeout = time.Second

// Writer writes one blob. It is used by one goroutine at a time, and must be
// ended by Close or Abort.
type Writer struct {
	ctx    context.Context
	cancel context.CancelFunc
	bucket storage.Bucket
	prefix string
	meta   []byte

	cut *cutter
	zip *zstd.Encoder
	sum hash.Hash
	raw int64

	err   error // of all that follows
	state state
}

type state int

const (
	open      state = iota
	closed          // without a manifest, for certain
	announced       // the manifest was sent
)

var errClosed = errors.New("the blob is closed")

// Create begins a blob under a prefix that was never used before. The prefix is part of
// object keys and has no slash at its end. partBytes is the size of all parts but the
// last, compressed; 0 is 8 MiB. A few parts are held in memory. Write and Close report all
// errors. The attempts to reach the store end only with ctx.
func Create(ctx context.Context, bucket storage.Bucket, prefix string, partBytes int) *Writer {
	w := &Writer{bucket: bucket, prefix: prefix, sum: sha256.New()}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if partBytes == 0 {
		partBytes = defaultPartBytes
	}
	err := storage.ValidateKey(ManifestKey(prefix))
	if partBytes < 0 || partBytes > partMax {
		err = fmt.Errorf("parts of %d bytes: at most %d bytes are allowed", partBytes, partMax)
	}
	if err != nil {
		w.err = w.fail(err)
		return w
	}
	w.cut = newCutter(w.ctx, bucket, prefix, partBytes)
	w.zip, err = zstd.NewWriter(w.cut,
		zstd.WithEncoderConcurrency(1), // or it would hold more, in goroutines
		zstd.WithWindowSize(windowBytes),
		zstd.WithEncoderLevel(zstd.SpeedFastest), // jobs get about as small
		zstd.WithEncoderCRC(false),               // there are better sums
		zstd.WithZeroFrames(true))
	w.err = w.fail(err)
	return w
}

// fail passes nil through.
func (w *Writer) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write blob %q: %w", w.prefix, err)
}

// Write adds to the stream. It waits while too much is under way. An error
// is final: what is left to do is Abort.
func (w *Writer) Write(p []byte) (int, error) {
	if w.state != open {
		return 0, w.fail(errClosed)
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.zip.Write(p)
	w.sum.Write(p[:n])
	w.raw += int64(n)
	w.err = w.fail(err)
	return n, w.err
}

// SetMeta sets JSON of the caller's that goes into the manifest. It may be called until Close.
func (w *Writer) SetMeta(data []byte) {
	meta := jsontext.Value(data).Clone()
	err := errors.New("the metadata for the manifest is not valid JSON: it must be UTF-8, and no name may occur twice")
	if meta.IsValid() {
		err = meta.Compact()
	}
	if w.meta = meta; w.err == nil {
		w.err = w.fail(err)
	}
}

// Close makes the blob out of what was written, by its manifest, and returns
// that: then it is certain to be there, whole. If it fails, the blob is not
// there, or, if the outcome of the last write is not known, may come to be;
// Abort knows what to do.
func (w *Writer) Close() (*Manifest, error) {
	if w.state != open {
		return nil, w.fail(errClosed)
	}
	w.state = closed
	if w.err == nil {
		w.err = w.fail(w.finishParts())
	}
	if w.err != nil {
		return nil, w.err
	}
	m := &Manifest{Key: ManifestKey(w.prefix), Raw: w.raw, RawSum: Sum(w.sum.Sum(nil)), Parts: w.cut.parts, Meta: w.meta}
	data, err := m.encode()
	if err == nil {
		err = context.Cause(w.ctx)
	}
	if err == nil {
		w.state = announced
		err = Put(w.ctx, w.bucket, m.Key, data)
	}
	if w.err = w.fail(err); w.err != nil {
		return nil, w.err
	}
	w.cancel()
	return m, nil
}

func (w *Writer) finishParts() error {
	err := w.zip.Close()
	if failed := w.cut.finish(); failed != nil {
		return failed
	}
	return err
}

// Abort gives the blob up: it ends the uploads and removes what they have
// written, as far as that is possible within a second. After Close has sent
// the manifest, successfully or not, Abort removes nothing. So it can be deferred.
// Nor does it if the prefix turned out to be in use.
func (w *Writer) Abort() {
	if w.state == open {
		w.state = closed
	}
	w.cancel()
	if w.cut == nil {
		return
	}
	failed := w.cut.group.Wait()
	if w.state == announced || errors.Is(failed, ErrTaken) { // or another blob's would be deleted
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	for i := range w.cut.parts {
		if w.bucket.Delete(ctx, partKey(w.prefix, i)) != nil {
			return
		}
	}
	w.cut.parts = nil
}

// cutter takes the compressed stream, cuts it into parts, and has them uploaded.
type cutter struct {
	ctx    context.Context // ends when an upload has failed; its cause says why
	bucket storage.Bucket
	prefix string
	size   int // of a part
	group  *errgroup.Group

	part  []byte // being filled
	parts []Part // handed over
}

func newCutter(ctx context.Context, bucket storage.Bucket, prefix string, partBytes int) *cutter {
	c := &cutter{bucket: bucket, prefix: prefix, size: partBytes}
	c.group, c.ctx = errgroup.WithContext(ctx)
	c.group.SetLimit(parallel)
	return c
}

// Write waits while too many parts are under way. It fails when one of them has.
func (c *cutter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), c.size-len(c.part))
		c.part = append(c.part, rest[:n]...)
		rest = rest[n:]
		if len(c.part) == c.size {
			if err := c.upload(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// upload hands the part over. Its memory is not used again: the store's client
// may still read from it when an attempt is given up.
func (c *cutter) upload() error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	data, key := c.part, partKey(c.prefix, len(c.parts))
	c.parts = append(c.parts, Part{Bytes: int64(len(data)), Sum: sha256.Sum256(data)})
	c.part = make([]byte, 0, c.size)
	c.group.Go(func() error { return Put(c.ctx, c.bucket, key, data) })
	return nil
}

// finish uploads the last part and waits until all are there.
func (c *cutter) finish() error {
	var err error
	if len(c.part) > 0 {
		err = c.upload()
	}
	if failed := c.group.Wait(); failed != nil {
		return failed
	}
	return err
}
