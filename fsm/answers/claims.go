// Package answers has the remembered answers: those to claims, those to requests with a key, and what a repeated enqueue or
// report gets for a job that retention has removed. It decides nothing; package fsm does.
package answers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// The limits of remembered claims, by time and by number. When its broker goes away, a
// worker repeats its few open claims within seconds; more records would only make the
// state larger.
const (
	ClaimMemoryMs      = 60_000
	ClaimsPerWorkerMax = 256 // many processes may share one name
	ClaimsMax          = 65_536
)

// Claims has the answers to claims, so that a repeated claim gets the same jobs. It is not safe for concurrent use.
type Claims struct {
	Records   *btree.Tree[*fsmpb.ClaimRecord] // by first token, which is claim order; copy-on-write
	byWorker  map[string][]*fsmpb.ClaimRecord // in claim order
	byRequest map[claimKey]*fsmpb.ClaimRecord // the newest one with that key
}

// NewClaims returns an empty set.
func NewClaims() Claims {
	return Claims{btree.New(byToken), make(map[string][]*fsmpb.ClaimRecord), make(map[claimKey]*fsmpb.ClaimRecord)}
}

// claimKey identifies a claim by its request.
type claimKey struct{ worker, request string }

func keyOf(r *fsmpb.ClaimRecord) claimKey { return claimKey{worker: r.Worker, request: r.RequestId} }

func byToken(a, b *fsmpb.ClaimRecord) bool { return a.FirstToken < b.FirstToken }

// Of returns the answer to an earlier claim with that request id, or nil. The id "" names
// no request.
func (c *Claims) Of(worker, requestID string) *fsmpb.ClaimRecord {
	if requestID == "" {
		return nil
	}
	return c.byRequest[claimKey{worker: worker, request: requestID}]
}

// Remember makes the record of a claim that got jobs, whose tokens follow each other. perWorker is the number of records that each worker may have.
func (c *Claims) Remember(worker, requestID string, jobs []*job.Job, now int64, perWorker int) {
	r := &fsmpb.ClaimRecord{
		Worker: worker, RequestId: strings.Clone(requestID), ClaimedAtMs: now,
		FirstToken: jobs[0].Execution().Token, JobIds: make([]string, len(jobs)),
	}
	for i, j := range jobs {
		r.JobIds[i] = strings.Clone(j.ID) // the record can outlive the job
	}
	c.Add(r)
	if own := c.byWorker[worker]; len(own) > perWorker {
		c.drop(own[0])
	}
	if c.Records.Len() > ClaimsMax {
		oldest, _ := c.Records.Min()
		c.drop(oldest)
	}
}

// Add adds r, the newest record.
func (c *Claims) Add(r *fsmpb.ClaimRecord) {
	c.Records.Set(r)
	c.byWorker[r.Worker] = append(c.byWorker[r.Worker], r)
	c.byRequest[keyOf(r)] = r
}

// drop removes r, the oldest record of its worker.
func (c *Claims) drop(r *fsmpb.ClaimRecord) {
	c.Records.Delete(r)
	if k := keyOf(r); c.byRequest[k] == r {
		delete(c.byRequest, k)
	}
	own := c.byWorker[r.Worker]
	own[0] = nil
	if c.byWorker[r.Worker] = own[1:]; len(own) == 1 {
		delete(c.byWorker, r.Worker)
	}
}

// Forget removes the records that are too old for a worker to repeat.
func (c *Claims) Forget(now int64) {
	c.Records.DropWhile(func(r *fsmpb.ClaimRecord) bool { return job.Later(r.ClaimedAtMs, ClaimMemoryMs) < now }, c.drop)
}

// String lists what is derived from the records, for comparisons.
func (c *Claims) String() string {
	var out strings.Builder
	for _, worker := range slices.Sorted(maps.Keys(c.byWorker)) {
		fmt.Fprintf(&out, "claims of worker %q:", worker)
		for _, r := range c.byWorker[worker] {
			fmt.Fprintf(&out, " %d", r.FirstToken)
		}
		out.WriteByte('\n')
	}
	byName := func(a, b claimKey) int {
		return cmp.Or(strings.Compare(a.worker, b.worker), strings.Compare(a.request, b.request))
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.byRequest), byName) {
		fmt.Fprintf(&out, "claim %q of worker %q: %d\n", k.request, k.worker, c.byRequest[k].FirstToken)
	}
	return out.String()
}
