package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"osqueue/fsm"
	"osqueue/storage"
)

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
