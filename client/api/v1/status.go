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
	NodeID        string  `json:"node_id"`
	ServerID      string  `json:"server_id"`
	NodeAddress   string  `json:"node_address,omitzero"` // host:port for the other nodes
	State         string  `json:"state"`
	RaftState     string  `json:"raft_state"`
	Term          uint64  `json:"term"`
	Leader        *string `json:"leader"`         // its node_id; null if unknown
	LeaderAddress *string `json:"leader_address"` // host:port of the active leader's HTTP API; null if there is none
	LogLength     uint64  `json:"log_length"`     // entries committed so far, snapshots included
	CommitIndex   uint64  `json:"commit_index"`
	Applied       uint64  `json:"applied"`
	LSN           string  `json:"lsn"`
	FlushedLSN    string  `json:"flushed_lsn"` // the newest known to be in queue.json
	LagEntries    uint64  `json:"lag_entries"` // that are not in queue.json yet, as are their bytes, and the age of the oldest
	LagBytes      int64   `json:"lag_bytes"`
	LagMs         int64   `json:"lag_ms"`
	MaxFlushLagMs int64   `json:"max_flush_lag_ms"`     // lag from which writes are refused; 0: none
	Refusing      string  `json:"refusing,omitzero"`    // why writes are refused; absent when they are not
	FlushError    string  `json:"flush_error,omitzero"` // why the last flush did not succeed
	// ArchiveError is what is missing or damaged in the archive, on the active leader.
	ArchiveError string `json:"archive_error,omitzero"`
	// StateError is what the last comparison of the nodes' states found.
	StateError      string `json:"state_error,omitzero"`
	StateCheckedLSN string `json:"state_checked_lsn,omitzero"` // the newest after which a majority was known to have the same state
	// Standby is the standby cluster that the active leader knows of.
	Standby         string     `json:"standby,omitzero"`
	Carried         *Carried   `json:"carried,omitzero"`   // absent if there was nothing to carry over
	FlushIntervalMs int64      `json:"flush_interval_ms"`  // least time between two flushes, now; 0: this node does not flush
	Ack             string     `json:"ack"`                // ack level of writes that name none
	Document        *Document  `json:"document,omitzero"`  // as this node wrote it last; absent if it has not
	Bucket          *Bucket    `json:"bucket,omitzero"`    // absent if this node does not count
	Snapshots       *Snapshots `json:"snapshots,omitzero"` // of raft; absent if there is none
	Inbox           *Inbox     `json:"inbox,omitzero"`     // absent if this node has found nothing in the inbox
	Epoch           uint64     `json:"epoch"`
	Fence           Fence      `json:"fence"`
	Lineage         string     `json:"lineage"`
	Cluster         string     `json:"cluster"`
	FeatureLevel    uint32     `json:"feature_level,omitzero"` // of the replicated state
	Peers           []Peer     `json:"peers"`
	Tasks           TaskCounts `json:"tasks"`
	Workers         int        `json:"workers"`
	Pid             int        `json:"pid"`
	Version         string     `json:"version"`
	StartedAt       int64      `json:"started_at"`
	UptimeMs        int64      `json:"uptime_ms"`
	Now             int64      `json:"now,omitzero"`        // the queue's time, ms: the leader's, as far as this node knows it
	WallClock       int64      `json:"wall_clock,omitzero"` // of this node, ms
}

// Carried counts, since the node started, the jobs and records that its cluster had
// acknowledged and that a document which it adopted did not have.
type Carried struct {
	Jobs    int    `json:"jobs"`             // in the queue again
	Ended   int    `json:"ended"`            // jobs of the document that had ended in this cluster, and so have now
	Kept    int    `json:"kept"`             // jobs that were not carried over
	Records int    `json:"records,omitzero"` // settings, schedules, tokens, hooks and request keys that were not carried over
	Copy    string `json:"copy,omitzero"`    // the object of the bucket that has the newest of what was not carried over
}

// Document is queue.json.
type Document struct {
	// Form is "inline" while the state stands in it, "archive" when it names a
	// checkpoint and a log instead.
	Form          string `json:"form"`
	Bytes         int    `json:"bytes"`
	CheckpointLSN string `json:"base_lsn"`    // of the newest checkpoint; 0-0: there is none
	ArchiveLSN    string `json:"archive_lsn"` // how far checkpoint and log go
	LogBytes      int64  `json:"log_bytes"`   // behind the checkpoint
}

// Bucket counts the requests of a node to the bucket since it started, with their
// cost in US dollars. A month has 30 days.
type Bucket struct {
	Since        int64             `json:"since"`
	Requests     map[string]uint64 `json:"requests"` // by operation
	BytesRead    uint64            `json:"bytes_read"`
	BytesWritten uint64            `json:"bytes_written"`
	CostUSD      float64           `json:"cost_usd"`
	ProjectedUSD float64           `json:"projected_usd"` // per month, at the rate of the last hour
	BudgetUSD    float64           `json:"budget_usd"`    // a month; 0: none
}

// Snapshots are raft's: from them a node starts.
type Snapshots struct {
	Local      *SnapshotPoint `json:"local,omitzero"`       // the newest on this node's disk
	Bucket     *SnapshotPoint `json:"bucket,omitzero"`      // the newest in the bucket, of whatever node, as far as this one knows
	BucketNode string         `json:"bucket_node,omitzero"` // that uploaded it
	Failing    string         `json:"failing,omitzero"`     // why the upload that is due has not succeeded
	Damaged    string         `json:"damaged,omitzero"`     // which local one cannot be read
}

// SnapshotPoint is where a snapshot stands in raft's log, and since when it is
// there.
type SnapshotPoint struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
	At    int64  `json:"at"`
}

// Inbox counts the node's work on the inbox, as leader, since it started.
type Inbox struct {
	Taken    uint64 `json:"taken"`    // jobs added to the queue
	Repeated uint64 `json:"repeated"` // files whose job was there already
	Rejected uint64 `json:"rejected"` // files moved aside
	Waiting  int    `json:"waiting"`  // files that are still there, at least
	Failing  string `json:"failing,omitzero"`
}

// Fence says whether the node may answer writes: "follower", "standby",
// "active", "fenced", "refused" or "unreachable", and why not.
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

	// LastContactMs is how long ago it answered the leader, and LogIndex the newest log
	// entry that the leader knows it to have. Only raft's leader has them, and not of
	// itself.
	LastContactMs *int64  `json:"last_contact_ms,omitzero"`
	LogIndex      *uint64 `json:"log_index,omitzero"`
	// ClockOffsetMs is how far its wall clock is ahead of the answering node's; absent
	// if that was not measured in the last 30 s.
	ClockOffsetMs *int64 `json:"clock_offset_ms,omitzero"`
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
