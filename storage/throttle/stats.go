package throttle

import "time"

// Stats counts the operations of a Bucket since it was made. The JSON names are those of
// the throttle statistics of the legacy broker.
type Stats struct {
	// TotalReads and TotalWrites count operations forwarded to the store.
	TotalReads  int64 `json:"totalReads"`
	TotalWrites int64 `json:"totalWrites"`
	// ThrottledReads and ThrottledWrites count operations delayed or refused.
	ThrottledReads  int64 `json:"throttledReads"`
	ThrottledWrites int64 `json:"throttledWrites"`
	// TotalReadDelayMs and TotalWriteDelayMs are the sums of the delays.
	TotalReadDelayMs  int64 `json:"totalReadDelayMs"`
	TotalWriteDelayMs int64 `json:"totalWriteDelayMs"`
	// DailyWriteCount counts today's writes (UTC).
	DailyWriteCount     int64 `json:"dailyWriteCount"`
	DailyBudgetExceeded bool  `json:"dailyBudgetExceeded"`
}

// Stats returns the counts of this moment. It is safe for concurrent use.
func (b *Bucket) Stats() Stats {
	var s Stats
	s.TotalReads, s.ThrottledReads, s.TotalReadDelayMs = b.reads.counts()
	s.TotalWrites, s.ThrottledWrites, s.TotalWriteDelayMs = b.writes.counts()
	s.DailyWriteCount, s.DailyBudgetExceeded = b.day.state(time.Now())
	return s
}
