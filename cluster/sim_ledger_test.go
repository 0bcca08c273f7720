package cluster

import (
	"fmt"
	"time"

	"osqueue/fsm"
	"osqueue/internal/crontab"
)

// simLedger records one line of history: what happened to each job, by the log entries in
// the order of commitment. A cluster that takes its state from the document begins a new
// line, which starts with the jobs of the document. All methods are called under
// world.mu.
//
// It does not know the machine's decisions. It knows which results are not allowed.
type simLedger struct {
	world   *simWorld
	cluster string
	base    fsm.LSN // LSN where it begins
	from    fsm.LSN // LSN of the document that it came from; zero: none
	jobs    map[string]*simJob
	token   uint64 // last fencing token
	last    fsm.LSN
	now     int64            // queue's time after the last entry, ms
	fired   map[string]int64 // by schedule, the last time for which it has fired

	keys      *simKeys
	sequences map[string]map[string]bool // ids of the jobs of each sequence, also of ones that have ended
	placed    int                        // number of jobs of sequences
	// end, if set, is where the cluster left the line: the later entries were lost with
	// the disks, or to another cluster. The bucket had the earlier ones.
	end *fsm.LSN
}

// simJob records the history of a job.
type simJob struct {
	enqueued  fsm.LSN
	status    fsm.Status
	token     uint64 // token of its last claim
	ended     fsm.LSN
	completed fsm.LSN // zero: it is not completed
	removed   bool
	result    string

	limits    []string
	sequence  string
	place     int // in its sequence: earlier jobs have lower ones
	payload   string
	revision  uint64             // number of edits
	edits     map[string]fsm.LSN // by payload
	refused   map[string]bool    // edits that were refused, by payload
	attempts  int32              // number of the last attempt
	notBefore int64              // ms; the end of the delay for which it was released; 0: it was not
	memory    map[string]string  // what it keeps for certain, as simHas names it

	// The next fields record the answers that clients have received.
	acked   bool      // the producer received the answer that the job exists
	safe    bool      // the producer received the answer that the bucket has the job
	renewed time.Time // before this (true) time the lease with the token was given or extended
	held    time.Duration
	leased  uint64 // that token
	done    bool   // the worker received the answer that the job is completed
	doneLSN fsm.LSN
	kept    bool // the worker received the answer that the bucket has the completion
}

func newSimLedger(w *simWorld, cluster string) *simLedger {
	return &simLedger{world: w, cluster: cluster, jobs: make(map[string]*simJob), fired: make(map[string]int64), keys: newSimKeys(), sequences: make(map[string]map[string]bool)}
}

// note records an entry.
func (l *simLedger) note(v *fsm.View, events []fsm.Event) {
	lsn := v.LSN()
	if lsn.Compare(l.last) <= 0 {
		l.world.failLocked("%s was applied after %s", lsn, l.last)
	}
	l.last = lsn
	if now := v.Now(); l.now > now {
		l.world.failLocked("%s sets the time back from %d to %d", lsn, l.now, now)
	}
	l.now = v.Now()
	for i := range events {
		e := &events[i]
		if e.Kind == fsm.CronFired {
			l.fire(lsn, e.Name, e.Job.ID)
		}
		if e.Kind == fsm.LimitSet {
			l.keys.set(e.Name, v.Limit(e.Name).GetRule())
		}
		if e.Job != nil {
			l.change(v, e)
		}
	}
}

// firedUpTo takes over the last times of the schedules in v.
func (l *simLedger) firedUpTo(v *fsm.View) {
	for c := range v.Crons("") {
		l.fired[c.Name] = c.LastAtMs
	}
}

// fire checks that each time of a schedule counts once, in their order, and that none is left out: the schedule makes up
// for all that it missed.
func (l *simLedger) fire(lsn fsm.LSN, name, jobID string) {
	w := l.world
	w.counts.One("check: schedule fires once")
	at, ok := crontab.TimeOfID(jobID)
	last := l.fired[name]
	if !ok || at <= last {
		w.failLocked("schedule %s fires at %s for %d (job %s), and has fired for %d", name, lsn, at, jobID, last)
	}
	if last != 0 && at != nextTime(simSpec, last) {
		w.failLocked("schedule %s fires at %s for %d, and fired for %d before: times in between are lost", name, lsn, at, last)
	}
	l.fired[name] = at
}

func ended(s fsm.Status) bool {
	return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled || s == fsm.Expired
}

func (l *simLedger) change(v *fsm.View, e *fsm.Event) {
	w, id, lsn := l.world, e.Job.ID, v.LSN()
	j := l.jobs[id]
	switch {
	case e.Removed:
		if j == nil || !ended(j.status) {
			w.failLocked("job %s was removed at %s before it had ended", id, lsn)
			return
		}
		j.removed = true
		return
	case e.Kind == fsm.JobEdited && j != nil:
		l.edited(lsn, j, e.Job)
		return
	case e.Kind != fsm.JobChanged:
		return
	case e.From == 0:
		l.enter(lsn, e.Job, j)
		return
	case j == nil || j.removed:
		w.failLocked("job %s, which is not there, becomes %s at %s", id, e.Job.Status, lsn)
		return
	case j.status != e.From:
		w.failLocked("job %s was %s, and becomes %s from %s at %s", id, j.status, e.Job.Status, e.From, lsn)
	}
	if e.Job.Status == fsm.InProgress {
		l.remembers(v, id, j, e.Job)
	}
	l.move(lsn, id, j, e)
}

func (l *simLedger) enter(lsn fsm.LSN, job *fsm.Job, j *simJob) {
	w := l.world
	if j != nil && !j.removed {
		w.failLocked("job %s is enqueued a second time at %s", job.ID, lsn)
	}
	if !w.asked[job.ID] && job.Type != simTick {
		w.failLocked("job %s at %s was invented", job.ID, lsn)
	}
	w.counts.One("check: job not invented")
	j = &simJob{enqueued: lsn, status: job.Status}
	j.ask(job)
	l.jobs[job.ID] = j
	l.join(job.ID, j)
}

func (l *simLedger) move(lsn fsm.LSN, id string, j *simJob, e *fsm.Event) {
	w, job := l.world, e.Job
	if ended(j.status) {
		w.failLocked("job %s, which is %s, becomes %s at %s", id, j.status, job.Status, lsn)
	}
	was := j.status
	j.status = job.Status
	if was == fsm.InProgress {
		l.over(j, job)
	}
	switch {
	case job.Status == fsm.InProgress:
		l.claimed(lsn, id, j, job)
		l.attempt(lsn, id, j, job)
	case was == fsm.InProgress && job.AttemptEnd == fsm.EndLease:
		l.expired(lsn, id, j)
	}
	if ended(job.Status) {
		j.ended = lsn
		w.counts.One("job " + job.Status.String())
	}
	if job.Status == fsm.Completed {
		j.completed, j.result = lsn, string(job.Execution().Result)
		w.counts.One("check: completed once")
		if job.Execution().Token != j.token {
			w.failLocked("job %s is completed at %s with token %d, and was claimed with %d", id, lsn, job.Execution().Token, j.token)
		}
	}
}

// claimed checks that tokens grow and are given only once.
func (l *simLedger) claimed(lsn fsm.LSN, id string, j *simJob, job *fsm.Job) {
	w := l.world
	w.counts.One("check: token")
	if job.Execution().Token <= l.token || job.Execution().Token <= j.token {
		w.failLocked("job %s is claimed with token %d at %s after %d", id, job.Execution().Token, lsn, l.token)
	}
	if other, ok := w.tokens[job.Execution().Token]; ok {
		w.failLocked("job %s is claimed at %s with token %d, which job %s had", id, lsn, job.Execution().Token, other)
	}
	w.tokens[job.Execution().Token] = id
	l.token, j.token = job.Execution().Token, job.Execution().Token
}

// simSlack allows for the rounding of times to milliseconds.
const simSlack = 5 * time.Millisecond

// expired checks the duration of a lease. A leader's clock may be slewed by a tenth,
// whatever happens to the wall clocks, so no lease is shorter than ten elevenths of the
// promised time.
func (l *simLedger) expired(lsn fsm.LSN, id string, j *simJob) {
	w := l.world
	w.counts.One("lease expired")
	if j.leased != j.token || j.held == 0 {
		return // no worker has received an answer with this lease
	}
	w.counts.One("check: lease in full")
	least := j.held*10/11 - simSlack
	if got := time.Since(j.renewed); got < least {
		w.failLocked("the lease of job %s with token %d ended at %s after %v, of %v", id, j.token, lsn, got, j.held)
	}
}

// fork begins the line of a cluster that has taken over the state at from. own is the
// line that it leaves; nil: none. Jobs that were acknowledged on that line, and that the
// document lacks, may be carried over.
func (l *simLedger) fork(cluster string, from fsm.LSN, v *fsm.View, own *simLedger) *simLedger {
	w := l.world
	next := newSimLedger(w, cluster)
	next.base, next.from, next.last = v.LSN(), from, v.LSN()
	next.token = v.Meta().LastToken
	next.firedUpTo(v)
	live := make(map[string]*fsm.Job)
	for _, s := range []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired} {
		v.Jobs(s, 0, func(j *fsm.Job) bool {
			live[j.ID] = j
			return true
		})
	}
	for id, j := range l.jobs {
		l.inherit(next, id, j, live[id], from, own)
	}
	for id, now := range live {
		switch {
		case next.jobs[id] != nil:
		case own != nil && own.jobs[id] != nil:
			next.jobs[id] = own.jobs[id].carried(now)
			w.counts.One("job carried over")
		default:
			w.failLocked("job %s came out of the document of %s, and nobody had it there", id, from)
		}
	}
	next.adopt(v, live)
	l.superseded(from)
	return next
}

// carried returns the record of a job that came into an adopted state from the line that
// was left. now is the job in the new state.
func (j *simJob) carried(now *fsm.Job) *simJob {
	c := *j
	c.status, c.token, c.removed = now.Status, now.Execution().Token, false
	if !ended(c.status) {
		c.ended, c.completed, c.done, c.kept = fsm.LSN{}, fsm.LSN{}, false, false
	}
	return &c
}

// inherit copies the record of a job to the next line. own is the line that was left: jobs of it may have
// been carried over, and may have displaced ended ones; nil: none.
func (l *simLedger) inherit(next *simLedger, id string, j *simJob, now *fsm.Job, from fsm.LSN, own *simLedger) {
	w, carries := l.world, own != nil
	if j.enqueued.Compare(from) > 0 {
		w.counts.One("job lost with the disks")
		if j.safe {
			w.failLocked("job %s was acknowledged at %s as being in the bucket, and is not in the document of %s", id, j.enqueued, from)
		}
		return
	}
	c := *j
	if c.done && c.completed.Compare(from) > 0 {
		if c.kept {
			w.failLocked("the end of job %s was acknowledged as being in the bucket, and is not in the document of %s", id, from)
		}
		c.done, c.kept, c.completed = false, false, fsm.LSN{}
	}
	switch {
	case now != nil:
		c.status, c.token, c.removed = now.Status, now.Execution().Token, false
		switch {
		case !ended(c.status):
			c.ended, c.completed = fsm.LSN{}, fsm.LSN{}
		case c.ended.IsZero(): // its end was carried over
			c.ended = next.base
		}
	case !j.ended.IsZero() && j.ended.Compare(from) <= 0 && (j.removed || carries): // retention has removed it
	case own.hasEnded(id): // its end was carried over, and retention has removed it since
		c.status, c.ended, c.removed = own.jobs[id].status, next.base, true
	default:
		w.failLocked("job %s, which is %s (enqueued %s, ended %s, removed %v), is not in the document of %s; %s", id, j.status, j.enqueued, j.ended, j.removed, from, own.about(id))
		return
	}
	next.jobs[id] = &c
}

// superseded records that the line was left at an LSN.
func (l *simLedger) superseded(at fsm.LSN) {
	if l.end == nil || at.Compare(*l.end) < 0 {
		l.end = &at
	}
}

// finish checks the answers that clients have received, at the end of a run, on the line
// that is left.
func (l *simLedger) finish() {
	w := l.world
	for _, other := range w.lines {
		if other != l && other.end == nil && len(other.jobs) > 0 {
			w.failLocked("there is a line of history up to %s that nobody has gone on with", other.last)
		}
	}
	for id, j := range l.jobs {
		if !ended(j.status) {
			w.failLocked("job %s is %s in the end", id, j.status)
		}
		if j.acked {
			w.counts.One("check: acknowledged job is there")
		}
		if j.done && (j.status != fsm.Completed || j.completed != j.doneLSN) {
			w.failLocked("job %s was acknowledged as completed at %s, and is %s of %s", id, j.doneLSN, j.status, j.completed)
		}
	}
}

// hasEnded reports whether a job has ended on the line that was left; l may be nil.
func (l *simLedger) hasEnded(id string) bool {
	return l != nil && l.jobs[id] != nil && ended(l.jobs[id].status)
}

// about describes a job of the line that was left; l may be nil.
func (l *simLedger) about(id string) string {
	if l == nil || l.jobs[id] == nil {
		return "the cluster that adopts it had no such job"
	}
	j := l.jobs[id]
	return fmt.Sprintf("in the cluster that adopts it the job is %s (ended %s, removed %v)", j.status, j.ended, j.removed)
}
