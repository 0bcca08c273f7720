package document

import (
	"cmp"
	"slices"

	"osqueue/fsm"
)

// reconcile makes the jobs and the other records consistent with the changes of a legacy
// broker. It ends attempts on behalf of the machine, which only acts on log entries.
func (d *decoder) reconcile() {
	jobs := slices.Concat(d.waiting, d.others)
	changed := d.cancelAsked(jobs)
	changed = d.unblock(jobs) || changed
	if called := d.recount(jobs); len(called) > 0 {
		d.others, jobs = append(d.others, called...), append(jobs, called...)
		changed = true
	}
	if changed {
		slices.SortStableFunc(jobs, waitingFirst)
		d.waiting, d.others = jobs, nil
	}
}

// waitingFirst compares two jobs by the order of File.Jobs: available and running jobs
// first.
func waitingFirst(a, b *fsm.Job) int {
	if wa, wb := isWaiting(a), isWaiting(b); wa != wb {
		if wa {
			return -1
		}
		return 1
	} else if !wa {
		return 0
	}
	return cmp.Compare(a.Seq, b.Seq)
}

func isWaiting(j *fsm.Job) bool { return slices.Contains(waiting, j.Status) }

func hasEnded(j *fsm.Job) bool {
	return j.Status == fsm.Completed || j.Status == fsm.Dead || j.Status == fsm.Cancelled
}

// voidDetails drops the details of an attempt that may have been replaced by another one
// since. The history and a request to cancel the job stay valid.
func voidDetails(j *fsm.Job) {
	if j.Det == nil || !isWaiting(j) {
		return
	}
	j.Det = detailsOrNil(&fsm.Details{History: j.Det.History, CancelAt: j.Det.CancelAt, Extra: j.Det.Extra})
}

// cancelAsked cancels the jobs that were to be cancelled at the end of their attempt and
// that a legacy broker has put back since.
func (d *decoder) cancelAsked(jobs []*fsm.Job) (changed bool) {
	for _, j := range jobs {
		if j.Status != fsm.Unclaimed || j.Details().CancelAt == 0 {
			continue
		}
		j.Status, j.Exec.FinishedAt = fsm.Cancelled, d.doc.Meta.Now
		d.doc.Meta.CancelledTotal++
		if b := d.batchOf(j); b != nil && pending(b) > 0 {
			b.Cancelled++
		}
		changed = true
	}
	return changed
}

// unblock removes missing jobs from the dependencies of blocked jobs: a legacy broker
// removes completed jobs only.
func (d *decoder) unblock(jobs []*fsm.Job) (changed bool) {
	var present map[string]bool
	for _, j := range jobs {
		if j.Status != fsm.Blocked {
			setWaits(j, nil)
			continue
		}
		if present == nil {
			present = make(map[string]bool, len(jobs))
			for _, other := range jobs {
				present[other.ID] = true
			}
		}
		setWaits(j, slices.DeleteFunc(slices.Clone(j.Details().Waits), func(id string) bool { return !present[id] }))
		if len(j.Details().Waits) == 0 {
			j.Status, changed = d.readyStatus(j), true
		}
	}
	return changed
}

func setWaits(j *fsm.Job, waits []string) {
	if len(j.Details().Waits) == len(waits) {
		return
	}
	det := *j.Det
	det.Waits = waits
	j.Det = detailsOrNil(&det)
}

func (d *decoder) readyStatus(j *fsm.Job) fsm.Status {
	if j.RunAt > d.doc.Meta.Now {
		return fsm.Scheduled
	}
	return fsm.Unclaimed
}
