package model

// ended: all faults healed and the workers at work, every job comes to its end.
func ended(f *facts, v *Verdict) {
	if len(f.h.Finals) == 0 {
		v.void("the jobs at the end were not read")
		return
	}
	for i := range f.h.Finals {
		job := &f.h.Finals[i]
		if v.Checked++; !hasEnded(job.Status) {
			var ops []int
			if e := f.enqueue[job.Job]; e != nil {
				ops = []int{e.ID}
			}
			v.broken(ops, "job %s has not ended: it is %s after %d attempts", job.Job, job.Status, job.Attempts)
		}
	}
}
