package throttle

import "time"

// Stats counts what a Bucket has done since it was made. The JSON names are
// those of the original osqueue's throttle statistics.
type Stats struct {
	// TotalReads and TotalWrites count operations passed on to the store.
	TotalReads  int64 `json:"totalReads"`
	TotalWrites int64 `json:"totalWrites"`
	// ThrottledReads and ThrottledWrites count operations delayed or refused.
	ThrottledReads  int64 `json:"throttledReads"`
	ThrottledWrites int64 `json:"throttledWrites"`
	// The delays of all operations that were delayed, added up.
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
