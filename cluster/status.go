package cluster

import "osqueue/fsm"

// The fence states of a node, as shown in Status.
const (
	FenceFollower = "follower" // not raft's leader; nothing to fence
	FenceStandby  = "standby"  // raft's leader, but another broker owns the document
	FenceActive   = "active"   // owns the document; answers writes
	FenceFenced   = "fenced"   // another broker took the document over
	FenceRefused  = "refused"  // the document belongs to a lineage that this cluster must not touch
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
	LagMs         int64   // age of the oldest entry that is not flushed
	FlushError    string  // why the last flush did not succeed; "" when it did
	Epoch         uint64
	Fence         string // one of the Fence constants
	FenceReason   string // why, when it is not active or follower
	Lineage       string
	Cluster       string
	Peers         []Peer
	Counts        fsm.Counts
	CompletedEver uint64
	Workers       int
	Pid           int
	Version       string
	StartedAt     int64
}

// Peer is a member of the cluster.
type Peer struct {
	Name        string
	ServerID    string
	RaftAddress string
	HTTPAddress string // "" if unknown
	Voter       bool
	Leader      bool // raft's leader
}
