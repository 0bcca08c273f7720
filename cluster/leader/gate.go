package leader

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// gate refuses writes while the bucket is too far behind. An outage of the bucket does
// not stop the quorum, but the acknowledged writes that the bucket lacks must not grow
// without limit. The gate closes when the oldest of them is older than MaxFlushLag, and
// opens when the lag is at most half of that. Reports of workers still pass: they add no
// work, and a worker that cannot renew its lease would have to abort its job.
//
// The gate also closes while a standby cluster may have taken the document over; then
// only heartbeats pass (standby.go). While the gate is closed, only the entries of
// reports let time pass. When it opens, all leases are extended, as after a takeover.
//
// The goroutine of passTime opens and closes the gate; any goroutine may read refused.
type gate struct {
	refused atomic.Pointer[error] // an ErrFlushLag; nil: the gate is open

	// The next fields belong to the goroutine of passTime.
	awaySince time.Time // when the flusher began to fail; zero: it does not fail
	announced bool      // the event that the bucket is unavailable was proposed, by this term or an earlier one
	// unresolved is set if an earlier term announced that writes are refused, and none that
	// they are accepted.
	unresolved bool
}

// refusal returns why writes are refused now, or nil.
func (g *gate) refusal() error {
	if e := g.refused.Load(); e != nil {
		return *e
	}
	return nil
}

// Standby is the announcement of a cluster that waits to take the document over.
type Standby struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Address string `json:"address"` // of the node's HTTP API
	At      int64  `json:"at"`      // wall clock of that node; informative only
}

// String returns the node and the address of the standby, for logs and errors.
func (s *Standby) String() string {
	if s.Node == "" {
		return "cluster " + s.Cluster
	}
	return fmt.Sprintf("node %s at %s", s.Node, s.Address)
}

// written describes the last version of the document that this leader has written.
type written struct {
	bytes               int
	viewed              bool // it shows the jobs
	checkpoint, archive fsm.LSN
	log                 int64
	root                *document.Archive // objects that the document names; nil: none
}

// names reports whether a version of the document names an object.
func (w *written) names(key string) bool {
	if w == nil || w.root == nil {
		return false
	}
	return w.root.Checkpoint.Key == key ||
		slices.ContainsFunc(w.root.Log, func(ref document.Ref) bool { return ref.Key == key })
}
