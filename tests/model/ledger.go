package model

import (
	"fmt"
	"sort"
	"sync"
)

// Ledger records the answers that clients of one run got. It is safe for concurrent
// use.
type Ledger struct {
	mu        sync.Mutex
	acked     map[string]bool     // jobs whose enqueue was acknowledged
	maybe     map[string]bool     // jobs whose enqueue ended with an unknown outcome
	claims    map[string][]uint64 // tokens under which a job was handed out
	completed map[string][]uint64 // tokens whose completion was acknowledged
	safe      map[string]bool     // jobs that are in the bucket, by the answer to their enqueue
	ended     map[string]uint64   // jobs whose completion is in the bucket, with its token
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	return &Ledger{
		acked: make(map[string]bool), maybe: make(map[string]bool),
		claims: make(map[string][]uint64), completed: make(map[string][]uint64),
		safe: make(map[string]bool), ended: make(map[string]uint64),
	}
}

// Enqueued notes the answer to an enqueue; sure is false when its outcome
// stayed unknown.
func (l *Ledger) Enqueued(id string, sure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sure {
		l.acked[id] = true
	} else {
		l.maybe[id] = true
	}
}

// Claimed notes that a worker was given a job.
func (l *Ledger) Claimed(id string, token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[id] = append(l.claims[id], token)
}

// Completed notes that a completion was acknowledged.
func (l *Ledger) Completed(id string, token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed[id] = append(l.completed[id], token)
}

// EnqueuedSafely notes that an enqueue was acknowledged at level object.
func (l *Ledger) EnqueuedSafely(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.safe[id] = true
}

// CompletedSafely notes that a completion was acknowledged at level object.
func (l *Ledger) CompletedSafely(id string, token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[id] = token
}

// Safe is how many jobs, and how many completions, were acknowledged at level
// object.
func (l *Ledger) Safe() (jobs, completions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.safe), len(l.ended)
}

// Acked is the number of acknowledged jobs.
func (l *Ledger) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// CompletedCount is the number of jobs with an acknowledged completion.
func (l *Ledger) CompletedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.completed)
}

// Check holds the record against the jobs that the cluster has at the end, by
// id, with their statuses: none lost, none invented, none completed by two
// claims, no token handed out twice.
func (l *Ledger) Check(jobs map[string]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range sorted(l.acked) {
		if _, ok := jobs[id]; !ok {
			return fmt.Errorf("job %s was acknowledged and is lost", id)
		}
	}
	for id := range jobs {
		if !l.acked[id] && !l.maybe[id] {
			return fmt.Errorf("job %s was never submitted", id)
		}
	}
	for id, tokens := range l.completed {
		if distinct(tokens) > 1 {
			return fmt.Errorf("job %s was completed by two claims: tokens %v", id, tokens)
		}
		if status := jobs[id]; status != "completed" {
			return fmt.Errorf("job %s was acknowledged as completed and is %q", id, status)
		}
	}
	return l.checkTokens()
}

// CheckSafe compares the writes that were acknowledged at level object, and only these,
// with the jobs of a cluster that has nothing but the bucket: no job lost or invented, no
// completion undone or repeated, no token given out twice.
func (l *Ledger) CheckSafe(jobs map[string]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range sorted(l.safe) {
		if _, ok := jobs[id]; !ok {
			return fmt.Errorf("job %s was acknowledged as in the bucket and is lost", id)
		}
	}
	for id := range jobs {
		if !l.acked[id] && !l.maybe[id] {
			return fmt.Errorf("job %s was never submitted", id)
		}
	}
	for id, token := range l.ended {
		if status := jobs[id]; status != "completed" {
			return fmt.Errorf("the completion of job %s was acknowledged as in the bucket, and it is %q", id, status)
		}
		for _, t := range l.claims[id] {
			if t > token {
				return fmt.Errorf("job %s was completed for good under token %d, and handed out again under %d", id, token, t)
			}
		}
	}
	return l.checkTokens()
}

func (l *Ledger) checkTokens() error {
	owner := make(map[uint64]string)
	for id, tokens := range l.claims {
		for _, t := range tokens {
			if other, taken := owner[t]; taken && other != id {
				return fmt.Errorf("token %d was given to jobs %s and %s", t, other, id)
			}
			owner[t] = id
		}
	}
	return nil
}

func distinct(tokens []uint64) int {
	seen := make(map[uint64]bool)
	for _, t := range tokens {
		seen[t] = true
	}
	return len(seen)
}

func sorted(set map[string]bool) []string {
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}
