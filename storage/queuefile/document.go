package queuefile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"osqueue/fsm"
)

// The format numbers of the documents that this version writes and reads.
const (
	Format      = 1 // the state is inline
	FormatLarge = 2 // an archive is in its place

	// formatLevel is added for a state above fsm.BaseLevel, so that versions that
	// know no levels refuse the document. Its level stands in the header.
	formatLevel = 2

	FormatMax = FormatLarge + formatLevel // the newest that this version reads
)

// IsLarge reports whether a document of that format has an archive in place of the state.
func IsLarge(format int) bool { return format == FormatLarge || format == FormatLarge+formatLevel }

// Header is our own part of the document: who wrote this version, in which
// place of the lineage's history.
type Header struct {
	Format  int
	Lineage string // made with the document, kept for ever
	Cluster string // of the writer
	Epoch   uint64 // fencing number, +1 at each takeover
	Node    string // of the writer
	Address string // of the writer; what broker was when the header was written
	Term    uint64 // with Index: the log entry that the document is the state after
	Index   uint64
	Write   string   // id of this PUT
	Writes  []string // ids of the last PUTs, oldest first, this one included
	// Heartbeat is brokerHeartbeat as it was when the header was written, ms.
	Heartbeat int64
	// Next is the time in which the writer promises its next heartbeat, ms. 0: it promises
	// none, and writes well within the broker timeout.
	Next int64
	// Handovers says where the parts of the history end that other clusters wrote, oldest
	// first: at most HandoversMax, and one for each cluster.
	Handovers []Handover
}

// HandoversMax is how many handovers a document carries.
const HandoversMax = 16

// Handover is the last point of a cluster's history that a document contains: another
// cluster took the document over there. What the first cluster acknowledged after it, the
// document does not have.
type Handover struct {
	Cluster string // that had the document
	Epoch   uint64 // of its last leader in the document
	Term    uint64 // with Index: the entry that the document was the state after
	Index   uint64
	LastSeq uint64 // of the youngest job
	Token   uint64 // the last fencing token given
	Now     int64  // the queue's time, ms
}

// LSN is the entry that the document was the state after.
func (o *Handover) LSN() fsm.LSN { return fsm.LSN{Term: o.Term, Index: o.Index} }

// Handover returns the last point of a cluster's history that the document contains.
func (h *Header) Handover(cluster string) (Handover, bool) {
	for _, o := range h.Handovers {
		if o.Cluster == cluster {
			return o, true
		}
	}
	return Handover{}, false
}

// HandedOver returns the handovers of the document once a cluster has taken it over.
func (d *Document) HandedOver(to string) []Handover {
	h := d.Header
	if h == nil {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(h.Handovers), func(o Handover) bool { return o.Cluster == to || o.Cluster == h.Cluster })
	if h.Cluster != "" && h.Cluster != to && d.OurSeq != math.MaxUint64 {
		list = append(list, Handover{
			Cluster: h.Cluster, Epoch: h.Epoch, Term: h.Term, Index: h.Index,
			LastSeq: d.OurSeq, Token: d.Meta.Token, Now: d.Meta.Now,
		})
	}
	return list[max(0, len(list)-HandoversMax):]
}

// NextMax is the longest time in which a next heartbeat can be promised. A longer promise
// counts as one of so long.
const NextMax = 5 * time.Minute

// Promise returns the time in which the document's broker promises its next heartbeat, or
// 0 if it promises none. The broker counts as alive for the broker timeout beyond it.
func (d *Document) Promise() time.Duration {
	if d == nil || d.Header == nil || d.Overtaken {
		return 0
	}
	ms := min(max(d.Header.Next, 0), NextMax.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}

// LSN is the log entry that the document is the state after.
func (h *Header) LSN() fsm.LSN { return fsm.LSN{Term: h.Term, Index: h.Index} }

// Document is a decoded queue.json. Its fields may be edited before Machine.
type Document struct {
	Broker          *string // nil: no broker has registered
	BrokerHeartbeat int64   // ms
	// Header is nil in a document that only original brokers have written.
	Header *Header
	// Overtaken says that an original broker, or a person, has registered
	// another broker or heartbeat since the header was written.
	Overtaken bool
	// OurSeq is the place of the youngest job that there was when the header was
	// written; math.MaxUint64 if that is not known.
	OurSeq uint64
	// Large says that the state is not in the document: it is what the archive
	// reaches. Then Jobs are jobs that somebody has added, which are to be
	// enqueued, and the lists behind it are empty.
	Large bool
	// Lost is how many members that are not ours, or jobs with such, cannot be kept:
	// they are past fsm.ExtraMax, or named like ones of ours.
	Lost int

	Meta    fsm.Meta
	Counts  fsm.Counts // of a large document as its writer gave them
	Archive *Archive   // of which an inline document is the state or a later one; nil: none
	Jobs    []*fsm.Job // of all statuses; those that wait or run come first, in order
	given   []uint64   // the places of Jobs as they were read; 0: none
	Workers []*fsm.Worker
	Claims  []*fsm.ClaimRecord

	Queues   []*fsm.QueueSettings
	Turns    []*fsm.Turn
	Crons    []*fsm.Cron
	Batches  []*fsm.JobBatch
	Holds    []*fsm.Hold
	Requests []*fsm.RequestRecord
}

// writer is whose hand a document, or the part of it that counts, comes from;
// doc.go describes the three.
type writer int

const (
	ours writer = iota
	original
	overtaker // an original broker in a document of ours
)

func (d *Document) writer() writer {
	switch {
	case d.Header == nil:
		return original
	case d.Overtaken:
		return overtaker
	default:
		return ours
	}
}

// BrokerAddress is the registered broker, "" when there is none.
func (d *Document) BrokerAddress() string {
	if d.Broker == nil {
		return ""
	}
	return *d.Broker
}

// Lineage is the document's lineage, "" when it has no header.
func (d *Document) Lineage() string {
	if d.Header == nil {
		return ""
	}
	return d.Header.Lineage
}

// ErrLarge is returned by Document.Machine for a document that is Large.
var ErrLarge = errors.New("the state is not in the document itself: read it with archive.Machine")

// Machine builds the machine that the document describes. A contradiction is
// an error that wraps fsm.ErrState; of a large document it is ErrLarge. The
// document can be used again afterwards.
func (d *Document) Machine() (*fsm.Machine, error) {
	if d.Large {
		return nil, fmt.Errorf("queue document: %w", ErrLarge)
	}
	if err := d.Meta.Check(); err != nil {
		return nil, fmt.Errorf("queue document: %w", err)
	}
	b := fsm.NewBuilder(d.Meta)
	steps := []func() error{
		func() error { return add(d.Jobs, func(j *fsm.Job) error { return addJob(b, j) }) },
		func() error { return add(d.Workers, b.AddWorker) },
		func() error { return add(d.Claims, b.AddClaim) },
		func() error { return add(d.Queues, b.AddQueue) },
		func() error { return add(d.Turns, b.AddTurn) },
		func() error { return add(d.Crons, b.AddCron) },
		func() error { return add(d.Batches, b.AddBatch) },
		func() error { return add(d.Holds, b.AddHold) },
		func() error { return add(d.Requests, b.AddRequest) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("queue document: %w", err)
		}
	}
	return b.Machine(), nil
}

// addJob adds a job that is the builder's own, and so must its details be.
func addJob(b *fsm.Builder, j *fsm.Job) error {
	if j.Det != nil {
		j.Det = new(*j.Det)
	}
	return b.AddJob(j)
}

// add gives the builder records of its own: it keeps what it gets, and writes
// to it.
func add[T any](records []*T, to func(*T) error) error {
	for _, r := range records {
		own := *r
		if err := to(&own); err != nil {
			return err
		}
	}
	return nil
}
