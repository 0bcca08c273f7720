package leader

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/document"
)

// Config is the part of a node's configuration that its leader needs.
type Config struct {
	Name          string // unique in the cluster
	HTTPAdvertise string // host:port of this node's HTTP API that the other nodes and clients dial
	Bucket        storage.Bucket
	// Clock returns the wall clock; nil: time.Now. The queue's time and the age of another
	// broker's heartbeat are computed from it. Durations and timeouts are not: they use
	// the monotonic clock. Clock may jump. It must be safe for concurrent use.
	Clock    func() time.Time
	Logger   hclog.Logger
	Settings *fsm.Settings // in force while this node is the active leader, until Leader.SetSettings
	// FeatureLevel is the highest feature level to which the cluster may raise its state
	// while this node is a member; 0: the highest level of this release.
	FeatureLevel uint32

	Flush flush.Config
	// FlushInterval, if given, stretches an interval of Flush, for example while a budget is
	// running out.
	FlushInterval   func(least time.Duration) time.Duration
	MaxFlushLag     time.Duration // lag or silence of the bucket from which writes are refused; 0: no limit
	CollectInterval time.Duration // time between two removals of objects that are not needed any more
	ArchiveCheck    time.Duration // time between two listings of the objects that the document names; 0: none
	ArchiveRead     time.Duration // time in which all objects that it names are read once; 0: never
	StateCheck      time.Duration // time between two comparisons of the nodes' states; 0: none
	BrokerTimeout   time.Duration // silence after which a broker of another cluster counts as dead
	StandbyRetry    time.Duration // longest time between two reads of the document by a standby
	StandbyInterval time.Duration // how often a standby announces itself, and a leader reads the announcement
	RivalPolicy     string        // RivalRefuse or RivalContinue

	// Bounds of the write path.
	MaxEntryBytes   int // target size of one log entry in bytes; a larger mutation gets an entry of its own
	MaxPendingItems int
	MaxPendingBytes int
	// MaxInFlight bounds the entries that are proposed and not yet committed. Raft
	// replicates them one after the other here (see transport.New), so more than one only
	// makes the entries smaller.
	MaxInFlight int
}

// ClockBound is the largest difference between clocks that agree.
const ClockBound = time.Second

// highestLevel returns the highest level that this node allows its cluster to have.
func (c *Config) highestLevel() uint32 {
	if c.FeatureLevel != 0 {
		return c.FeatureLevel
	}
	return fsm.MaxLevel
}

// The values of the fence's state.
const (
	FenceFollower = "follower" // not raft's leader; nothing to fence
	FenceStandby  = "standby"  // raft's leader, but another broker owns the document
	// FenceUnreachable: raft's leader, but it cannot use the bucket
	FenceUnreachable = "unreachable"
	FenceActive      = "active"  // owns the document; answers writes
	FenceFenced      = "fenced"  // another broker took the document over
	FenceRefused     = "refused" // the document belongs to a lineage that this cluster must not touch
)

// DocumentKey is the key of the document in the bucket.
const DocumentKey = "queue.json"

// Effects are the functions of the node that a leader calls, from its own
// goroutines. The leader holds no lock when it calls them, so each may take the replica's
// lock.
type Effects struct {
	Unflushed *flush.UnflushedLog // the replica's

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
	// Waiting returns the number of claims that wait for a job.
	Waiting func() int
	// TakeWaiting returns the claims that have waited longest for jobs of a type, until they
	// ask for that many jobs together or have that many bytes. They wait no more: the leader
	// term puts each into an entry. It is called in a function that Read calls. It takes the
	// lock of the claims.
	TakeWaiting func(jobType string, jobs, bytes int) []WaitingClaim
	// Duty works until ctx ends; nil: there is none. Each leader term runs it in a goroutine of
	// its own. It must end soon after ctx, because the leader term waits for it.
	Duty func(ctx context.Context)

	// Voters returns the other voters that answer this node, as raft's leader.
	Voters func() []Voter
	// AskBucket asks another voter to call CheckBucket, and returns its error or that of the
	// request.
	AskBucket func(ctx context.Context, id raft.ServerID) error
	// HandOver gives raft's leadership to another voter. It returns when the leadership is
	// lost, with nil, or when the attempt has failed.
	HandOver func(ctx context.Context, to raft.ServerID) error

	// ClusterID returns the id of the cluster.
	ClusterID func() string
	// Members returns the voters of this cluster.
	Members func() []document.Member
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
	// TakeForked reports whether servers had another state since the last call.
	TakeForked func() bool
}

// WaitingClaim is a claim that waits for a job, and that was taken for an entry.
type WaitingClaim struct {
	Claim *fsmpb.Mutation
	// Deliver gets the claim's share of the outcome. It is called once and does not block.
	Deliver func(res fsm.Result, lsn fsm.LSN, err error)
}

// base is the part that the campaigns and the leader terms of a node share.
type base struct {
	cfg    Config
	do     Effects
	log    hclog.Logger
	seen   atomic.Bool                       // this process has read the cluster's document in the bucket
	rivals atomic.Bool                       // this process has read another cluster's document there
	kept   atomic.Pointer[fsm.LSN]           // no leader needs the log up to here for the bucket
	copied atomic.Pointer[[sha256.Size]byte] // checksum of the document that was copied last; nil: none
	newest atomic.Pointer[version]           // of the document, as far as this process has read or written it; nil: none
	copies atomic.Pointer[DocumentCopies]    // nil: none

	settings atomic.Pointer[fsm.Settings] // that register proposes
}

func (b *base) meta() (meta *fsm.Meta) {
	b.do.Read(func(m *fsm.Machine) { meta = m.Meta() })
	return meta
}

// job returns a job of the applied state, or nil. The job must not be changed.
func (b *base) job(id string) (j *fsm.Job) {
	b.do.Read(func(m *fsm.Machine) { j = m.Job(id) })
	return j
}

// nowMs returns the wall clock or the machine's time, whichever is later, in ms.
func (b *base) nowMs() (now int64) {
	b.do.Read(func(m *fsm.Machine) { now = m.Now() })
	return max(b.cfg.Clock().UnixMilli(), now)
}

// lsn returns the LSN of the newest applied entry.
func (b *base) lsn() (lsn fsm.LSN) {
	b.do.Read(func(m *fsm.Machine) { lsn = m.LSN() })
	return lsn
}

// flushInterval returns the least time between two flushes, which is at least least.
func (b *base) flushInterval(least time.Duration) time.Duration {
	if b.cfg.FlushInterval != nil {
		return b.cfg.FlushInterval(least)
	}
	return least
}

// Voter is another voter, as raft's leader sees it.
type Voter struct {
	ID     raft.ServerID
	Behind uint64 // entries that it is not known to have
}

// version is a place in the history of the document.
type version struct {
	lineage string
	epoch   uint64
	lsn     fsm.LSN
}

// DocumentCopies counts the copies of documents that this process has stored since it started.
type DocumentCopies struct {
	Count int
	Last  string // key of the newest
}

// noteVersion remembers the newest version of the document that this node has read or written.
func (b *base) noteVersion(lineage string, epoch uint64, lsn fsm.LSN) {
	last := b.newest.Load()
	if last == nil || last.lineage != lineage || last.epoch < epoch || last.epoch == epoch && last.lsn.Compare(lsn) < 0 {
		b.newest.Store(&version{lineage, epoch, lsn})
	}
}

func announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	op := &fsmpb.Announce{Kind: uint32(kind), Text: text}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: op}}
}
