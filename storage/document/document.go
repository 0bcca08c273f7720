package document

import (
	"math"
	"slices"
	"time"

	"osqueue/fsm"
)

// Format is the number of the form that this version reads and writes.
const Format = 1

// Header is this program's own part of the document: the writer of this version, its
// position in the history of the lineage, and what a candidate compares with its own state.
type Header struct {
	Format  int    `json:"format"`
	Level   uint32 `json:"level"`   // feature level of the state
	Lineage string `json:"lineage"` // created with the document, never changed
	Cluster string `json:"cluster"` // of the writer
	Epoch   uint64 `json:"epoch"`   // fencing number, +1 at each takeover
	Node    string `json:"node"`    // of the writer
	Address string `json:"address"` // of the writer; the value of broker when the header was written
	Term    uint64 `json:"term"`    // with Index: the last log entry in the document
	Index   uint64 `json:"index"`
	Write   string `json:"write"` // id of this PUT
	// Writes has the ids of the last PUTs, oldest first, including this one.
	Writes []string `json:"writes,omitempty"`
	// Heartbeat is the value of brokerHeartbeat when the header was written, ms.
	Heartbeat int64 `json:"heartbeat"`
	// Fence has the numbers by which the writer and the clusters that wait for the document
	// decide when the writer has lost it. It is zero in a document that no leader wrote.
	Fence Fence `json:"fence,omitzero"`
	// Handovers records where the parts of the history end that other clusters wrote,
	// oldest first. It has at most HandoversMax entries, one for each cluster.
	Handovers []Handover `json:"handovers,omitempty"`

	// The state's scalars.
	Registered uint64     `json:"registered"` // epoch of the broker that the state names
	Now        int64      `json:"now"`        // the machine's clock, ms
	LastSeq    uint64     `json:"lastSeq"`    // of the youngest job
	LastToken  uint64     `json:"lastToken"`
	Counts     fsm.Counts `json:"counts"` // jobs by status
	// View is the checksum of the text of the field jobs; zero if there is none.
	View Sum `json:"view,omitzero"`
}

// Fence is the part of the header by which both sides of a takeover compute its time.
type Fence struct {
	Heartbeat time.Duration `json:"heartbeat"` // longest time between two writes of a healthy leader
	// Timeout is the silence after which a cluster that the document names may take it over.
	Timeout  time.Duration `json:"timeout"`
	Outage   time.Duration `json:"outage"`             // the same for any other cluster; 0: no silence is enough
	Members  []Member      `json:"members,omitempty"`  // voters of the writer's cluster
	Standbys []string      `json:"standbys,omitempty"` // ids of the clusters that stand by, as the leader knows them
}

// Member is a voter of the cluster that wrote a document.
type Member struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of its HTTP API; "" if the writer does not know it
	// Host identifies the network stack in which a loopback address is valid; "" for an
	// address that means the same host everywhere.
	Host string `json:"host,omitempty"`
}

// HandoversMax is the maximum number of handovers in a document.
const HandoversMax = 16

// Handover is the last point of a cluster's history that a document contains: another
// cluster took the document over there. The document does not have the entries that the
// first cluster acknowledged later.
type Handover struct {
	Cluster string `json:"cluster"` // the previous owner of the document
	Epoch   uint64 `json:"epoch"`   // of its last leader in the document
	Term    uint64 `json:"term"`    // with Index: the last entry in the document
	Index   uint64 `json:"index"`
	LastSeq uint64 `json:"lastSeq"`   // of the youngest job
	Token   uint64 `json:"lastToken"` // the last fencing token issued
	Now     int64  `json:"now"`       // the queue's time, ms
}

// LSN returns the LSN of the last log entry of that cluster in the document.
func (o *Handover) LSN() fsm.LSN { return fsm.LSN{Term: o.Term, Index: o.Index} }

// LSN returns the LSN of the last log entry in the document.
func (h *Header) LSN() fsm.LSN { return fsm.LSN{Term: h.Term, Index: h.Index} }

// Describes reports whether the header has the scalars of a state.
func (h *Header) Describes(m *fsm.Machine) bool {
	meta := m.Meta()
	return h.LSN() == meta.LSN() && h.Level == meta.Level && h.Registered == meta.Epoch && h.Now == meta.NowMs &&
		h.LastSeq == meta.LastSeq && h.LastToken == meta.LastToken && h.Counts == m.Counts()
}

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

// File is a decoded queue.json.
type File struct {
	Broker          *string // nil: no broker has registered
	BrokerHeartbeat int64   // ms
	CompletedTotal  uint64
	// Header is nil in a document that only legacy brokers have written.
	Header *Header
	// Archive leads to the state. It is nil without a header.
	Archive *Archive
	// Overtaken is true if a legacy broker, or a person, has registered another broker or
	// heartbeat since the header was written.
	Overtaken bool
	// Edited is true if the field jobs is not the one that the writer of the header wrote, or
	// if there are fields that no leader writes.
	Edited bool
	// Viewed is true if the document has the field jobs, and a header.
	Viewed bool
	// View has the jobs of an edited document that may have been added: those that have an id
	// and have not ended. Only their fields of the legacy broker are set.
	View []*fsm.Job

	legacy *legacy // nil with a header
}

// LSN returns the LSN of the last log entry in the document, or a zero LSN.
func (d *File) LSN() fsm.LSN {
	if d.Header == nil {
		return fsm.LSN{}
	}
	return d.Header.LSN()
}

// Now returns the clock of the state, ms. For a legacy document it is the latest time in it.
func (d *File) Now() int64 {
	if d.Header == nil {
		return d.legacy.meta.NowMs
	}
	return d.Header.Now
}

// Fence returns the fence of the document; a zero one if no leader wrote it, or if another
// program has registered another broker since.
func (d *File) Fence() Fence {
	if d == nil || d.Header == nil || d.Overtaken {
		return Fence{}
	}
	return d.Header.Fence
}

// HandedOver returns the handovers of the document after cluster to has taken it over.
func (d *File) HandedOver(to string) []Handover {
	h := d.Header
	if h == nil {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(h.Handovers), func(o Handover) bool { return o.Cluster == to || o.Cluster == h.Cluster })
	if h.Cluster != "" && h.Cluster != to {
		list = append(list, Handover{
			Cluster: h.Cluster, Epoch: h.Epoch, Term: h.Term, Index: h.Index,
			LastSeq: h.LastSeq, Token: h.LastToken, Now: h.Now,
		})
	}
	return list[max(0, len(list)-HandoversMax):]
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

// Legacy builds the machine that a document without a header describes.
func (d *File) Legacy() (*fsm.Machine, error) { return d.legacy.machine() }

// maxExact is the largest integer that JavaScript represents exactly.
const maxExact = 1<<53 - 1

// msMax is the largest duration of a header, ms.
const msMax = math.MaxInt64 / int64(time.Millisecond)
