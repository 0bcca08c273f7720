package document

import (
	"encoding/hex"

	"osqueue/fsm"
)

// counts appends the number of jobs by status, for people.
func (a *appender) counts(counts fsm.Counts) {
	a.key("counts")
	a.open('{')
	for status, n := range counts {
		if n != 0 {
			a.plain(fsm.Status(status).String(), int64(n))
		}
	}
	a.close('}')
}

// liveMax is the largest size of the list liveJobs, bytes.
const liveMax = 64 << 10

// live are the statuses of the jobs that have not ended.
var live = []fsm.Status{fsm.Unclaimed, fsm.InProgress, fsm.Scheduled, fsm.Blocked}

// liveJobs appends the jobs of v that have not ended, for people, if they take at most
// bytesMax bytes; otherwise nothing. The cost is proportional to bytesMax at most: it does
// not look at the jobs that have ended, or at any job if there are too many.
func (a *appender) liveJobs(v *fsm.View, bytesMax int) {
	before := len(a.buf)
	if !a.tryLiveJobs(v, before+bytesMax) {
		a.buf = a.buf[:before]
	}
}

// tryLiveJobs reports whether the list fits into a buffer of end bytes; if not, the output
// is incomplete.
func (a *appender) tryLiveJobs(v *fsm.View, end int) (fits bool) {
	counts, jobs := v.Counts(), 0
	for _, s := range live {
		jobs += counts[s]
	}
	if len(a.buf)+jobs*jobLeast > end {
		return false
	}
	fits = true
	a.key("liveJobs")
	a.open('[')
	v.Merged(live, 0, func(j *fsm.Job) bool {
		if fits = len(a.buf)+len(j.Payload()) < end; fits {
			a.next()
			a.job(j)
		}
		return fits
	})
	a.close(']')
	return fits && len(a.buf) <= end
}

// added appends the jobs that are to be enqueued.
func (a *appender) added(jobs []*fsm.Job) {
	if len(jobs) == 0 {
		return
	}
	a.key("jobs")
	a.open('[')
	for _, j := range jobs {
		a.next()
		a.job(j)
	}
	a.close(']')
}

// archive appends the checkpoint, the log and the tail.
func (a *appender) archive(arc *Archive) {
	a.checkpoint(&arc.Checkpoint)
	if len(arc.Log) > 0 {
		a.key("log")
		a.open('[')
		for i := range arc.Log {
			a.next()
			a.ref(&arc.Log[i])
		}
		a.close(']')
	}
	a.tail(&arc.Tail)
}

func (a *appender) checkpoint(b *Checkpoint) {
	a.key("base")
	a.open('{')
	a.text("key", b.Key)
	a.lsn("lsn", b.LSN)
	a.lsn("prev", b.Prev)
	a.nonzero("at", b.At)
	a.nonzero("raw", b.Raw)
	a.nonzero("stored", b.Stored)
	a.sum("sha256", b.Sum)
	a.close('}')
}

func (a *appender) ref(r *Ref) {
	a.open('{')
	a.text("key", r.Key)
	a.run(&r.Run)
	a.nonzero("stored", r.Stored)
	a.sum("sha256", r.Sum)
	a.close('}')
}

func (a *appender) tail(t *Tail) {
	a.key("tail")
	a.open('{')
	a.run(&t.Run)
	a.sum("sha256", t.Sum)
	if len(t.Data) > 0 {
		a.key("zstd")
		a.quote64(t.Data)
	}
	a.close('}')
}

func (a *appender) run(r *Run) {
	a.lsn("after", r.After)
	a.lsn("last", r.Last)
	a.nonzero("from", r.From)
	a.nonzero("until", r.Until)
	a.natural("entries", r.Entries)
	a.nonzero("raw", r.Raw)
}

func (a *appender) lsn(name string, lsn fsm.LSN) {
	if !lsn.IsZero() {
		a.text(name, lsn.String())
	}
}

func (a *appender) sum(name string, sum Sum) {
	if sum != (Sum{}) {
		a.key(name)
		a.buf = append(a.buf, '"')
		a.buf = hex.AppendEncode(a.buf, sum[:])
		a.buf = append(a.buf, '"')
	}
}
