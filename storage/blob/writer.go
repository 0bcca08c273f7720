package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/klauspost/compress/zstd"

	"osqueue/storage"
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
// object keys and has no slash at its end. Write and Close report all errors. The
// attempts to reach the store end only with ctx.
func Create(ctx context.Context, bucket storage.Bucket, prefix string, o Options) *Writer {
	w := &Writer{bucket: bucket, prefix: prefix, sum: sha256.New()}
	w.ctx, w.cancel = context.WithCancel(ctx)
	o, err := o.normal()
	if err == nil {
		err = storage.ValidateKey(ManifestKey(prefix))
	}
	if err != nil {
		w.err = w.fail(err)
		return w
	}
	w.meta = o.Meta
	w.cut = newCutter(w.ctx, bucket, prefix, &o)
	w.zip, err = zstd.NewWriter(w.cut,
		zstd.WithEncoderConcurrency(1), // or it would hold more, in goroutines
		zstd.WithEncoderLevel(o.Level),
		zstd.WithWindowSize(windowBytes),
		zstd.WithEncoderCRC(false), // there are better sums
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

// SetMeta replaces Options.Meta, for a caller that knows it only after it has written the
// stream.
func (w *Writer) SetMeta(meta []byte) {
	compact, err := compactMeta(meta)
	if w.meta = compact; w.err == nil {
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
		err = put(w.ctx, w.bucket, m.Key, data)
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
