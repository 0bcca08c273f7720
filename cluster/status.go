package cluster

import (
	"osqueue/cluster/leader"
	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/storage/cost"
)

// The values of Status.Fence.
const (
	FenceFollower    = leader.FenceFollower    // not raft's leader; nothing to fence
	FenceStandby     = leader.FenceStandby     // raft's leader, but another broker owns the document
	FenceUnreachable = leader.FenceUnreachable // raft's leader, but it cannot use the bucket
	FenceActive      = leader.FenceActive      // owns the document; answers writes
	FenceFenced      = leader.FenceFenced      // another broker took the document over
	FenceRefused     = leader.FenceRefused     // the document belongs to a lineage that this cluster must not touch
)

// Status describes a node and its cluster at one moment, as the node sees them. Times and
// durations are in milliseconds.
type Status struct {
	Node          string // name given by the operator
	ServerID      string // raft's id: name~instance
	NodeAddress   string // host:port for the other nodes
	State         string // "leader" on the active leader; else "follower" or "candidate"
	RaftState     string // state in raft's own words
	Term          uint64
	LeaderNode    string // "" if unknown
	LeaderAddress string // host:port of the active leader's HTTP API; "" if unknown
	CommitIndex   uint64
	Applied       uint64
	LSN           fsm.LSN        // of the newest applied entry
	FlushedLSN    fsm.LSN        // of the newest entry known to be in queue.json
	LagEntries    uint64         // applied but not flushed
	LagBytes      int64          // of these entries
	LagMs         int64          // age of the oldest entry that is not flushed
	FlushError    string         // error of the last flush; "" if it succeeded
	ArchiveError  string         // missing or damaged object of the archive; "" if none is known
	MaxFlushLagMs int64          // lag from which writes are refused; 0: none
	Refusing      string         // reason why writes are refused; "" if they are not
	Standby       string         // the standby cluster that the active leader knows of; "" for none
	Carried       leader.Carried // jobs that an adopted document lacked
	// DocumentCopies are the copies of documents that other programs had changed.
	DocumentCopies leader.DocumentCopies

	// Fields of the document, as this node wrote it; set only on the active leader.
	FlushIntervalMs int64           // present least time between two flushes
	DocumentBytes   int             // 0: not written yet
	DocumentView    bool            // whether the document shows the available and running jobs
	CheckpointLSN   fsm.LSN         // LSN of the newest checkpoint
	ArchiveLSN      fsm.LSN         // the log in the bucket contains the entries up to here
	LogBytes        int64           // size of the log behind the checkpoint
	Snapshots       snapshot.Status // raft's snapshots

	Bucket      cost.Report // requests and their cost since this process started
	Epoch       uint64
	Fence       string // one of the Fence constants
	FenceReason string // reason, if Fence is not active or follower
	Lineage     string
	Cluster     string
	Level       uint32 // the feature level of the state
	// CheckedLSN is the newest entry after which a majority of the nodes were known to
	// have the same state. StateError is the finding of the last comparison; "": the
	// states were the same.
	CheckedLSN    fsm.LSN
	StateError    string
	Peers         []Peer
	Counts        fsm.Counts
	CompletedEver uint64
	Workers       int
	Pid           int
	Version       string
	StartedAt     int64
	Now           int64 // queue's time, as Node.Now returns it
	WallClock     int64 // wall clock of this node
}

// Peer is a member of the cluster.
type Peer struct {
	Name        string
	ServerID    string
	RaftAddress string
	HTTPAddress string // "" if unknown
	Voter       bool
	Leader      bool // raft's leader

	// LastContact is how long ago the member last answered this leader, and LogIndex the
	// newest entry that it is known to have. They are nil on nodes that do not lead, and
	// for the leader itself.
	LastContact *int64
	LogIndex    *uint64
	// ClockOffset is how far the member's wall clock is ahead of this node's; nil if it is
	// not known.
	ClockOffset *int64
}
