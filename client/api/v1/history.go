package v1

// History has the figures of the last minutes, the present one last: GET
// /v1/stats/history. They are those of the asked node, which counts the log entries that it
// has applied since it started.
type History struct {
	// Type is the type, as in paths below PathQueues; absent for all types together.
	Type string `json:"type,omitzero"`
	// From is when the first minute begins, ms.
	From    int64           `json:"from"`
	Minutes []HistoryMinute `json:"minutes"`
	LSN     string          `json:"lsn"`
}

// HistoryMinute has the figures of one minute.
type HistoryMinute struct {
	Enqueued  uint64 `json:"enqueued"`
	Claimed   uint64 `json:"claimed"`   // attempts begun
	Completed uint64 `json:"completed"` // jobs
	Failed    uint64 `json:"failed"`    // attempts, also those that timed out or lost their lease
	Retried   uint64 `json:"retried"`   // jobs put back after a failure or by a request
	Dead      uint64 `json:"dead"`      // jobs
}
