package archive

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/klauspost/compress/zstd"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// windowBytes is the zstd window, the distance over which repetitions are found. Encoders and
// readers allocate that much memory, and a tail is sealed before it is much longer.
const windowBytes = 256 << 10

// blockBytes is the amount of data after which the encoder compresses without a flush.
const blockBytes = 128 << 10

// lastBlock is an empty raw block that is marked as the last one. It ends a zstd frame (RFC
// 8878, 3.1.1.2).
const lastBlock = "\x01\x00\x00"

// Tail collects the entries that are in no segment yet, and compresses them at the cost of the
// entries since the last time. It is a single zstd frame. Its encoder is only flushed and never
// closed, and Frame appends a last block to each copy that it returns. A Tail must be used by
// one goroutine at a time.
type Tail struct {
	run    document.Run
	sum    hash.Hash // of the entries as framed
	enc    *zstd.Encoder
	frame  buffer // the encoder's output
	inside int    // bytes that the encoder holds back
	head   []byte
}

// buffer is a slice that implements io.Writer.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// NewTail returns an empty tail. The next entry to append is the first one after the LSN.
func NewTail(after fsm.LSN) *Tail {
	return &Tail{run: document.Run{After: after, Last: after}, sum: sha256.New()}
}

// ResumeTail returns a tail that begins with the entries of t, the tail of a document. It
// checks all of them; the error wraps ErrDamaged.
func ResumeTail(t *document.Tail) (*Tail, error) {
	own := NewTail(t.After)
	err := new(runReader).tail(t, func(e Entry) error { return own.Append(e) })
	if err != nil {
		return nil, err
	}
	return own, nil
}

// tail calls fn for the entries in the tail of a document.
func (r *runReader) tail(t *document.Tail, fn func(Entry) error) error {
	sum := &t.Sum
	if t.Entries == 0 {
		sum = nil
	}
	if err := r.read(t.Data, &t.Run, sum, fn); err != nil {
		return &ObjectError{"", fmt.Errorf("the tail of the document: %w: %w", ErrDamaged, err)}
	}
	return nil
}

// Append adds entries, whose LSNs must rise and whose clocks must not fall. The tail copies
// them. If an entry cannot follow the one before it, Append returns an error; the entries
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

// begin makes the encoder. With concurrency 1 it has no goroutine and needs no Close.
func (t *Tail) begin() (err error) {
	t.enc, err = zstd.NewWriter(&t.frame,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // the document and the segment have better sums
		zstd.WithWindowSize(windowBytes),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
	return err
}

// Frame returns the entries so far. A later Append does not change the returned value.
func (t *Tail) Frame() document.Tail {
	out := document.Tail{Run: t.run}
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

// Len returns the number of entries.
func (t *Tail) Len() uint64 { return t.run.Entries }

// Raw returns the number of bytes of the framed entries before compression.
func (t *Tail) Raw() int64 { return t.run.Raw }

// Run returns the run of the entries so far.
func (t *Tail) Run() document.Run { return t.run }

// Stored returns the number of bytes of the Data that Frame last returned, and adds the entries
// since then at their uncompressed size.
func (t *Tail) Stored() int {
	if t.run.Entries == 0 {
		return 0
	}
	return len(t.frame) + t.inside + len(lastBlock)
}
