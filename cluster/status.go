package cluster

import (
	"osqueue/cluster/inbox"
	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/storage/cost"
)

// The fence states of a node, as shown in Status.
const (
	FenceFollower = "follower" // not raft's leader; nothing to fence
	FenceStandby  = "standby"  // raft's leader, but another broker owns the document
	FenceActive   = "active"   // owns the document; answers writes
	FenceFenced   = "fenced"   // another broker took the document over
	FenceRefused  = "refused"  // the document belongs to a lineage that this cluster must not touch
)

// The forms of the document.
const (
	FormInline  = "inline"  // the state is in it
	FormArchive = "archive" // the state is in a base and a log
)

// Status is a node's view of itself and of its cluster, at one moment. Times
// and durations are in milliseconds.
type Status struct {
	Node          string // name given by the operator
	ServerID      string // raft's id: name~instance
	State         string // "leader" on the active leader; else "follower" or "candidate"
	RaftState     string // raft's own word
	Term          uint64
	LeaderNode    string // "" if unknown
	LeaderAddress string // host:port of the active leader's HTTP API; "" if unknown
	CommitIndex   uint64
	Applied       uint64
	LSN           fsm.LSN // of the newest applied entry
	FlushedLSN    fsm.LSN // of the newest entry known to be in queue.json
	LagEntries    uint64  // applied but not flushed
	LagBytes      int64   // of these entries
	LagMs         int64   // age of the oldest entry that is not flushed
	FlushError    string  // why the last flush did not succeed; "" when it did
	ArchiveError  string  // what is missing or damaged in the archive; "" when nothing is known
	MaxFlushLagMs int64   // lag from which writes are refused; 0: none
	Refusing      string  // why writes are refused; "" when they are not
	Standby       string  // the standby cluster that the active leader knows of; "" for none
	Carried       Carried // jobs that an adopted document did not have

	// Of the document, as this node wrote it; only on the active leader.
	FlushIntervalMs int64           // least time between two flushes, now
	DocumentBytes   int             // 0: not written yet
	DocumentForm    string          // FormInline or FormArchive
	BaseLSN         fsm.LSN         // of the newest base
	ArchiveLSN      fsm.LSN         // up to where the log is in the bucket
	LogBytes        int64           // of the log behind the base
	Snapshots       snapshot.Status // of raft
	Inbox           inbox.Stats     // of the drop box

	Bucket      cost.Report // requests and what they cost, since this process started
	Epoch       uint64
	Fence       string // one of the Fence constants
	FenceReason string // why, when it is not active or follower
	Lineage     string
	Cluster     string
	Level       uint32 // the feature level of the state
	// CheckedLSN is the newest entry after which a majority of the nodes were known to
	// have the same state, StateError what the last comparison found, "": nothing.
	CheckedLSN    fsm.LSN
	StateError    string
	Peers         []Peer
	Counts        fsm.Counts
	CompletedEver uint64
	Workers       int
	Pid           int
	Version       string
	StartedAt     int64
	Now           int64 // the queue's time, as Node.Now
	WallClock     int64 // of this node
}

// Peer is a member of the cluster.
type Peer struct {
	Name        string
	ServerID    string
	RaftAddress string
	HTTPAddress string // "" if unknown
	Voter       bool
	Leader      bool // raft's leader

	// LastContact is how long ago the member answered this leader last, and LogIndex
	// the newest entry that it is known to have; nil on nodes that do not lead, and for
	// the leader itself.
	LastContact *int64
	LogIndex    *uint64
	// ClockOffset is how far the member's wall clock is ahead of this node's; nil if it
	// is not known.
	ClockOffset *int64
}
