package v1

// Stats are the figures of the whole queue: GET /v1/stats.
type Stats struct {
	Total          int    `json:"total"` // Unclaimed + InProgress
	Unclaimed      int    `json:"unclaimed"`
	InProgress     int    `json:"inProgress"`
	CompletedTotal uint64 `json:"completedTotal"` // ever
	BrokerAddress  string `json:"brokerAddress"`  // of the active leader's HTTP API
	Scheduled      int    `json:"scheduled"`
	Completed      int    `json:"completed"` // still kept
	Dead           int    `json:"dead"`
	Cancelled      int    `json:"cancelled"`
	Blocked        int    `json:"blocked"`
	DeadTotal      uint64 `json:"deadTotal"`      // ever
	CancelledTotal uint64 `json:"cancelledTotal"` // ever
	Bytes          int64  `json:"bytes"`          // of all payloads, results and logs
	Workers        int    `json:"workers"`        // registered
	LSN            string `json:"lsn"`            // of the state shown
	// Types are the counts by type, when asked for.
	Types map[string]TypeStats `json:"types,omitzero"`
}

// TypeStats are the figures of one type.
type TypeStats struct {
	Scheduled  int `json:"scheduled"`
	Unclaimed  int `json:"unclaimed"`
	InProgress int `json:"inProgress"`
	Completed  int `json:"completed"`
	Dead       int `json:"dead"`
	Cancelled  int `json:"cancelled"`
	Blocked    int `json:"blocked"`
	// Bytes is the size of the type's payloads, results and logs.
	Bytes int64 `json:"bytes"`
}

// ThrottleStats counts the effects of the limits on requests to the bucket since
// the node started: GET /v1/throttle-stats. The leader answers, unless
// consistency=local asks for the node's own counts.
type ThrottleStats struct {
	TotalReads          int64 `json:"totalReads"` // passed on to the bucket
	TotalWrites         int64 `json:"totalWrites"`
	ThrottledReads      int64 `json:"throttledReads"` // delayed or refused
	ThrottledWrites     int64 `json:"throttledWrites"`
	TotalReadDelayMs    int64 `json:"totalReadDelayMs"`
	TotalWriteDelayMs   int64 `json:"totalWriteDelayMs"`
	DailyWriteCount     int64 `json:"dailyWriteCount"` // since midnight, UTC
	DailyBudgetExceeded bool  `json:"dailyBudgetExceeded"`
}

// NoThrottle is the answer of a node without such limits.
type NoThrottle struct {
	Throttling bool `json:"throttling"` // false
}
