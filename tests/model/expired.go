package model

import "osqueue/tests/history"

// expired: a job starts for the first time before its start-before, or never; it expires only if it has not started, and not early.
func expired(f *facts, v *Verdict) {
	started, over := make(map[string]bool), make(map[string]history.LSN)
	for _, l := range f.log {
		for _, it := range l.Jobs {
			if l.Code != okCode || !didItem(it) {
				continue
			}
			if e := f.enqueue[it.Job]; l.Kind == history.Enqueue && e != nil && e.Before > 0 && it.Before == 0 {
				v.broken([]int{e.ID}, "log %s: job %s has no start-before", l.LSN, it.Job)
			}
			if it.Before == 0 {
				continue
			}
			at, is := over[it.Job]
			switch {
			case l.Kind == history.Other: // perhaps a retry
				delete(over, it.Job)
				started[it.Job] = true
			case l.Kind == history.Snapshot:
				started[it.Job] = it.Token != 0
			case l.Kind == history.Claim:
				v.Checked++
				if !started[it.Job] && l.Now >= it.Before {
					v.broken(f.opsOf(it.Job), "log %s: job %s starts at %d ms, and its start-before was %d", l.LSN, it.Job, l.Now, it.Before)
				}
				if is {
					v.broken(f.opsOf(it.Job), "log %s: job %s starts, and expired at %s", l.LSN, it.Job, at)
				}
				started[it.Job] = true
			case it.Status == expiredStatus && !is:
				v.Checked++
				if started[it.Job] || l.Now < it.Before {
					v.broken(f.opsOf(it.Job), "log %s: job %s expires at %d ms; it has started: %v, its start-before is %d",
						l.LSN, it.Job, l.Now, started[it.Job], it.Before)
				}
				over[it.Job] = l.LSN
			}
		}
	}
	end := &history.Op{Return: history.Never}
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			j := f.final[held.Job]
			if e := f.enqueue[held.Job]; j == nil || e == nil || e.Before == 0 {
				continue
			}
			if v.Checked++; j.Status == expiredStatus && !f.mayBeLost(op, end) {
				v.broken([]int{op.ID}, "job %s was handed out, and has expired", held.Job)
			}
		}
	}
}
