package v1

// JobLogs is the answer to GET /v1/jobs/{id}/logs: what the attempts of the job have
// written after a position, while a reader follows them. It is held in the memory of the
// leader only.
type JobLogs struct {
	// Status is that of the job. When it is an end, nothing follows.
	Status string `json:"status"`
	// Token and Offset are the position after Chunks, for the next request.
	Token  uint64     `json:"token"`
	Offset int64      `json:"offset"`
	Chunks []LogChunk `json:"chunks,omitzero"`
}

// LogChunk is a part of what one attempt has written. It may begin before the position of
// the request: the reader then skips what it has.
type LogChunk struct {
	Attempt int32  `json:"attempt"`
	Token   uint64 `json:"token"`         // of the attempt's claim
	Offset  int64  `json:"offset"`        // of the first byte, in what the attempt has written
	Bytes   int64  `json:"bytes"`         // how many they are, before an encryption
	Text    string `json:"text,omitzero"` // may be encrypted
	Lost    int64  `json:"lost,omitzero"` // bytes before this chunk that are not held any more
}

// SendLogs tells the leader what running attempts of a worker have written: POST
// /v1/jobs/logs. Chunks of jobs that have no reader, or that the worker does not hold, are
// dropped. A repeated chunk changes nothing.
type SendLogs struct {
	WorkerID string    `json:"workerId"`
	Jobs     []SentLog `json:"jobs,omitzero"`
	// WaitMs is how long to wait, if there are no jobs here, until a reader follows a job
	// of the worker.
	WaitMs int64 `json:"waitMs,omitzero"`
}

// SentLog is a part of what one attempt has written.
type SentLog struct {
	JobID  string `json:"jobId"`
	Token  uint64 `json:"token"`
	Offset int64  `json:"offset,omitzero"` // of the first byte, in what the attempt has written
	Bytes  int64  `json:"bytes,omitzero"`  // before an encryption; absent: the length of Text
	Text   string `json:"text"`            // at most 24 KiB
}

// LogsWanted is the answer to SendLogs: the running jobs of the worker that a reader
// follows.
type LogsWanted struct {
	Jobs []LogWanted `json:"jobs"`
}

// LogWanted is a running attempt that a reader follows.
type LogWanted struct {
	JobID  string `json:"jobId"`
	Token  uint64 `json:"token"`
	Offset int64  `json:"offset"` // the leader has what was written before it
}
