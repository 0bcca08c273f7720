package v1

// Past lists the earlier states that ParamAt can select: GET /v1/past. They are in the bucket.
type Past struct {
	// Spans are the pieces of the history without a hole, oldest first: the newest 100. The list
	// may be some minutes old, so that a state after the last piece may exist.
	Spans []PastSpan `json:"spans"`
	// Now is the clock of the queue at the asked node, ms.
	Now int64 `json:"now"`
}

// PastSpan is a piece of the history. Every state from its beginning to its end can be read.
type PastSpan struct {
	FromLSN string `json:"fromLsn"`
	ToLSN   string `json:"toLsn"`
	From    int64  `json:"from"` // the clock of the queue at FromLSN, ms; 0: not known
	To      int64  `json:"to"`
}
