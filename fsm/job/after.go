package job

import (
	"slices"
	"strings"

	"osqueue/fsm/tenants"
)

// A job waits for the ids in Details.Waits: of jobs, and of batches. The id of a batch begins with one of these marks, which the
// id of no job has.
const (
	batchMark = "\x00batch:" // it is in Options.AfterBatches
	endMark   = "\x00end:"   // the job is suspended until the batch has ended, whatever its end
)

// ForBatch returns the id by which a job waits for a batch.
func ForBatch(batch string) string { return batchMark + batch }

// EnqueuedAfter returns the ids by which a job waits for jobs and then batches.
func EnqueuedAfter(jobs, batches []string) []string {
	ids := slices.Clone(Distinct(jobs))
	for _, batch := range Distinct(batches) {
		ids = append(ids, ForBatch(batch))
	}
	return ids
}

// UntilEnd returns the id by which a suspended job waits for the end of a batch.
func UntilEnd(batch string) string { return endMark + batch }

// BatchOf returns the batch of an id in Details.Waits, if it is that of one.
func BatchOf(on string) (batch string, ok bool) {
	if batch, ok = strings.CutPrefix(on, batchMark); ok {
		return batch, true
	}
	return strings.CutPrefix(on, endMark)
}

// FailureOf returns what the failure of what j waits for does to it.
func FailureOf(j *Job, on string) AfterFailure {
	if strings.HasPrefix(on, endMark) {
		return AfterRun
	}
	return j.Options().AfterFailure
}

// AfterFailure is the effect on a waiting job if a job or batch that it waits for fails: a job dies,
// expires or is cancelled, or one of the batch's did.
type AfterFailure uint8

// The choices. Snapshots have these numbers: they must not change.
const (
	AfterBlock  AfterFailure = iota // it keeps waiting: the other job may be retried
	AfterCancel                     // it is cancelled
	AfterRun                        // it stops waiting for that job
	AfterOnly                       // likewise; it is cancelled if none fails

	NumAfters = iota
)

var afterNames = [NumAfters]string{"block", "cancel", "run", "only"}

// String returns the choice's name as used on the wire.
func (a AfterFailure) String() string { return NameOf(afterNames[:], a) }

// waitsFor returns Details.Waits as a caller of a tenant sees them.
func waitsFor(tenant string, waits []string) []string {
	out := slices.Clone(waits)
	for i, on := range out {
		if batch, ok := BatchOf(on); ok {
			out[i] = "batch:" + tenants.NameFor(tenant, batch)
		}
	}
	return out
}

func waitsForBatch(on string) bool {
	_, ok := BatchOf(on)
	return ok
}
