package fsm

import (
	"bytes"
	"slices"
	"strings"

	"osqueue/fsm/answers"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/tenants"
	"osqueue/fsm/uniques"
	"osqueue/fsm/usage"
)

// enqueue adds all jobs or none: it checks everything before it changes anything.
func (e *entry) enqueue(op *fsmpb.Enqueue) Result {
	if p := op.Parent; p != nil {
		if _, code := e.held(p.Worker, p.Owner, p.Lease, NoEnd); code != OK {
			return refused(code, -1, len(op.Jobs))
		}
	}
	batch, code := e.batches.check(op.NewBatch, e.meta.NowMs)
	if batch != nil && code == OK {
		code = e.mayKeep(usage.OfNewBatch(batch, len(op.Jobs)), usage.Kept{}, op.NewBatch.Quota)
	}
	if code != OK {
		return refused(code, -1, len(op.Jobs))
	}
	res := e.enqueueJobs(plan{jobs: op.Jobs, batch: batch, scope: op.Scope})
	if batch != nil && len(op.Jobs) > 0 && res.Code == OK {
		if made := e.batches.Find(batch); made.Total == 0 { // no job was added, and no other job would end it
			e.putBatch(made, fsmpb.Copy(made))
		}
	}
	return res
}

// enqueueJobs adds the jobs of a plan and their new batch.
func (e *entry) enqueueJobs(p plan) Result {
	p.e, p.outcomes = e, e.newOutcomes(len(p.jobs))
	if p.batch != nil {
		p.noteBatch(p.batch)
	}
	if code, i := p.check(); code != OK {
		return refused(code, i, len(p.jobs))
	}
	if p.batch != nil {
		e.storeBatch(nil, p.batch)
	}
	return p.carryOut()
}

// newOutcomes returns n zero outcomes, which are valid until the next call.
func (e *entry) newOutcomes(n int) []outcome {
	clear(e.outcomes)
	if e.outcomes = slices.Grow(e.outcomes[:0], n)[:n]; n <= outcomesKept {
		return e.outcomes
	}
	large := e.outcomes
	e.outcomes = nil
	return large
}

// outcomesKept is the largest number of outcomes whose memory is used again.
const outcomesKept = 1024

// refused returns the answer to n new jobs that are refused because of job i (-1: none of
// them is at fault). Only Codes[i] is not OK.
func refused(code Code, i, n int) Result {
	res := Result{Code: code, Jobs: make([]*Job, n), Codes: make([]Code, n)}
	if i >= 0 {
		res.Codes[i] = code
	}
	return res
}

// plan has the decisions of an enqueue before it is carried out.
type plan struct {
	e        *entry
	jobs     []*fsmpb.NewJob
	batch    *JobBatch    // nil: none
	cron     string       // name of the schedule that they come from, or ""
	scope    *fsmpb.Scope // of the caller
	outcomes []outcome

	ids      map[string]int         // jobs that are added, by id; nil for a single job
	keys     map[uniques.Holder]int // jobs that are added, by type and unique key
	added    usage.Used             // overall
	types    map[string]usage.Used  // by type, where a type has quotas
	files    map[string]bool        // artefacts of the jobs that are added
	accounts map[string]usage.Used  // by account
}

// outcome is the decision on one job of a plan.
type outcome struct {
	job         *Job // the existing job; nil: the new job is added, or repeats one of the plan
	duplicateOf int  // 1 + the index of the job of the plan that it repeats; 0: none
	replaced    *Job // what job becomes; nil: it stays
}

func (f outcome) added() bool { return f.job == nil && f.duplicateOf == 0 }

// use adds to the usage of a type or account, in a map that is made when it is needed.
func use(of *map[string]usage.Used, name string, more usage.Used) {
	if *of == nil {
		*of = make(map[string]usage.Used)
	}
	used := (*of)[name]
	(*of)[name] = usage.Used{Jobs: used.Jobs + more.Jobs, Bytes: used.Bytes + more.Bytes}
}

// check decides on every job. It returns the first fault and the index of its job.
func (p *plan) check() (Code, int) {
	if len(p.jobs) > 1 {
		p.ids = make(map[string]int, len(p.jobs))
	}
	for i, n := range p.jobs {
		if code := p.checkOne(i, n); code != OK {
			return code, i
		}
	}
	return p.checkAfters()
}

func (p *plan) checkOne(i int, n *fsmpb.NewJob) Code {
	if n.Id == "" {
		return NoID
	}
	if old := p.e.ids.Get(n.Id); old != nil {
		p.outcomes[i].job = old
		return p.repeats(job.ContentOf(old) == job.ContentOfNew(n))
	}
	if old := p.e.requests.Removed(n.Id); old != nil {
		p.outcomes[i].job = answers.JobOf(old)
		p.outcomes[i].job.Type = strings.Clone(n.Type)
		want := job.ContentOfNew(n)
		return p.repeats(bytes.Equal(old.Fingerprint, want[:]))
	}
	if k, ok := p.ids[n.Id]; ok {
		p.outcomes[i].duplicateOf = k + 1
		return p.repeats(job.ContentOfNew(p.jobs[k]) == job.ContentOfNew(n))
	}
	if p.isHeld(i, n) {
		return p.checkReplaced(i, n)
	}
	if code := p.checkQuotas(n); code != OK {
		return code
	}
	if o := n.Options; o != nil && (o.Batch != "" && !p.openBatch(o.Batch) || slices.ContainsFunc(o.AfterBatches, p.unknownBatch)) {
		return NoSuchBatch
	}
	if !p.e.artefacts.Free(n.Artefacts, &p.files) {
		return NoSuchArtefact
	}
	p.note(i, n)
	return OK
}

func (p *plan) repeats(same bool) Code {
	if same {
		return OK
	}
	return IDTaken
}

// isHeld reports whether another job holds the job's unique key, and notes that job as
// the outcome.
func (p *plan) isHeld(i int, n *fsmpb.NewJob) bool {
	key := uniqueKey(n)
	if key == "" {
		return false
	}
	if j := p.e.uniques.Holder(p.e.ids, n.Type, key); j != nil {
		p.outcomes[i].job = j
		return true
	}
	if k, ok := p.keys[uniques.Holder{Type: n.Type, Key: key}]; ok {
		p.outcomes[i].duplicateOf = k + 1
		return true
	}
	return false
}

// uniqueKey returns the unique key that n asks for, or "" if it has no key or no scope.
func uniqueKey(n *fsmpb.NewJob) string {
	u := n.Options.GetUnique()
	if u.GetScope() == uint32(UniqueNone) {
		return ""
	}
	return u.Key
}

// findBatch returns the batch with that id, which the plan may make, or nil.
func (p *plan) findBatch(id string) *JobBatch {
	if p.batch != nil && p.batch.Id == id {
		return p.batch
	}
	return p.e.batches.Find(&JobBatch{Id: id})
}

func (p *plan) openBatch(id string) bool {
	b := p.findBatch(id)
	return b != nil && b.EndedAtMs == 0
}

func (p *plan) unknownBatch(id string) bool { return p.findBatch(id) == nil }

// note records job n, which is added, for the checks of the jobs after it.
func (p *plan) note(i int, n *fsmpb.NewJob) {
	if p.ids == nil {
		return
	}
	p.ids[n.Id] = i
	if key := uniqueKey(n); key != "" {
		if p.keys == nil {
			p.keys = make(map[uniques.Holder]int)
		}
		p.keys[uniques.Holder{Type: n.Type, Key: key}] = i
	}
	p.use(n.Type, n.GetQuota().GetAccount(), usage.Used{Jobs: 1, Bytes: job.NewSize(n)})
}

// use counts what the plan adds.
func (p *plan) use(jobType, account string, more usage.Used) {
	if account != "" {
		use(&p.accounts, account, more)
	}
	p.added.Jobs += more.Jobs
	p.added.Bytes += more.Bytes
	if q := p.e.types.queues[jobType]; q != nil && q.settings != nil {
		use(&p.types, jobType, more)
	}
}

// checkQuotas checks each quota of the type, then the overall one. The payload comes
// first: waiting does not make it smaller.
func (p *plan) checkQuotas(n *fsmpb.NewJob) Code {
	limits, size := p.limits(n.Type), job.NewSize(n)
	switch {
	case limits[0].tooLarge(len(n.Payload)) || limits[1].tooLarge(len(n.Payload)):
		return PayloadTooLarge
	case limits[0].tooMany() || limits[1].tooMany():
		return TooManyJobs
	case limits[0].tooFull(size) || limits[1].tooFull(size):
		return TooManyBytes
	}
	return p.checkAccount(n)
}

// limits returns the quotas of a type and overall, with what the plan adds.
func (p *plan) limits(jobType string) [2]quota {
	limits := p.e.quotas(jobType)
	for i, more := range []usage.Used{p.types[jobType], p.added} {
		limits[i].jobs += more.Jobs
		limits[i].bytes += more.Bytes
	}
	return limits
}

// quotas returns the quota of a type, which is zero if it has no settings, and the overall one.
func (m *Machine) quotas(jobType string) [2]quota {
	s := m.meta.Settings
	limits := [2]quota{1: {
		jobsMax: s.MaxJobs, bytesMax: s.MaxBytes, payloadMax: s.MaxPayload, jobs: int64(m.counts.NotEnded()), bytes: m.Bytes(),
	}}
	if q := m.types.queues[jobType]; q != nil && q.settings != nil {
		s := q.settings
		limits[0] = quota{
			jobsMax: s.MaxJobs, bytesMax: s.MaxBytes, payloadMax: s.MaxPayload, jobs: int64(q.counts.NotEnded()), bytes: q.bytes,
		}
	}
	return limits
}

// quota has the limits of a type or of all types (0 or less: no limit) and the present
// usage.
type quota struct {
	jobsMax, bytesMax, payloadMax int64
	jobs, bytes                   int64
}

func (q *quota) tooLarge(payload int) bool { return q.payloadMax > 0 && int64(payload) > q.payloadMax }
func (q *quota) tooMany() bool             { return q.jobsMax > 0 && q.jobs >= q.jobsMax }
func (q *quota) tooFull(size int64) bool   { return q.bytesMax > 0 && q.bytes > q.bytesMax-size }

// checkAfters checks the dependencies of the jobs.
func (p *plan) checkAfters() (Code, int) {
	if !slices.ContainsFunc(p.jobs, func(n *fsmpb.NewJob) bool { return len(n.Options.GetAfter())+len(n.Options.GetAfterBatches()) > 0 }) {
		return OK, -1
	}
	first := cycle(p.edges(), len(p.jobs))
	waiting := make(map[string]int)
	for i, n := range p.jobs {
		o := n.Options
		if !p.outcomes[i].added() || o == nil {
			continue
		}
		switch {
		case slices.ContainsFunc(o.After, p.unknown):
			return NoSuchJob, i
		case i == first || o.Batch != "" && slices.Contains(o.AfterBatches, o.Batch):
			return Cycle, i
		case slices.ContainsFunc(job.EnqueuedAfter(o.After, o.AfterBatches), func(id string) bool {
			waiting[id]++
			return p.e.waits.Of(id).All+waiting[id] > waitersMax
		}):
			return TooManyWaiters, i
		}
	}
	return OK, -1
}

// edges returns, for each job, the indices of the jobs of the plan that it waits for.
func (p *plan) edges() map[int][]int {
	edges := make(map[int][]int)
	for i, n := range p.jobs {
		if !p.outcomes[i].added() {
			continue
		}
		for _, on := range job.Distinct(n.Options.GetAfter()) {
			if k, ok := p.ids[on]; ok && p.e.ids.Get(on) == nil {
				edges[i] = append(edges[i], k)
			} else if on == n.Id {
				edges[i] = append(edges[i], i)
			}
		}
	}
	return edges
}

// unknown reports whether a job does not exist for the caller, is not added by the plan, and did not end
// so short a time ago that the machine knows how.
func (p *plan) unknown(id string) bool {
	if j := p.e.ids.Get(id); j != nil {
		return !tenants.InScope(p.scope, j.Type, j.Options().Group)
	}
	if _, added := p.ids[id]; added || len(p.jobs) == 1 && id == p.jobs[0].Id {
		return false
	}
	r := p.e.requests.Removed(id)
	return r == nil || !tenants.InScope(p.scope, r.Type, r.Group)
}

// carryOut adds the jobs of a plan that was checked.
func (p *plan) carryOut() Result {
	res := newResult(len(p.jobs))
	for i, n := range p.jobs {
		switch f := p.outcomes[i]; {
		case f.replaced != nil:
			p.e.storeEdited(f.job, f.replaced)
			p.e.artefacts.Replace(f.job.ID, n.Artefacts, p.e.meta.NowMs)
			res.Jobs[i], res.Codes[i] = f.replaced, Replaced
		case f.job != nil:
			res.Jobs[i], res.Codes[i] = f.job, Duplicate
			if j := p.e.ids.Get(f.job.ID); j != nil && j.Seq == f.job.Seq {
				res.Jobs[i] = j // the mutation may have replaced it
			}
		case f.duplicateOf > 0:
			res.Jobs[i], res.Codes[i] = res.Jobs[f.duplicateOf-1], Duplicate
		default:
			res.Jobs[i] = p.e.add(n, p.cron)
			p.e.artefacts.Replace(n.Id, n.Artefacts, p.e.meta.NowMs)
		}
	}
	return res
}

// newResult returns an answer about n jobs.
func newResult(n int) Result {
	if n != 1 {
		return Result{Jobs: make([]*Job, n), Codes: make([]Code, n)}
	}
	one := new(struct {
		jobs  [1]*Job
		codes [1]Code
	})
	return Result{Jobs: one.jobs[:], Codes: one.codes[:]}
}

// add adds one job.
func (e *entry) add(n *fsmpb.NewJob, cron string) *Job {
	j := e.newJob(n, cron)
	e.put(nil, j)
	e.uniques.Reserve(j)
	return j
}

// newJob makes the job. It copies the fields that it keeps, so that a long-lived job does
// not keep its whole log entry in memory.
func (m *Machine) newJob(n *fsmpb.NewJob, cron string) *Job {
	m.meta.LastSeq++
	j := &Job{
		Seq:         m.meta.LastSeq,
		Type:        m.types.queue(n.Type).name,
		Priority:    n.Priority,
		MaxAttempts: job.AttemptsOf(n.MaxAttempts),
		CreatedAt:   m.meta.NowMs,
		RunAt:       runAt(n, m.meta.NowMs, m.meta.NowMs),
		Opt:         m.usage.Options(n, cron),
	}
	j.Hold(n.Id, n.Payload)
	if n.LeaseMs != 0 {
		j.Exec = &Execution{LeaseMs: n.LeaseMs}
	}
	if waits, line := (dependencies{m}).of(n), m.sequences.taken(n.Options.GetSequence()); len(waits) > 0 || line {
		j.Det = &Details{Waits: waits, InLine: line}
	}
	j.Status = j.FreeStatus(m.meta.NowMs)
	return j
}
