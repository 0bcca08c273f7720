package v1

// LSNReached is the answer to GET /v1/lsn/{lsn}/wait once the LSN has reached the
// level.
type LSNReached struct {
	LSN   string `json:"lsn"`   // that was asked for
	Level string `json:"level"` // that was asked for
	// AppliedLSN is how far the answering node is, FlushedLSN how far it knows
	// the bucket to be.
	AppliedLSN string `json:"appliedLsn"`
	FlushedLSN string `json:"flushedLsn"`
}
