package v1

// The values of Status.State.
const (
	StateLeader    = "leader" // answers writes
	StateFollower  = "follower"
	StateCandidate = "candidate" // also raft's leader while it may not answer writes yet
)

// Status is a node's view of itself and of its cluster: GET /status. It is
// always the asked node's own.
type Status struct {
	NodeID        string     `json:"node_id"`
	ServerID      string     `json:"server_id"`
	State         string     `json:"state"`
	RaftState     string     `json:"raft_state"`
	Term          uint64     `json:"term"`
	Leader        *string    `json:"leader"`         // its node_id; null if unknown
	LeaderAddress *string    `json:"leader_address"` // host:port of the active leader's HTTP API; null if there is none
	LogLength     uint64     `json:"log_length"`     // entries committed so far, snapshots included
	CommitIndex   uint64     `json:"commit_index"`
	Applied       uint64     `json:"applied"`
	LSN           string     `json:"lsn"`
	FlushedLSN    string     `json:"flushed_lsn"` // the newest known to be in queue.json
	LagEntries    uint64     `json:"lag_entries"`
	LagMs         int64      `json:"lag_ms"`
	FlushError    string     `json:"flush_error,omitzero"`
	Epoch         uint64     `json:"epoch"`
	Fence         Fence      `json:"fence"`
	Lineage       string     `json:"lineage"`
	Cluster       string     `json:"cluster"`
	Peers         []Peer     `json:"peers"`
	Tasks         TaskCounts `json:"tasks"`
	Workers       int        `json:"workers"`
	Pid           int        `json:"pid"`
	Version       string     `json:"version"`
	StartedAt     int64      `json:"started_at"`
	UptimeMs      int64      `json:"uptime_ms"`
}

// Fence says whether the node may answer writes: "follower", "standby",
// "active", "fenced" or "refused", and why not.
type Fence struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitzero"`
}

// Peer is a member of the cluster.
type Peer struct {
	Name        string `json:"name"`
	ServerID    string `json:"server_id"`
	RaftAddress string `json:"raft_address"`
	HTTPAddress string `json:"http_address,omitzero"`
	Voter       bool   `json:"voter"`
	Leader      bool   `json:"leader"` // raft's
}

// TaskCounts are the numbers of jobs that the node has, by status and, as older
// tools read them, by what a task does.
type TaskCounts struct {
	Total          int    `json:"total"`
	Pending        int    `json:"pending"`    // scheduled + unclaimed
	Processing     int    `json:"processing"` // in_progress
	Completed      int    `json:"completed"`
	CompletedTotal uint64 `json:"completed_total"` // ever
	Scheduled      int    `json:"scheduled"`
	Unclaimed      int    `json:"unclaimed"`
	InProgress     int    `json:"in_progress"`
	Dead           int    `json:"dead"`
	Cancelled      int    `json:"cancelled"`
	Blocked        int    `json:"blocked"`
}

// Health is the answer to GET /healthz and, with 200, to GET /readyz.
type Health struct {
	Status string `json:"status"` // "ok"
}
