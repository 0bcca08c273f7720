package model

import (
	"osqueue/internal/crontab"
	"osqueue/tests/history"
)

// scheduled: a schedule fires for each of its times once and in order, or says how many it has missed, and a time has one job.
func scheduled(f *facts, v *Verdict) {
	f.firesInLog(v)
	f.firesByAnswers(v)
}

// schedule is one whose spec the log has.
type schedule struct {
	spec  string
	times *crontab.Schedule
	all   bool  // it makes up for each time that it has missed
	last  int64 // time of the last fire, ms; 0: there was none
}

func (f *facts) firesInLog(v *Verdict) {
	of := make(map[string]*schedule)
	for _, l := range f.log {
		if l.Code != okCode || l.Schedule == "" {
			continue
		}
		s := of[l.Schedule]
		switch {
		case l.Kind == history.Schedule && l.Spec == "":
			delete(of, l.Schedule)
		case l.Kind == history.Schedule:
			times, err := crontab.Parse(l.Spec, "")
			if err != nil {
				v.broken(nil, "log %s: schedule %s: %v", l.LSN, l.Schedule, err)
				continue
			}
			if s == nil || s.spec != l.Spec {
				s = &schedule{spec: l.Spec, times: times}
				of[l.Schedule] = s
			}
			s.all = l.All
		case l.Kind == history.Fire && s != nil:
			v.Checked++
			s.fires(v, l)
		}
	}
}

// missedMax bounds the count of missed times.
const missedMax = 100_000

// fires checks one fire.
func (s *schedule) fires(v *Verdict, l *history.Applied) {
	if want := s.times.Next(s.last); s.last != 0 && l.Due != want {
		v.broken(nil, "log %s: schedule %s, which has fired for %d, fires for the time %d in place of %d", l.LSN, l.Schedule, s.last, l.Due, want)
	}
	missed := uint64(0)
	for at := l.Due; at < l.At && missed < missedMax; at = s.times.Next(at) {
		missed++
	}
	if missed != l.Missed || s.all && missed > 0 || l.At < l.Due || l.At > l.Now {
		v.broken(nil, "log %s: at %d ms schedule %s fires for %d, and %d was due: it has missed %d times and says %d",
			l.LSN, l.Now, l.Schedule, l.At, l.Due, missed, l.Missed)
	}
	for _, it := range l.Jobs {
		if didItem(it) && it.Scheduled != (history.Scheduled{Schedule: l.Schedule, At: l.At}) {
			v.broken(nil, "log %s: the job %s of schedule %s for %d is of %q for %d", l.LSN, it.Job, l.Schedule, l.At, it.Schedule, it.At)
		}
	}
	s.last = l.At
}

// firesByAnswers: the jobs that were handed out, and those at the end, have times of their own.
func (f *facts) firesByAnswers(v *Verdict) {
	if f.loses {
		v.Note = "a fault has lost what was not in the bucket, also fires: only the log was judged"
		return
	}
	jobs := make(map[history.Scheduled]string)
	one := func(job string, of history.Scheduled, ops ...int) {
		if of.At == 0 {
			return
		}
		v.Checked++
		if other := jobs[of]; other != "" && other != job {
			v.broken(ops, "jobs %s and %s are both of schedule %s for %d", other, job, of.Schedule, of.At)
		}
		jobs[of] = job
	}
	for _, op := range f.ops {
		for _, held := range op.Jobs {
			one(held.Job, held.Scheduled, op.ID)
		}
	}
	for i := range f.h.Finals {
		one(f.h.Finals[i].Job, f.h.Finals[i].Scheduled)
	}
}
