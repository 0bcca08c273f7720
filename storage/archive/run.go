package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"osqueue/fsm"
	"osqueue/storage"
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

// Entry is one entry of the log.
type Entry struct {
	LSN  fsm.LSN
	At   int64  // the machine's clock after it, ms
	Data []byte // the log entry, as fsm.EncodeEntry made it
}

// dataMax bounds the data of one entry, so that a reader of a damaged stream can refuse a
// larger one. Log entries are much smaller.
const dataMax = storage.MaxObjectBytes

// appendHead appends the head of an entry, which is followed by the data: four uvarints, which
// are its term, index, clock, and the length of the data.
func (e *Entry) appendHead(b []byte) []byte {
	b = binary.AppendUvarint(b, e.LSN.Term)
	b = binary.AppendUvarint(b, e.LSN.Index)
	b = binary.AppendUvarint(b, uint64(e.At))
	return binary.AppendUvarint(b, uint64(len(e.Data)))
}

// check refuses an entry that cannot stand in the log behind one at (last, at).
func (e *Entry) check(last fsm.LSN, at int64) error {
	switch {
	case e.LSN.Compare(last) <= 0:
		return fmt.Errorf("entry %s must be after %s", e.LSN, last)
	case e.At < 0 || e.At < at:
		return fmt.Errorf("the clock of entry %s is %d ms, below %d ms of the entry before", e.LSN, e.At, at)
	case len(e.Data) > dataMax:
		return fmt.Errorf("entry %s has %d bytes; at most %d are allowed", e.LSN, len(e.Data), dataMax)
	}
	return nil
}

var errVarint = errors.New("a number in the entry is damaged")

// entryReader reads entries as they are framed.
type entryReader struct {
	in  *bufio.Reader
	buf []byte
}

// next reads one entry, whose Data is valid until the next call. It returns
// io.EOF at the end, and only there.
func (r *entryReader) next() (Entry, error) {
	if _, err := r.in.Peek(1); err != nil {
		return Entry{}, err // io.EOF: nothing more begins here
	}
	var head [4]uint64
	for i := range head {
		var err error
		if head[i], err = r.uvarint(); err != nil {
			return Entry{}, err
		}
	}
	if head[2] > math.MaxInt64 || head[3] > dataMax {
		return Entry{}, errVarint
	}
	if err := r.take(int(head[3])); err != nil {
		return Entry{}, err
	}
	return Entry{LSN: fsm.LSN{Term: head[0], Index: head[1]}, At: int64(head[2]), Data: r.buf}, nil
}

// uvarint reads a number, in its only spelling.
func (r *entryReader) uvarint() (uint64, error) {
	b, err := r.in.Peek(binary.MaxVarintLen64) // near the end there is less
	x, n := binary.Uvarint(b)
	switch {
	case n == 0 && err != nil:
		return 0, cut(err)
	case n <= 0 || n > 1 && b[n-1] == 0:
		return 0, errVarint
	}
	_, err = r.in.Discard(n)
	return x, err
}

// take reads n bytes into buf. It does not trust n with memory before the bytes
// are there.
func (r *entryReader) take(n int) error {
	if n <= cap(r.buf) || n <= 1<<20 {
		if n > cap(r.buf) {
			r.buf = make([]byte, n, max(n, 2*cap(r.buf)))
		}
		r.buf = r.buf[:n]
		_, err := io.ReadFull(r.in, r.buf)
		return cut(err)
	}
	var large bytes.Buffer
	_, err := io.CopyN(&large, r.in, int64(n))
	r.buf = large.Bytes()
	return cut(err)
}

// cut turns the end of a stream where it cannot end into another error.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
