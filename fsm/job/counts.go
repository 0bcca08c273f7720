package job

// Counts is a number of jobs for each status.
type Counts [NumStatuses]int

// Empty reports whether there is no job.
func (c Counts) Empty() bool { return c == Counts{} }

// NotEnded returns the number of jobs that have not ended.
func (c Counts) NotEnded() int {
	return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress]
}

// Sum returns the number of all jobs.
func (c Counts) Sum() (n int) {
	for _, jobs := range c {
		n += jobs
	}
	return n
}

// Of returns the number of jobs in status s.
func (c Counts) Of(s Status) int { return c[s] }
