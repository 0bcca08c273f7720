package document

import (
	"fmt"
	"math"
	"slices"
	"time"

	"osqueue/fsm"
)

// Decode reads a document from any of its writers, by the rules in doc.go. An error wraps
// ErrFormat and gives the position in the document. The document shares no memory with
// data.
func Decode(data []byte) (*File, error) {
	doc, _, err := decodeFrom(ours, data)
	if err == nil {
		return doc, nil
	}
	// A document that this program would never write may come from another writer.
	for _, w := range []writer{original, overtaker} {
		doc, header, again := decodeFrom(w, data)
		switch {
		case again == nil && doc.writer() == w:
			return doc, nil
		case again != nil && !header && w == original:
			return nil, again
		}
	}
	return nil, err
}

// decodeFrom reads data as a document of writer w. header reports whether it found a
// header.
func decodeFrom(w writer, data []byte) (doc *File, header bool, err error) {
	d := &decoder{
		reader: newReader(data),
		writer: w,
		state:  state{Settings: fsm.DefaultSettings()},
	}
	d.loose = w == original
	doc, err = d.decode()
	if err == nil {
		doc.StateSum, doc.Edited = d.sums.stateSum(data)
	}
	return doc, d.seen["osqueue"], err
}

func (d *decoder) decode() (*File, error) {
	if err := d.objectAnd(d.top, &d.extra); err != nil {
		return nil, err
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	if d.isForeign() {
		return nil, fmt.Errorf("%w: this JSON is not a queue document: it has none of the fields jobs, broker, brokerHeartbeat "+
			"and completedTotal", ErrFormat)
	}
	return d.document()
}

// isForeign reports whether the document is of another kind: it has fields, and none that a
// broker writes. An object without fields is a queue to the legacy broker.
func (d *decoder) isForeign() bool {
	known := []string{"osqueue", "jobs", "broker", "brokerHeartbeat", "completedTotal"}
	return len(d.extra.members)+d.extra.lost > 0 && !slices.ContainsFunc(known, func(name string) bool { return d.seen[name] })
}

// decoder collects the fields of a document, in whatever order they come.
type decoder struct {
	*reader
	writer writer // the assumed writer

	doc            File
	extra          extras // unknown fields at the top
	header         Header
	state          state
	sums           sums
	completedTotal uint64
	waiting        []*fsm.Job // of the field jobs
	others         []*fsm.Job
	arc            Archive
	based          bool                     // arc has a checkpoint
	batches        map[string]*fsm.JobBatch // by id; nil until it is needed
	scratch        jobFields
}

// state is the field "state" of the header. A pointer that stays nil takes the value of the
// header.
type state struct {
	present             bool
	Now, LeasesFrom     int64
	LastSeq, Token      uint64
	LastTurn            uint64
	DeadTotal, TermBase uint64
	Level               uint64 // checked by readHeader
	CancelledTotal      uint64
	Announced           uint64
	Adopted             string
	Cluster, Lineage    *string
	Node, Address       *string
	Epoch               *uint64
	Settings            fsm.Settings
}

// top returns the destination of a field of the document.
func (d *decoder) top(name string) any {
	switch name {
	case "broker":
		return d.once(name, &d.doc.Broker)
	case "broker" + base64Suffix:
		return d.once(name, base64Field{dst: &d.doc.Broker})
	case "brokerHeartbeat":
		return d.once(name, &d.doc.BrokerHeartbeat)
	case "completedTotal":
		return d.once(name, &d.completedTotal)
	case "jobs":
		return d.once(name, func() error { return d.list(d.jobInto(&d.waiting, d.writer != ours)) })
	case "scheduled", "blocked", "finished", "dead":
		return d.once(name, func() error { return d.ownList(d.jobInto(&d.others, d.writer == original)) })
	case "osqueue":
		return d.once(name, d.readHeader)
	}
	item, read := d.beside(name), d.archiveMember(name)
	switch {
	case item == nil && read == nil:
		return nil
	case d.writer == original:
		return passed{&d.doc.Lost} // these fields belong to another program
	case item != nil:
		return d.once(name, func() error { return d.list(item) })
	default:
		return d.once(name, read)
	}
}

// isBeside reports whether a field at the top has a name of this package that the legacy
// broker does not know, and is not a list of jobs.
func (d *decoder) isBeside(name string) bool {
	return d.beside(name) != nil || d.archiveMember(name) != nil
}

// ownList is like list, but a loose reading skips a value that is not an array.
func (d *decoder) ownList(item func() error) error {
	if d.loose && d.dec.PeekKind() != '[' {
		return d.syntax(d.dec.SkipValue())
	}
	return d.list(item)
}

func (d *decoder) once(name string, dst any) any { return single{name, dst} }

func (d *decoder) readHeader() error {
	d.doc.Header = &d.header
	d.loose = false // a document with a header must be valid
	if err := d.object(d.headerMember); err != nil {
		return err
	}
	if f := d.header.Format; f < Format || f > FormatLarge {
		return fmt.Errorf("%w: the document has format %d, and this release reads only %d to %d: use the release that "+
			"wrote it",
			ErrFormat, f, Format, FormatLarge)
	}
	if level := d.state.Level; level > fsm.MaxLevel {
		return fmt.Errorf("%w: the document has feature level %d, and this release knows levels up to %d: use the release "+
			"that wrote it",
			ErrFormat, level, fsm.MaxLevel)
	}
	return nil
}

func (d *decoder) headerMember(name string) any {
	h := &d.header
	switch name {
	case "format":
		return &h.Format
	case "lineage":
		return &h.Lineage
	case "cluster":
		return &h.Cluster
	case "epoch":
		return &h.Epoch
	case "node":
		return &h.Node
	case "address":
		return &h.Address
	case "term":
		return &h.Term
	case "index":
		return &h.Index
	case "write":
		return &h.Write
	case "writes":
		return &h.Writes
	case "heartbeat":
		return &h.Heartbeat
	case "fence":
		return d.objectPart(fenceMember(d.reader, &h.Fence))
	case "handovers":
		return listPart(d.reader, &h.Handovers, handoverMember)
	case "state":
		return d.readState
	case "sums":
		return d.objectPart(d.sumsMember)
	}
	return nil
}

func fenceMember(r *reader, f *Fence) func(name string) any {
	ms := func(d *time.Duration) any {
		return func() error {
			var n int64
			err := r.number(&n)
			*d = time.Duration(min(max(n, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
			return err
		}
	}
	return func(name string) any {
		switch name {
		case "heartbeat":
			return ms(&f.Heartbeat)
		case "timeout":
			return ms(&f.Timeout)
		case "outage":
			return ms(&f.Outage)
		case "members":
			return listPart(r, &f.Members, memberMember)
		case "standbys":
			return &f.Standbys
		}
		return nil
	}
}

func memberMember(m *Member, name string) any {
	switch name {
	case "name":
		return &m.Name
	case "address":
		return &m.Address
	case "host":
		return &m.Host
	}
	return nil
}

func handoverMember(o *Handover, name string) any {
	switch name {
	case "cluster":
		return &o.Cluster
	case "epoch":
		return &o.Epoch
	case "term":
		return &o.Term
	case "index":
		return &o.Index
	case "lastSeq":
		return &o.LastSeq
	case "lastToken":
		return &o.Token
	case "now":
		return &o.Now
	}
	return nil
}

func (d *decoder) readState() error {
	d.state.present = true
	return d.object(d.stateMember)
}

func (d *decoder) stateMember(name string) any {
	s := &d.state
	switch name {
	case "now":
		return &s.Now
	case "leasesFrom":
		return &s.LeasesFrom
	case "lastSeq":
		return &s.LastSeq
	case "lastToken":
		return &s.Token
	case "lastTurn":
		return &s.LastTurn
	case "deadTotal":
		return &s.DeadTotal
	case "announced":
		return &s.Announced
	case "adopted":
		return &s.Adopted
	case "cancelledTotal":
		return &s.CancelledTotal
	case "termBase":
		return &s.TermBase
	case "level":
		return &s.Level
	case "cluster":
		return &s.Cluster
	case "lineage":
		return &s.Lineage
	case "node":
		return &s.Node
	case "address":
		return &s.Address
	case "epoch":
		return &s.Epoch
	case "settings":
		return func() error { return d.object(d.settingsMember) }
	}
	return nil
}

func (d *decoder) settingsMember(name string) any {
	s := &d.state.Settings
	switch name {
	case "maxAttempts":
		return &s.MaxAttempts
	case "leaseMs":
		return &s.LeaseMs
	case "workerTimeoutMs":
		return &s.WorkerTimeoutMs
	case "retainCompletedMs":
		return &s.RetainCompletedMs
	case "retainCompletedCount":
		return &s.RetainCompletedCount
	case "requestMs":
		return &s.RequestMs
	case "requestCount":
		return &s.RequestCount
	case "maxJobs":
		return &s.MaxJobs
	case "maxBytes":
		return &s.MaxBytes
	case "maxPayload":
		return &s.MaxPayload
	}
	return nil
}

// record returns a reader of one object of a list at the top. The object starts as a copy
// of first.
func record[T any](d *decoder, dst *[]*T, first T, member func(*T, string) any) func() error {
	return func() error {
		v := new(T)
		*v = first
		err := d.object(func(name string) any { return member(v, name) })
		*dst = append(*dst, v)
		return err
	}
}
