package document

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"osqueue/fsm"
)

// Format numbers of the documents that this version writes and reads.
const (
	Format      = 1 // the state is inline
	FormatLarge = 2 // an archive replaces the state
)

// Header is this program's own part of the document: the writer of this version, and its
// position in the history of the lineage.
type Header struct {
	Format  int
	Lineage string // created with the document, never changed
	Cluster string // of the writer
	Epoch   uint64 // fencing number, +1 at each takeover
	Node    string // of the writer
	Address string // of the writer; the value of broker when the header was written
	Term    uint64 // with Index: the last log entry in the document
	Index   uint64
	Write   string   // id of this PUT
	Writes  []string // ids of the last PUTs, oldest first, including this one
	// Heartbeat is the value of brokerHeartbeat when the header was written, ms.
	Heartbeat int64
	// Fence has the numbers by which the writer and the clusters that wait for the document
	// decide when the writer has lost it. It is zero in a document that no leader wrote.
	Fence Fence
	// Handovers records where the parts of the history end that other clusters wrote,
	// oldest first. It has at most HandoversMax entries, one for each cluster.
	Handovers []Handover
}

// Fence is the part of the header by which both sides of a takeover compute its time.
type Fence struct {
	Heartbeat time.Duration // longest time between two writes of a healthy leader
	Timeout   time.Duration // silence after which a cluster that the document names may take it over
	Outage    time.Duration // the same for any other cluster; 0: no silence is enough
	Members   []Member      // voters of the writer's cluster
	Standbys  []string      // ids of the clusters that stand by, as the leader knows them
}

// Member is a voter of the cluster that wrote a document.
type Member struct {
	Name    string
	Address string // of its HTTP API; "" if the writer does not know it
	// Host identifies the network stack in which a loopback address is valid; "" for an
	// address that means the same host everywhere.
	Host string
}

// Fence returns the fence of the document; a zero one if no leader wrote it, or if another
// program has registered another broker since.
func (d *File) Fence() Fence {
	if d == nil || d.Header == nil || d.Overtaken {
		return Fence{}
	}
	return d.Header.Fence
}

// HandoversMax is the maximum number of handovers in a document.
const HandoversMax = 16

// Handover is the last point of a cluster's history that a document contains: another
// cluster took the document over there. The document does not have the entries that the
// first cluster acknowledged later.
type Handover struct {
	Cluster string // the previous owner of the document
	Epoch   uint64 // of its last leader in the document
	Term    uint64 // with Index: the last entry in the document
	Index   uint64
	LastSeq uint64 // of the youngest job
	Token   uint64 // the last fencing token issued
	Now     int64  // the queue's time, ms
}

// LSN returns the LSN of the last log entry of that cluster in the document.
func (o *Handover) LSN() fsm.LSN { return fsm.LSN{Term: o.Term, Index: o.Index} }

// Handover returns the last point of a cluster's history that the document contains, and
// whether there is one.
func (h *Header) Handover(cluster string) (Handover, bool) {
	for _, o := range h.Handovers {
		if o.Cluster == cluster {
			return o, true
		}
	}
	return Handover{}, false
}

// HandedOver returns the handovers of the document after cluster to has taken it over.
func (d *File) HandedOver(to string) []Handover {
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

// LSN returns the LSN of the last log entry in the document.
func (h *Header) LSN() fsm.LSN { return fsm.LSN{Term: h.Term, Index: h.Index} }

// File is a decoded queue.json. A caller may edit its fields before it calls Machine.
type File struct {
	Broker          *string // nil: no broker has registered
	BrokerHeartbeat int64   // ms
	// Header is nil in a document that only legacy brokers have written.
	Header *Header
	// Overtaken is true if a legacy broker, or a person, has registered another broker or
	// heartbeat since the header was written.
	Overtaken bool
	// OurSeq is the position of the youngest job at the time when the header was written;
	// math.MaxUint64 if it is unknown.
	OurSeq uint64
	// Large is true if the state is not in the document but in the archive. Jobs then has
	// the jobs that were added by hand and are to be enqueued, and the lists after it are
	// empty.
	Large bool
	// StateSum is the checksum of the state as its writer had it; nil if the document has
	// none, or was edited since. Machine compares the state with it. A caller that edits a
	// field sets it to nil.
	StateSum *Sum
	// Edited is true if the document has a checksum that does not fit: it was edited
	// since a leader wrote it, or it is damaged.
	Edited bool
	// Lost is the number of unknown fields, and of jobs with such fields, that cannot be
	// kept: they are beyond fsm.ExtraMax, or have the name of a field of this package.
	Lost int

	Meta    fsm.Meta
	Counts  fsm.Counts // of a large document, as its writer gave them
	Archive *Archive   // the inline state is at its end or later; nil: none
	Jobs    []*fsm.Job // of all statuses; available and running ones first, in order
	given   []uint64   // positions of Jobs as read; 0: none
	Workers []*fsm.Worker
	Claims  []*fsm.ClaimRecord

	Queues   []*fsm.QueueSettings
	Turns    []*fsm.Turn
	Crons    []*fsm.Cron
	Batches  []*fsm.JobBatch
	Holds    []*fsm.Hold
	Requests []*fsm.RequestRecord
	Tokens   []*fsm.Token
	Figures  []*Figures

	Hooks      []*fsm.Hook
	HookEvents []*fsm.HookEvent
}

// writer is the kind of writer of a document, or of the part of it that counts; doc.go
// describes the three kinds.
type writer int

const (
	ours writer = iota
	original
	overtaker // a legacy broker in a document of this program
)

func (d *File) writer() writer {
	switch {
	case d.Header == nil:
		return original
	case d.Overtaken:
		return overtaker
	default:
		return ours
	}
}

// BrokerAddress returns the registered broker, or "" if there is none.
func (d *File) BrokerAddress() string {
	if d.Broker == nil {
		return ""
	}
	return *d.Broker
}

// Lineage returns the document's lineage, or "" if it has no header.
func (d *File) Lineage() string {
	if d.Header == nil {
		return ""
	}
	return d.Header.Lineage
}

// ErrLarge is the error of File.Machine for a document that is Large.
var ErrLarge = errors.New("the state is not in the document: read it with archive.Machine")

// Machine builds the machine that the document describes. The error wraps fsm.ErrState if
// the document contradicts itself, and fsm.ErrDiverged if the state is not the one that its
// writer had; it is ErrLarge for a large document. The document remains usable.
func (d *File) Machine() (*fsm.Machine, error) {
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
		func() error { return add(d.Tokens, b.AddToken) },
		func() error { return add(d.Figures, func(f *Figures) error { return f.addTo(b) }) },
		func() error { return add(d.Hooks, b.AddHook) },
		func() error { return add(d.HookEvents, b.AddHookEvent) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("queue document: %w", err)
		}
	}
	m := b.Machine()
	if err := d.compareSum(m); err != nil {
		return nil, fmt.Errorf("queue document: %w", err)
	}
	return m, nil
}

// addJob passes copies of a job, its execution and its details to the builder, which takes
// ownership of them.
func addJob(b *fsm.Builder, j *fsm.Job) error {
	if j.Exec != nil {
		j.Exec = new(*j.Exec)
	}
	if j.Det != nil {
		j.Det = new(*j.Det)
	}
	return b.AddJob(j)
}

// add passes copies of the records to the builder, which keeps them and writes to them.
func add[T any](records []*T, to func(*T) error) error {
	for _, r := range records {
		own := *r
		if err := to(&own); err != nil {
			return err
		}
	}
	return nil
}
