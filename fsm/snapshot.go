package fsm

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"osqueue/fsm/fsmpb"
)

// snapshotMagic is the first line of a snapshot. A snapshot is a stream, so that writer
// and reader hold one record at a time:
//
//	"osqueue snapshot 1\n"
//	length (uvarint) + fsmpb.Meta, with the numbers of the records after it
//	length + fsmpb.Job, by status, then seq
//	length + fsmpb.Worker, by name
//	length + fsmpb.ClaimRecord, by first token
//	length + fsmpb.Queue, by name
//	length + fsmpb.Turn, by type, then group
//	length + fsmpb.Cron, by name
//	length + fsmpb.JobBatch, by id
//	length + fsmpb.Hold, by type, then key
//	length + fsmpb.RequestRecord, by time, then key
//	length + fsmpb.Token, by id
//	length + fsmpb.Figures, by type, the shared ones last
//	length + fsmpb.Hook, by name
//	length + fsmpb.HookEvent, by hook, then id
//	sha-256 of everything before
//
// The encoding of a state is unique, so equal states have equal hashes.
const snapshotMagic = "osqueue snapshot 1\n"

// recordMax is the largest size of a record, in bytes, so that the reader of a damaged
// stream recognises an impossible length.
const recordMax = 64 << 20

// ErrSnapshot is wrapped by the errors of Decode for a stream that is not a complete
// snapshot.
var ErrSnapshot = errors.New("snapshot cannot be used")

// Encode writes the snapshot of v.
func (v *View) Encode(w io.Writer) error {
	_, err := v.encode(bufio.NewWriterSize(w, encodeBuffer))
	return err
}

// EncodeSum is Encode, and returns the checksum of the state, which costs nothing then.
func (v *View) EncodeSum(w io.Writer) (StateSum, error) {
	sum, err := v.encode(bufio.NewWriterSize(w, encodeBuffer))
	return StateSum{v.LSN(), sum}, err
}

// Hash returns the sha-256 of the snapshot. Two states have the same hash only if they
// are equal.
func (v *View) Hash() [sha256.Size]byte {
	// io.Discard never fails and needs no buffer: to clear a large one takes longer than to hash a small state.
	sum, _ := v.encode(bufio.NewWriterSize(io.Discard, 1))
	return sum
}

// encodeBuffer is the number of bytes that Encode writes at a time.
const encodeBuffer = 64 << 10

func (v *View) encode(w *bufio.Writer) (sum [sha256.Size]byte, err error) {
	e := recordWriter{sum: sha256.New(), buf: w}
	e.raw([]byte(snapshotMagic))
	v.eachRecord(e.record)
	e.sum.Sum(sum[:0])
	e.raw(sum[:])
	if e.err == nil {
		e.err = e.buf.Flush()
	}
	if e.err != nil {
		return sum, fmt.Errorf("write snapshot: %w", e.err)
	}
	return sum, nil
}

// EncodedSize returns the number of bytes that Encode writes. It takes a small part of the time of
// Encode, because it neither copies nor hashes the records.
func (v *View) EncodedSize() int64 {
	size := int64(len(snapshotMagic) + sha256.Size)
	v.eachRecord(func(m message) bool {
		n := m.SizeVT()
		size += int64(protowire.SizeBytes(n))
		return true
	})
	return size
}

// eachRecord calls fn for the records of the snapshot in their order, until fn returns false. A record
// is valid until fn returns.
func (v *View) eachRecord(fn func(message) bool) {
	if !fn(v.metaToPB()) {
		return
	}
	var job fsmpb.Job
	v.jobs.Scan(func(j *Job) bool {
		jobToPB(j, &job)
		return fn(&job)
	})
	v.workers.Scan(func(w *Worker) bool { return fn(workerToPB(w)) })
	v.claims.Scan(func(r *ClaimRecord) bool { return fn(claimToPB(r)) })
	v.queues.Scan(func(q *QueueSettings) bool { return fn(queueToPB(q)) })
	v.turns.Scan(func(t *Turn) bool { return fn(&fsmpb.Turn{Type: t.Type, Group: t.Group, Turn: t.Turn}) })
	v.crons.Scan(func(c *Cron) bool { return fn(cronToPB(c)) })
	v.batches.Scan(func(b *JobBatch) bool { return fn(batchToPB(b)) })
	v.holds.Scan(func(h *Hold) bool { return fn(holdToPB(h)) })
	v.requests.Scan(func(r *RequestRecord) bool { return fn(requestToPB(r)) })
	v.tokens.Scan(func(t *Token) bool { return fn(tokenToPB(t)) })
	v.figures.Scan(func(f *Figures) bool { return fn(figuresToPB(f)) })
	v.hooks.Scan(func(h *Hook) bool { return fn(hookToPB(h)) })
	v.outbox.Scan(func(h *HookEvent) bool { return fn(hookEventToPB(h)) })
}

// message is the interface of the generated records that snapshots need.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT(buf []byte) (int, error)
}

type recordWriter struct {
	buf     *bufio.Writer
	sum     hash.Hash
	scratch []byte
	err     error
}

func (e *recordWriter) raw(p []byte) {
	if e.err != nil {
		return
	}
	e.sum.Write(p)
	_, e.err = e.buf.Write(p)
}

// record writes one framed message and reports whether to continue.
func (e *recordWriter) record(m message) bool {
	size := m.SizeVT()
	if size > recordMax && e.err == nil { // Decode could not read it
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

// Decode reads a snapshot to its end and checks all of it before it returns
// the machine.
func Decode(r io.Reader) (*Machine, error) {
	d := recordReader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	m, err := d.machine()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return m, nil
}

type recordReader struct {
	in  *bufio.Reader
	sum hash.Hash
}

func (d *recordReader) machine() (*Machine, error) {
	magic, err := d.take(nil, len(snapshotMagic))
	if err != nil {
		return nil, fmt.Errorf("the snapshot is truncated: %w", err)
	}
	if string(magic) != snapshotMagic {
		return nil, errors.New("the first line names no snapshot version that this program knows; upgrade this node")
	}
	d.sum.Write(magic)
	p := new(fsmpb.Meta)
	if err := d.record(p); err != nil {
		return nil, cmp.Or(checkLevel(p.Level), err) // a newer level explains the unknown fields
	}
	meta := metaFromPB(p)
	if err := meta.Check(); err != nil {
		return nil, err
	}
	b := NewBuilder(meta)
	if err := d.records(b, p); err != nil {
		return nil, err
	}
	return b.Machine(), d.trailer()
}

func (d *recordReader) records(b *Builder, meta *fsmpb.Meta) error {
	steps := []func() error{
		func() error { return d.jobs(meta.Jobs, b) },
		func() error { return records(d, meta.Workers, workerFromPB, b.AddWorker) },
		func() error { return records(d, meta.Claims, claimFromPB, b.AddClaim) },
		func() error { return records(d, meta.Queues, queueFromPB, b.AddQueue) },
		func() error { return records(d, meta.Turns, turnFromPB, b.AddTurn) },
		func() error { return records(d, meta.Crons, cronFromPB, b.AddCron) },
		func() error { return records(d, meta.Batches, batchFromPB, b.AddBatch) },
		func() error { return records(d, meta.Holds, holdFromPB, b.AddHold) },
		func() error { return records(d, meta.Requests, requestFromPB, b.AddRequest) },
		func() error { return records(d, meta.Tokens, tokenFromPB, b.AddToken) },
		func() error { return records(d, meta.Figures, samePB, b.addFiguresPB) },
		func() error { return records(d, meta.Hooks, hookFromPB, b.AddHook) },
		func() error { return records(d, meta.HookEvents, hookEventFromPB, b.AddHookEvent) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// records reads n messages of type M and adds what they stand for.
func records[M any, P interface {
	*M
	decodable
}, T any](d *recordReader, n uint64, from func(P) T, add func(T) error) error {
	var m M
	for range n {
		if err := d.record(P(&m)); err != nil {
			return err
		}
		if err := add(from(&m)); err != nil {
			return err
		}
	}
	return nil
}

type decodable interface {
	Reset()
	UnmarshalVTUnsafe(data []byte) error
	HasUnknown() bool
}

// record reads one message. Its strings share the memory of the record, which no other
// record uses.
func (d *recordReader) record(m decodable) error {
	data, err := d.read(nil)
	if err != nil {
		return err
	}
	return decodeRecord(m, data)
}

// read appends one record to buf.
func (d *recordReader) read(buf []byte) ([]byte, error) {
	size, err := d.size()
	if err != nil {
		return nil, err
	}
	data, err := d.take(buf, size)
	if err != nil {
		return nil, fmt.Errorf("the snapshot is truncated: %w", err)
	}
	d.sum.Write(data[len(buf):])
	return data, nil
}

// decodeRecord decodes a record to a message, which keeps the memory of the record.
func decodeRecord(m decodable, data []byte) error {
	m.Reset()
	if err := m.UnmarshalVTUnsafe(data); err != nil {
		return err
	}
	if m.HasUnknown() {
		return errUnknown
	}
	return nil
}

// size reads the length of a record.
func (d *recordReader) size() (int, error) {
	head, err := d.in.Peek(binary.MaxVarintLen64) // near the end it returns fewer bytes
	size, n := binary.Uvarint(head)
	switch {
	case n <= 0 && err != nil:
		return 0, fmt.Errorf("the snapshot is truncated: %w", err)
	case n <= 0 || size > recordMax:
		return 0, errors.New("a record has an invalid length")
	}
	d.sum.Write(head[:n])
	_, err = d.in.Discard(n)
	return int(size), err
}

// take appends the next n bytes to buf. It allocates memory only for bytes that have arrived,
// because n may be damaged.
func (d *recordReader) take(buf []byte, n int) ([]byte, error) {
	const step = 1 << 20
	for n > 0 {
		part := min(n, step)
		from := len(buf)
		buf = slices.Grow(buf, part)[:from+part]
		if _, err := io.ReadFull(d.in, buf[from:]); err != nil {
			return nil, err
		}
		n -= part
	}
	return buf, nil
}

func (d *recordReader) trailer() error {
	var stored, sum [sha256.Size]byte
	d.sum.Sum(sum[:0])
	if _, err := io.ReadFull(d.in, stored[:]); err != nil {
		return fmt.Errorf("the snapshot is truncated: %w", err)
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
