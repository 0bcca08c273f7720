package fsm

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/recordio"
)

// snapshotMagic is the first line of a snapshot, which is a stream of package recordio:
//
//	fsmpb.Meta, with the numbers of the records after it
//	fsmpb.Job, by status, then seq
//	fsmpb.Worker, by name
//	fsmpb.ClaimRecord, by first token
//	fsmpb.QueueSettings, by name
//	fsmpb.Limit, by name
//	fsmpb.ParkedLane, by type, group, then limits
//	fsmpb.Turn, by type, then group
//	fsmpb.Cron, by name
//	fsmpb.JobBatch, by id
//	fsmpb.Hold, by type, then key
//	fsmpb.RequestRecord, by time, then key
//	fsmpb.Token, by id
//	fsmpb.Figures, by type, the shared ones last
//	fsmpb.Hook, by name
//	fsmpb.HookEvent, by hook, then id
//	fsmpb.Artefact, by id
//
// The encoding of a state is unique, so equal states have equal hashes.
const snapshotMagic = "osqueue snapshot 1\n"

// ErrSnapshot is wrapped by the errors of Decode for a stream that is not a complete
// snapshot.
var ErrSnapshot = errors.New("snapshot cannot be used")

// Encode writes the snapshot of v.
func (v *View) Encode(w io.Writer) error {
	_, err := v.EncodeSum(w)
	return err
}

// EncodeSum is Encode, and returns the checksum of the state, which costs nothing then.
func (v *View) EncodeSum(w io.Writer) (StateSum, error) {
	sum, err := v.encode(recordio.NewWriter(w, snapshotMagic, encodeBuffer))
	return StateSum{v.LSN(), sum}, err
}

// Hash returns the sha-256 of the snapshot. Two states have the same hash only if they
// are equal.
func (v *View) Hash() [sha256.Size]byte {
	// io.Discard never fails and needs no buffer: to clear a large one takes longer than to hash a small state.
	sum, _ := v.encode(recordio.NewWriter(io.Discard, snapshotMagic, 1))
	return sum
}

// encodeBuffer is the number of bytes that Encode writes at a time.
const encodeBuffer = 64 << 10

func (v *View) encode(w *recordio.Writer) (sum [sha256.Size]byte, err error) {
	v.eachRecord(w.Record)
	if sum, err = w.End(); err != nil {
		return sum, fmt.Errorf("write snapshot: %w", err)
	}
	return sum, nil
}

// EncodedSize returns the number of bytes that Encode writes. It takes a small part of the time of
// Encode, because it neither copies nor hashes the records.
func (v *View) EncodedSize() int64 {
	size := recordio.Size(snapshotMagic)
	v.eachRecord(func(m recordio.Message) bool {
		size += recordio.SizeOf(m)
		return true
	})
	return size
}

// eachRecord calls fn for the records of the snapshot in their order, until fn returns false. A record
// is valid until fn returns.
func (v *View) eachRecord(fn func(recordio.Message) bool) {
	if !fn(v.metaRecord()) {
		return
	}
	var record fsmpb.Job
	v.jobs.Scan(func(j *Job) bool {
		job.ToRecord(j, &record)
		return fn(&record)
	})
	v.workers.Scan(func(w *Worker) bool { return fn(w) })
	v.claims.Scan(func(r *ClaimRecord) bool { return fn(r) })
	v.queues.Scan(func(q *QueueSettings) bool { return fn(q) })
	v.limits.Scan(func(l *Limit) bool { return fn(l) })
	v.parked.Scan(func(l *ParkedLane) bool { return fn(l) })
	v.turns.Scan(func(t *Turn) bool { return fn(t) })
	v.crons.Scan(func(c *Cron) bool { return fn(c) })
	v.batches.Scan(func(b *JobBatch) bool { return fn(b) })
	v.holds.Scan(func(h *Hold) bool { return fn(h) })
	v.requests.Scan(func(r *RequestRecord) bool { return fn(r) })
	v.tokens.Scan(func(t *Token) bool { return fn(t) })
	v.figures.Scan(func(f *Figures) bool { return fn(figures.Pack(f)) })
	v.Hooks(func(h *outbox.Hook) bool { return fn(h.Hook) })
	v.AllHookEvents(func(e *outbox.Event) bool { return fn(e) })
	v.AllArtefacts(func(a *Artefact) bool { return fn(a) })
}

// metaRecord returns the first record.
func (v *View) metaRecord() *fsmpb.Meta {
	m := fsmpb.Copy(v.meta)
	m.Records = &fsmpb.Records{
		Jobs:       uint64(v.jobs.Len()),
		Workers:    uint64(v.workers.Len()),
		Claims:     uint64(v.claims.Len()),
		Queues:     uint64(v.queues.Len()),
		Limits:     uint64(v.limits.Len()),
		Parked:     uint64(v.parked.Len()),
		Turns:      uint64(v.turns.Len()),
		Crons:      uint64(v.crons.Len()),
		Batches:    uint64(v.batches.Len()),
		Holds:      uint64(v.holds.Len()),
		Requests:   uint64(v.requests.Len()),
		Tokens:     uint64(v.tokens.Len()),
		Figures:    uint64(v.figures.Len()),
		Hooks:      uint64(v.HookCount()),
		HookEvents: uint64(v.HookEventCount()),
		Artefacts:  uint64(v.ArtefactCount()),
	}
	return m
}

// Decode reads a snapshot to its end and checks all of it before it returns
// the machine.
func Decode(r io.Reader) (*Machine, error) {
	m, err := decode(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return m, nil
}

func decode(r io.Reader) (*Machine, error) {
	in, err := recordio.NewReader(r, snapshotMagic)
	if errors.Is(err, recordio.ErrMagic) {
		err = errors.New("the first line names no snapshot version that this program knows; upgrade this node")
	}
	if err != nil {
		return nil, err
	}
	d, meta := recordReader{in}, new(fsmpb.Meta)
	if err := d.record(meta); err != nil {
		return nil, cmp.Or(checkLevel(meta.Level), err) // a newer level explains the unknown fields
	}
	if err := CheckMeta(meta); err != nil {
		return nil, err
	}
	n := meta.Records
	meta.Records = nil
	b := NewBuilder(meta)
	if err := d.records(b, n); err != nil {
		return nil, err
	}
	return b.Machine(), in.End()
}

// recordReader reads the records of a snapshot.
type recordReader struct{ *recordio.Reader }

func (d *recordReader) records(b *Builder, n *fsmpb.Records) error {
	steps := []func() error{
		func() error { return d.jobs(n.GetJobs(), b) },
		func() error { return records(d, n.GetWorkers(), asItIs, b.AddWorker) },
		func() error { return records(d, n.GetClaims(), asItIs, b.AddClaim) },
		func() error { return records(d, n.GetQueues(), asItIs, b.AddQueue) },
		func() error { return records(d, n.GetLimits(), asItIs, b.AddLimit) },
		func() error { return records(d, n.GetParked(), asItIs, b.AddLane) },
		func() error { return records(d, n.GetTurns(), asItIs, b.AddTurn) },
		func() error { return records(d, n.GetCrons(), asItIs, b.AddCron) },
		func() error { return records(d, n.GetBatches(), asItIs, b.AddBatch) },
		func() error { return records(d, n.GetHolds(), asItIs, b.AddHold) },
		func() error { return records(d, n.GetRequests(), asItIs, b.AddRequest) },
		func() error { return records(d, n.GetTokens(), asItIs, b.AddToken) },
		func() error { return records(d, n.GetFigures(), asItIs, b.addFiguresPB) },
		func() error { return records(d, n.GetHooks(), asItIs, b.addHook) },
		func() error { return records(d, n.GetHookEvents(), asItIs, b.addHookEvent) },
		func() error { return records(d, n.GetArtefacts(), asItIs, b.addArtefact) },
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
	for range n {
		m := P(new(M))
		if err := d.record(m); err != nil {
			return err
		}
		if err := add(from(m)); err != nil {
			return err
		}
	}
	return nil
}

// asItIs is for records that the machine keeps, or that the function that adds them can refuse.
func asItIs[M any](m *M) *M { return m }

type decodable interface {
	proto.Message
	Reset()
	UnmarshalVTUnsafe(data []byte) error
}

// record reads one message. Its strings share the memory of the record, which no other
// record uses.
func (d *recordReader) record(m decodable) error {
	data, err := d.Next(nil)
	if err != nil {
		return err
	}
	return decodeRecord(m, data)
}

// decodeRecord decodes a record to a message, which keeps the memory of the record.
func decodeRecord(m decodable, data []byte) error {
	m.Reset()
	if err := m.UnmarshalVTUnsafe(data); err != nil {
		return err
	}
	if fsmpb.HasUnknown(m) {
		return errUnknown
	}
	return nil
}
