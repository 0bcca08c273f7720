package main

import (
	"cmp"
	"fmt"
	"slices"
)

// checkClaims compares the records of the workers with the jobs: for each job exactly one claim
// got the answer that it had completed the job, and each claim began after the previous one had
// ended.
func (e *evidence) checkClaims() (faults []error) {
	byJob := make(map[string][]claim)
	for _, c := range e.claims {
		byJob[c.JobID] = append(byJob[c.JobID], c)
	}
	for _, job := range e.jobs {
		claims := byJob[job.ID]
		faults = append(faults, overlaps(claims)...)
		var tokens []uint64
		for _, c := range claims {
			if c.Outcome == outcomeCompleted {
				tokens = append(tokens, c.Token)
			}
		}
		if !slices.Equal(tokens, []uint64{job.Token}) {
			faults = append(faults, fmt.Errorf("job %s was completed under token %d, the workers say %d", job.ID, job.Token, tokens))
		}
	}
	return faults
}

// overlaps returns every pair of claims of one job whose leases overlapped. A token is issued
// only once, so claims with equal tokens are the same.
func overlaps(claims []claim) (faults []error) {
	claims = slices.SortedFunc(slices.Values(claims), func(a, b claim) int { return cmp.Compare(a.Token, b.Token) })
	for i := 1; i < len(claims); i++ {
		before, after := claims[i-1], claims[i]
		if before.Token == after.Token || after.StartedAt < before.EndedAt {
			faults = append(faults, fmt.Errorf("job %s was held twice at once: %+v and %+v", before.JobID, before, after))
		}
	}
	return faults
}

// longestPause returns the longest time in which no worker completed anything.
func longestPause(claims []claim) (ms int64) {
	var ends []int64
	for _, c := range claims {
		if c.Outcome == outcomeCompleted {
			ends = append(ends, c.EndedAt)
		}
	}
	slices.Sort(ends)
	for i := 1; i < len(ends); i++ {
		ms = max(ms, ends[i]-ends[i-1])
	}
	return ms
}
