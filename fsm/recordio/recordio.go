// Package recordio writes and reads a stream of records with a checksum, such as a snapshot:
//
//	magic, the first line
//	length (uvarint) + record, any number of times
//	sha-256 of everything before
//
// Writer and reader hold one record at a time.
package recordio

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// RecordMax is the largest size of a record, in bytes, so that the reader of a damaged
// stream recognises an impossible length.
const RecordMax = 64 << 20

// Message is the interface of the generated records.
type Message interface {
	SizeVT() int
	MarshalToSizedBufferVT(buf []byte) (int, error)
}

// Size returns the number of bytes of a stream without records.
func Size(magic string) int64 { return int64(len(magic) + sha256.Size) }

// SizeOf returns the number of bytes that a record takes in a stream.
func SizeOf(m Message) int64 { return int64(protowire.SizeBytes(m.SizeVT())) }

// Writer writes a stream. Make one with NewWriter.
type Writer struct {
	buf     *bufio.Writer
	sum     hash.Hash
	scratch []byte
	err     error
}

// NewWriter begins a stream, which it writes in parts of at least buffer bytes.
func NewWriter(w io.Writer, magic string, buffer int) *Writer {
	e := &Writer{buf: bufio.NewWriterSize(w, buffer), sum: sha256.New()}
	e.raw([]byte(magic))
	return e
}

func (e *Writer) raw(p []byte) {
	if e.err != nil {
		return
	}
	e.sum.Write(p)
	_, e.err = e.buf.Write(p)
}

// Record writes one record, and reports whether to continue.
func (e *Writer) Record(m Message) bool {
	size := m.SizeVT()
	if size > RecordMax && e.err == nil { // a Reader could not read it
		e.err = fmt.Errorf("a record of %d bytes is too large", size)
	}
	if e.err != nil {
		return false
	}
	head := binary.AppendUvarint(e.scratch[:0], uint64(size))
	need := len(head) + size
	if cap(head) < need {
		head = append(make([]byte, 0, need*2), head...)
	}
	e.scratch = head[:need]
	if _, e.err = m.MarshalToSizedBufferVT(e.scratch[len(head):]); e.err == nil {
		e.raw(e.scratch)
	}
	return e.err == nil
}

// End ends the stream. It returns its checksum, and the first error.
func (e *Writer) End() (sum [sha256.Size]byte, err error) {
	e.sum.Sum(sum[:0])
	e.raw(sum[:])
	if e.err == nil {
		e.err = e.buf.Flush()
	}
	return sum, e.err
}

// ErrMagic is the error for a stream with another first line.
var ErrMagic = errors.New("the first line is not the one of this kind of stream")

// Reader reads a stream. Make one with NewReader.
type Reader struct {
	in  *bufio.Reader
	sum hash.Hash
}

// NewReader reads the beginning of a stream.
func NewReader(r io.Reader, magic string) (*Reader, error) {
	d := &Reader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	first, err := d.take(nil, len(magic))
	if err == nil && string(first) != magic {
		return nil, ErrMagic
	}
	return d, err
}

// Next appends the next record to buf.
func (d *Reader) Next(buf []byte) ([]byte, error) {
	size, err := d.size()
	if err != nil {
		return nil, err
	}
	return d.take(buf, size)
}

// size reads the length of a record.
func (d *Reader) size() (int, error) {
	head, err := d.in.Peek(binary.MaxVarintLen64) // near the end it returns fewer bytes
	size, n := binary.Uvarint(head)
	switch {
	case n <= 0 && err != nil:
		return 0, truncated(err)
	case n <= 0 || size > RecordMax:
		return 0, errors.New("a record has an invalid length")
	}
	d.sum.Write(head[:n])
	_, err = d.in.Discard(n)
	return int(size), err
}

// take appends the next n bytes to buf. It allocates memory only for bytes that have arrived,
// because n may be damaged.
func (d *Reader) take(buf []byte, n int) ([]byte, error) {
	const step = 1 << 20
	begin := len(buf)
	for n > 0 {
		part := min(n, step)
		from := len(buf)
		buf = slices.Grow(buf, part)[:from+part]
		if _, err := io.ReadFull(d.in, buf[from:]); err != nil {
			return nil, truncated(err)
		}
		n -= part
	}
	d.sum.Write(buf[begin:])
	return buf, nil
}

// End checks the checksum, and that the stream ends after it.
func (d *Reader) End() error {
	var stored, sum [sha256.Size]byte
	d.sum.Sum(sum[:0])
	if _, err := io.ReadFull(d.in, stored[:]); err != nil {
		return truncated(err)
	}
	if stored != sum {
		return errors.New("checksum mismatch")
	}
	_, err := d.in.ReadByte()
	switch {
	case err == nil:
		return errors.New("trailing data")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

func truncated(err error) error { return fmt.Errorf("it is truncated: %w", err) }
