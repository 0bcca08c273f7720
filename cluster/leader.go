package cluster

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage"
)

// leaderConfig configures the node as a leader. The fields are those of Config.
type leaderConfig struct {
	Name          string
	HTTPAdvertise string
	Bucket        storage.Bucket
	Unflushed     *flush.UnflushedLog // the replica's
	Clock         func() time.Time
	Log           hclog.Logger
	Settings      fsm.Settings
	FeatureLevel  uint32

	Flush           flush.Config
	FlushInterval   func() time.Duration
	MaxFlushLag     time.Duration
	PITRWindow      time.Duration
	CollectInterval time.Duration
	ArchiveCheck    time.Duration
	ArchiveRead     time.Duration
	StateCheck      time.Duration
	BrokerTimeout   time.Duration
	StandbyRetry    time.Duration
	StandbyInterval time.Duration
	RivalPolicy     string

	MaxEntryBytes   int
	MaxPendingItems int
	MaxPendingBytes int
	MaxInFlight     int
}

// leaderEffects are the functions of the node that a leader calls, from its own
// goroutines. The leader holds no lock when it calls them, so each may take the replica's
// lock.
type leaderEffects struct {
	// Term returns raft's current term.
	Term func() uint64
	// Leads reports whether this node is raft's leader, as far as it knows.
	Leads func() bool
	// Barrier waits until this node has applied every entry that was committed before the
	// call. A campaign calls it first.
	Barrier func(ctx context.Context) error
	// Verify returns nil if a majority confirms that this node is raft's leader. If a
	// majority follows another leader, raft ends this leadership.
	Verify func(ctx context.Context) error
	// Apply hands one encoded log entry to raft. The function that it returns waits until
	// the entry is applied, and returns ErrNotLeader if raft has refused it and an
	// ErrUnknown if it may be committed. Calls in sequence are committed in that order.
	Apply func(data []byte) (wait func(ctx context.Context) ([]fsm.Result, fsm.LSN, error))
	// Restore gives every node the state v, if this node has been leader since the campaign
	// began in that term. A campaign calls it when it adopts a document; no leader term
	// runs then. The replica's lock is taken when raft has the whole state.
	Restore func(ctx context.Context, v *fsm.View, term uint64) error
	// SetBack sets the queue's time back, if an operator has requested it, and reports
	// whether it did. A campaign calls it before it acquires the document; no leader term
	// runs then, so that no entry of the old clock follows.
	SetBack func(ctx context.Context) bool

	// Read calls fn with the machine, under the replica's read lock. fn must not keep or
	// change the machine, and must not call any of these functions.
	Read func(fn func(*fsm.Machine))
	// Freeze returns a view of the applied state. It takes the replica's lock.
	Freeze func() *fsm.View
	// Idle returns how long ago the newest entry was applied.
	Idle func() time.Duration
	// Rescan wakes claims whose wake-up got lost. A leader term calls it several times a
	// second. It takes the replica's read lock and, under it, the lock of the claims.
	Rescan func()
	// Inbox scans the inbox until ctx ends; nil: there is none. Each leader term runs it in
	// a goroutine of its own.
	Inbox func(ctx context.Context)

	// ClusterID returns the id of the cluster.
	ClusterID func() string
	// Servers returns the servers of raft's configuration.
	Servers func() []raft.Server
	// CommonLevel returns the highest feature level that all servers allow. It asks them.
	CommonLevel func(ctx context.Context) (uint32, error)
	// StateOf asks a server for the newest checksum of its state, in hexadecimal, and the
	// LSN of that state. Both are "" if it has none or does not answer. Goroutines of a
	// state check call it in parallel.
	StateOf func(ctx context.Context, id raft.ServerID) (lsn, sum string)

	// Wall returns this node's wall clock, corrected if a majority of the clocks agree on
	// another time.
	Wall func() time.Time
	// ClocksAgree reports whether a majority of the voters' clocks agree on that time.
	ClocksAgree func() bool
	// MeasureClocks asks the other voters for their time.
	MeasureClocks func(ctx context.Context)

	// SumsDue returns the time until the next check of the states, for the time between two
	// checks. SumsFinding stores the finding of a check that found no majority.
	SumsDue     func(interval time.Duration) time.Duration
	SumsFinding func(string)
	// TakeForked returns the names of the nodes that had another state, and forgets them.
	TakeForked func() []string
}

// leaderBase has what the campaigns and the leader terms of a node share.
type leaderBase struct {
	cfg    leaderConfig
	do     leaderEffects
	log    hclog.Logger
	kept   atomic.Pointer[fsm.LSN]           // no leader needs the log up to here for the bucket
	copied atomic.Pointer[[sha256.Size]byte] // checksum of the document that was copied last; nil: none
}

// leader acquires the document while this node is raft's leader, and then runs a leader
// term. It lives as long as the node.
type leader struct {
	*leaderBase
	current   atomic.Pointer[leaderTerm] // set while this node answers writes
	state     atomic.Pointer[fenceState] // state of the fence, for Status
	carried   atomic.Pointer[Carried]    // nil: nothing
	watch     election.Watch             // of the document; used by the candidate's goroutine
	announcer announcer                  // used by the candidate's goroutine
}

// fenceState is one of the Fence constants with its reason.
type fenceState struct{ state, reason string }

func newLeader(cfg leaderConfig, do leaderEffects) *leader {
	n := &leader{leaderBase: &leaderBase{cfg: cfg, do: do, log: cfg.Log}}
	n.setFence(FenceFollower, "")
	return n
}

func (n *leaderBase) meta() (meta fsm.Meta) {
	n.do.Read(func(m *fsm.Machine) { meta = m.Meta() })
	return meta
}

// job returns a job of the applied state, or nil. The job must not be changed.
func (n *leaderBase) job(id string) (j *fsm.Job) {
	n.do.Read(func(m *fsm.Machine) { j = m.Job(id) })
	return j
}
