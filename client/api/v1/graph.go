package v1

// Graph has the jobs that a job was enqueued to run after, with those before them, and the
// jobs that run after it, with those behind them. GET /v1/jobs/{id}/graph.
type Graph struct {
	JobID   string       `json:"jobId"`
	Jobs    []GraphJob   `json:"jobs"`    // by depth; the job itself is one of them
	Batches []GraphBatch `json:"batches"` // of the job and of those behind it; may be empty
	Edges   []GraphEdge  `json:"edges"`
	// Cut is set if the limit has left out jobs; the jobs next to them have More.
	Cut bool   `json:"cut,omitzero"`
	LSN string `json:"lsn"`
}

// GraphJob is a job in a Graph.
type GraphJob struct {
	ID string `json:"id"`
	// Depth is the number of steps from the job of the graph: negative before it, positive
	// behind it.
	Depth int `json:"depth"`
	// Status is absent for a job that is not in the queue: it has been removed, or it is the
	// callback of a batch that has not ended (Planned). It is also absent if the caller may
	// not read the job.
	Status     string `json:"status,omitzero"`
	Type       string `json:"type,omitzero"`
	Planned    bool   `json:"planned,omitzero"`
	Attempts   int32  `json:"attempts,omitzero"`
	CreatedAt  int64  `json:"createdAt,omitzero"`
	ClaimedAt  int64  `json:"claimedAt,omitzero"`
	FinishedAt int64  `json:"finishedAt,omitzero"`
	WorkerID   string `json:"workerId,omitzero"`
	Percent    uint8  `json:"percent,omitzero"` // of the progress
	Cron       string `json:"cron,omitzero"`    // the schedule that enqueued it
	BatchID    string `json:"batchId,omitzero"`
	More       bool   `json:"more,omitzero"` // it has jobs before or behind it that are not in the graph
}

// GraphBatch is a batch in a Graph. Its other jobs are not in the graph.
type GraphBatch struct {
	ID        string `json:"id"`
	Total     uint64 `json:"total"`
	Completed uint64 `json:"completed"`
	Dead      uint64 `json:"dead"`
	Cancelled uint64 `json:"cancelled"`
	EndedAt   int64  `json:"endedAt,omitzero"`
}

// GraphEdge leads from an earlier to a later one.
type GraphEdge struct {
	Kind string `json:"kind"`
	From string `json:"from"` // id of a job, or for EdgeCallback of a batch
	To   string `json:"to"`   // id of a job, or for EdgeBatch of a batch
	// Waiting is set if To waits for From now.
	Waiting bool `json:"waiting,omitzero"`
}

// The kinds of edges.
const (
	EdgeAfter    = "after"    // a job runs after a job
	EdgeBatch    = "batch"    // a job counts in a batch
	EdgeCallback = "callback" // a batch enqueues a job at its end
)
