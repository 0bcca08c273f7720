package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// ErrDamaged is wrapped by the error for an object, or a part of a document, that is missing or
// differs from what was written. The text names the object.
var ErrDamaged = errors.New("the archive is damaged")

// windowMax bounds the memory that a frame may request from a reader. Frames of this package
// use windowBytes.
const windowMax = 8 << 20

// runReader reads the entries of one run after another. The zero value is ready to use and
// needs no Close. It must not be shared between goroutines, nor kept for longer than a task:
// the decoder has a channel, which must not be used in the synctest bubbles of two tests.
type runReader struct {
	dec     *zstd.Decoder
	limited io.LimitedReader
	entries entryReader
}

// begin makes a frame the next one to read, and bounds its size.
func (r *runReader) begin(frame []byte, most int64) (err error) {
	if r.dec == nil {
		r.dec, err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1), // in the caller's goroutine
			zstd.WithDecoderLowmem(true),
			zstd.WithDecodeBuffersBelow(0), // or the limit came too late
			zstd.WithDecoderMaxWindow(windowMax))
		if err != nil {
			return err
		}
		r.entries.in = bufio.NewReaderSize(nil, 32<<10)
	}
	r.limited = io.LimitedReader{R: r.dec, N: most}
	return r.dec.Reset(bytes.NewReader(frame))
}

// errStop ends a read without an error.
var errStop = errors.New("stop")

// read calls fn for the entries of a run, in order. The run is a zstd frame. read compares the
// entries with the fields of the run, and with sum unless it is nil, but only at the end:
// before read has returned nil, the entries that fn got are ordered but not verified. The
// entry's Data, and all slices that share its memory, are valid until fn returns. If fn returns
// errStop, read stops.
func (r *runReader) read(frame []byte, run *document.Run, sum *document.Sum, fn func(Entry) error) error {
	if len(frame) == 0 {
		return checkEmpty(run)
	}
	// One byte more than expected is enough to detect trailing data.
	if err := r.begin(frame, run.Raw+1); err != nil {
		return err
	}
	c := runCheck{run: run, last: run.After}
	r.entries.in.Reset(&r.limited)
	if sum != nil {
		c.sum = sha256.New()
		r.entries.in.Reset(io.TeeReader(&r.limited, c.sum))
	}
	for {
		e, err := r.entries.next()
		if errors.Is(err, io.EOF) {
			return c.end(run.Raw+1-r.limited.N, sum)
		}
		if err == nil {
			err = c.next(&e)
		}
		if err == nil {
			err = fn(e)
		}
		switch {
		case errors.Is(err, errStop) && sum == nil:
			return nil
		case errors.Is(err, errStop):
			fn = func(Entry) error { return nil } // the sum is at the end
		case err != nil:
			return err
		}
	}
}

func checkEmpty(run *document.Run) error {
	if run.Entries != 0 || run.Raw != 0 || run.Last != run.After {
		return fmt.Errorf("no entries; expected %d", run.Entries)
	}
	return nil
}

// runCheck compares the entries of a run with its fields.
type runCheck struct {
	run     *document.Run
	sum     hash.Hash // of the read entries; nil: not requested
	last    fsm.LSN
	at      int64
	entries uint64
}

func (c *runCheck) next(e *Entry) error {
	if err := e.check(c.last, c.at); err != nil {
		return err
	}
	if c.entries == 0 && e.At != c.run.From {
		return fmt.Errorf("the first entry is of %d ms; expected %d ms", e.At, c.run.From)
	}
	c.last, c.at = e.LSN, e.At
	c.entries++
	return nil
}

func (c *runCheck) end(raw int64, sum *document.Sum) error {
	switch {
	case raw != c.run.Raw:
		return fmt.Errorf("at least %d bytes of entries; expected %d", raw, c.run.Raw)
	case c.entries != c.run.Entries || c.last != c.run.Last || c.at != c.run.Until:
		return fmt.Errorf("%d entries up to %s at %d ms; expected %d up to %s at %d ms",
			c.entries, c.last, c.at, c.run.Entries, c.run.Last, c.run.Until)
	case sum != nil && *sum != document.Sum(c.sum.Sum(nil)):
		return errors.New("checksum mismatch of the entries")
	}
	return nil
}
