package archive

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/klauspost/compress/zstd"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// windowBytes is how far back in a frame repetitions are found. Encoders and
// readers take that much memory, and a tail is cut before it is much longer.
const windowBytes = 256 << 10

// blockBytes is how much the encoder collects before it compresses it unasked.
const blockBytes = 128 << 10

// lastBlock is an empty raw block with the mark of the last one: the end of a
// zstd frame (RFC 8878, 3.1.1.2).
const lastBlock = "\x01\x00\x00"

// Tail gathers the entries that are in no segment yet, and has them compressed
// at any moment at the cost of what is new since the last time: it is a single
// zstd frame whose encoder is only ever flushed, and which gets a last block in
// each copy that is given away. It is used by one goroutine at a time.
type Tail struct {
	run    queuefile.Run
	sum    hash.Hash // of the entries as framed
	enc    *zstd.Encoder
	frame  buffer // what the encoder has put out
	inside int    // bytes that the encoder holds back
	head   []byte
}

// buffer is a slice that can be written to.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// NewTail returns an empty tail, to which the first entry after that LSN is
// appended next.
func NewTail(after fsm.LSN) *Tail {
	return &Tail{run: queuefile.Run{After: after, Last: after}, sum: sha256.New()}
}

// ResumeTail returns a tail with the entries of t, which is that of a document,
// to go on from. They are all checked; an error wraps ErrDamaged.
func ResumeTail(t *queuefile.Tail) (*Tail, error) {
	own := NewTail(t.After)
	err := new(runReader).tail(t, func(e Entry) error { return own.Append(e) })
	if err != nil {
		return nil, err
	}
	return own, nil
}

// tail is read for the tail of a document.
func (r *runReader) tail(t *queuefile.Tail, fn func(Entry) error) error {
	sum := &t.Sum
	if t.Entries == 0 {
		sum = nil
	}
	if err := r.read(t.Data, &t.Run, sum, fn); err != nil {
		return &ObjectError{"", fmt.Errorf("its tail: %w: %w", ErrDamaged, err)}
	}
	return nil
}

// Append adds entries, whose LSNs rise and whose clocks do not fall. The tail
// keeps nothing of their memory. An entry that cannot follow is an error; those
// before it are in the tail.
func (t *Tail) Append(entries ...Entry) error {
	for i := range entries {
		if err := t.append(&entries[i]); err != nil {
			return fmt.Errorf("append to the tail: %w", err)
		}
	}
	return nil
}

func (t *Tail) append(e *Entry) error {
	if err := e.check(t.run.Last, t.run.Until); err != nil {
		return err
	}
	if t.enc == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	t.head = e.appendHead(t.head[:0])
	for _, p := range [][]byte{t.head, e.Data} {
		if _, err := t.enc.Write(p); err != nil {
			return err
		}
		t.sum.Write(p)
		t.run.Raw += int64(len(p))
		t.inside = (t.inside + len(p)) % blockBytes
	}
	if t.run.Entries == 0 {
		t.run.From = e.At
	}
	t.run.Entries++
	t.run.Last, t.run.Until = e.LSN, e.At
	return nil
}

// begin makes the encoder. Alone, it has no goroutine and needs no Close.
func (t *Tail) begin() (err error) {
	t.enc, err = zstd.NewWriter(&t.frame,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // the document and the segment have better sums
		zstd.WithWindowSize(windowBytes),
		zstd.WithLowerEncoderMem(true))
	return err
}

// Frame returns the entries so far. What it returns is not changed by a later
// Append.
func (t *Tail) Frame() queuefile.Tail {
	out := queuefile.Tail{Run: t.run}
	if t.run.Entries == 0 {
		return out
	}
	if err := t.enc.Flush(); err != nil {
		panic(fmt.Sprintf("archive: zstd cannot write to memory: %v", err))
	}
	t.inside = 0
	out.Data = make([]byte, 0, len(t.frame)+len(lastBlock))
	out.Data = append(append(out.Data, t.frame...), lastBlock...)
	t.sum.Sum(out.Sum[:0])
	return out
}

// Len is the number of entries.
func (t *Tail) Len() uint64 { return t.run.Entries }

// Raw is the number of bytes of the entries as they are framed.
func (t *Tail) Raw() int64 { return t.run.Raw }

// Run is the run of the entries so far.
func (t *Tail) Run() queuefile.Run { return t.run }

// Stored is the number of bytes of the Data that Frame returned, and takes what
// was appended since then as if it could not be compressed.
func (t *Tail) Stored() int {
	if t.run.Entries == 0 {
		return 0
	}
	return len(t.frame) + t.inside + len(lastBlock)
}
