package fsm_test

import (
	"slices"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// enqueue adds all jobs or none.
func (m *model) enqueue(op *fsmpb.Enqueue) fsm.Result {
	before := m.copied()
	res := fsm.Result{Jobs: make([]*fsm.Job, len(op.Jobs)), Codes: make([]fsm.Code, len(op.Jobs))}
	if p := op.Parent; p != nil {
		if res.Code = verdict(m.job(p.Lease.JobId), p.Worker, p.Owner, p.Lease.Token, fsm.NoEnd); res.Code != fsm.OK {
			m.did = append(m.did, "a parent is refused")
			return res
		}
		m.did = append(m.did, "a job has children")
	}
	blamed := -1
	if id := op.NewBatch.GetId(); len(op.Jobs) > 0 && m.batch(id) == nil {
		m.opening = id
	}
	defer func() { m.opening = "" }()
	if res.Code = m.newBatch(op.NewBatch, len(op.Jobs)); res.Code == fsm.OK {
		blamed, res.Code = m.addAll(op.Jobs, "", op.Scope, res)
	}
	if n := op.NewBatch; res.Code == fsm.OK && n != nil && len(op.Jobs) > 0 && before.batch(n.Id) == nil {
		m.endIfEmpty(m.batch(n.Id))
	}
	if res.Code != fsm.OK {
		*m = *before
		clear(res.Jobs)
		clear(res.Codes)
		if blamed >= 0 {
			res.Codes[blamed] = res.Code
		}
	}
	return res
}

// addAll adds jobs and notes in res what became of each. At the first fault it
// stops, says which job is to blame, and leaves the clearing up to the caller.
func (m *model) addAll(jobs []*fsmpb.NewJob, cron string, scope *fsmpb.Scope, res fsm.Result) (blamed int, code fsm.Code) {
	m.touched, m.attaching = nil, nil
	var added []string
	for i, n := range jobs {
		var isNew bool
		if res.Jobs[i], isNew, code = m.addOne(n, cron); !code.Done() {
			return i, code
		}
		res.Codes[i] = code
		if isNew {
			added = append(added, n.Id)
		}
	}
	for i, n := range jobs {
		if res.Codes[i] == fsm.OK {
			if code := m.checkAfter(n, added, scope); code != fsm.OK {
				return i, code
			}
		}
	}
	m.attachAll()
	return -1, fsm.OK
}

// addOne goes through all checks that look at one job only.
func (m *model) addOne(n *fsmpb.NewJob, cron string) (j *fsm.Job, isNew bool, code fsm.Code) {
	if n.Id == "" {
		return nil, false, fsm.NoID
	}
	j = m.fresh(n, cron)
	if old := m.job(n.Id); old != nil {
		if !sameContent(old, j) {
			return nil, false, fsm.IDTaken
		}
		return old, false, fsm.Duplicate
	}
	if old, content := m.removed(n.Id); old != nil {
		if content != fsm.ContentOf(j) {
			return nil, false, fsm.IDTaken
		}
		old.Type = n.Type
		return old, false, fsm.Duplicate
	}
	if holder := m.holder(j, nil); holder != nil {
		return m.replace(holder, j, n)
	}
	if code := m.overQuota(j); code != fsm.OK {
		return nil, false, code
	}
	if code := m.overTokenQuota(j, n.Quota); code != fsm.OK {
		return nil, false, code
	}
	if j.Options().Batch != "" {
		if b := m.batch(j.Options().Batch); b == nil || b.EndedAtMs != 0 {
			return nil, false, fsm.NoSuchBatch
		}
	}
	for _, id := range n.Options.GetAfterBatches() {
		if m.batch(id) == nil {
			return nil, false, fsm.NoSuchBatch
		}
	}
	if code := m.give(j.ID, n.Artefacts); code != fsm.OK {
		return nil, false, code
	}
	m.touch(j.ID)
	m.enter(j)
	return j, true, fsm.OK
}

// replace gives the fields of a new job to the waiting job that holds its key, if it asks for that. A job is replaced once
// in a mutation, and not if the mutation has added it.
func (m *model) replace(old, j *fsm.Job, n *fsmpb.NewJob) (*fsm.Job, bool, fsm.Code) {
	waits := old.Status == fsm.Blocked || old.Status == fsm.Scheduled || old.Status == fsm.Unclaimed
	if n.Options.GetUnique().OnConflict == 0 || !waits || m.touched[old.ID] {
		return old, false, fsm.Duplicate
	}
	to := *old
	o := *old.Options()
	to.Priority, to.MaxAttempts = j.Priority, j.MaxAttempts
	to.SetPayload(n.Payload)
	o.Tags, o.Limits, o.Headers = j.Options().Tags, j.Options().Limits, j.Options().Headers
	to.Opt = &o
	if at := m.wantedRunAt(n, old.CreatedAt); at != 0 {
		to.RunAt = at
	}
	was := old.Options()
	headers := func(a, b *fsmpb.Header) bool { return a.Name == b.Name && a.Value == b.Value }
	if to.Priority == old.Priority && to.MaxAttempts == old.MaxAttempts && to.RunAt == old.RunAt &&
		string(to.Payload()) == string(old.Payload()) && (to.Payload() == nil) == (old.Payload() == nil) &&
		slices.Equal(o.Tags, was.Tags) && slices.Equal(o.Limits, was.Limits) && slices.EqualFunc(o.Headers, was.Headers, headers) &&
		len(n.Artefacts)+len(m.artefactsOf(old.ID)) == 0 {
		return old, false, fsm.Duplicate
	}
	if code := m.overEdited(old, &to, n.Quota); code != fsm.OK {
		return nil, false, code
	}
	if code := m.give(old.ID, n.Artefacts); code != fsm.OK {
		return nil, false, code
	}
	m.touch(old.ID)
	return m.storeFields(old, &to), false, fsm.Replaced
}

// touch notes a job that the enqueue has added or replaced.
func (m *model) touch(id string) {
	if m.touched == nil {
		m.touched = map[string]bool{}
	}
	m.touched[id] = true
}

// wantedRunAt is the run time that an enqueue asks for a job that was created at a time, or 0.
func (m *model) wantedRunAt(n *fsmpb.NewJob, created int64) int64 {
	u := n.Options.GetUnique()
	if fsm.OnConflict(u.GetOnConflict()) != fsm.ConflictDebounce {
		return n.RunAtMs
	}
	at := sum(m.meta.NowMs, max(u.WaitMs, 0))
	if u.MaxWaitMs > 0 {
		at = min(at, sum(created, u.MaxWaitMs))
	}
	return at
}

// enter adds a job that passed the checks, or needs none.
func (m *model) enter(j *fsm.Job) {
	m.meta.LastSeq++
	m.add(j)
	if u := j.Options().Unique; unique(j) && u.Scope == fsm.UniquePeriod {
		m.holds = put(m.holds, &fsm.Hold{
			Type: j.Type, Key: u.Key, Seq: j.Seq, JobId: j.ID, UntilMs: sum(m.meta.NowMs, u.PeriodMs),
		}, byTypeAndKey)
	}
}

// fresh is the job that n asks for.
func (m *model) fresh(n *fsmpb.NewJob, cron string) *fsm.Job {
	j := &fsm.Job{
		Seq: m.meta.LastSeq + 1, ID: n.Id, Type: n.Type,
		Priority: n.Priority, MaxAttempts: fsm.MaxAttemptsUnset, CreatedAt: m.meta.NowMs, RunAt: m.wantedRunAt(n, m.meta.NowMs),
		Exec: &fsm.Execution{
			LeaseMs: n.LeaseMs,
		},
		Opt: &fsm.Options{
			Backoff: backoffOf(n.Options.GetBackoff()), TimeoutMs: n.Options.GetTimeoutMs(), Group: n.Options.GetGroup(), Tags: withoutRepetitions(n.Options.GetTags()), Headers: headersOf(n),
			After: n.Options.GetAfter(), AfterFailure: fsm.AfterFailure(n.Options.GetAfterFailure()), Batch: n.Options.GetBatch(), Cron: cron, Account: n.Quota.GetAccount(), Limits: n.Options.GetLimits(), Sequence: n.Options.GetSequence(),
			StartBefore: n.Options.GetStartBeforeMs(), RetainMs: n.Options.GetRetainMs(), OnError: onErrorOf(n),
			AfterNames: n.Options.GetAfterNames(), AfterBatches: withoutRepetitions(n.Options.GetAfterBatches()), Step: n.Options.GetStep(),
			Unique: fsm.Unique{
				Key: n.Options.GetUnique().GetKey(), Scope: fsm.UniqueScope(n.Options.GetUnique().GetScope()), PeriodMs: n.Options.GetUnique().GetPeriodMs(),
			},
		},
	}
	j.SetPayload(n.Payload)
	if n.MaxAttempts != nil {
		j.MaxAttempts = *n.MaxAttempts
	}
	all := withoutRepetitions(n.Options.GetAfter())
	for _, id := range withoutRepetitions(n.Options.GetAfterBatches()) {
		all = append(all, batchMark+id)
	}
	for _, id := range all {
		if m.outcomeOf(id) != fsm.Completed || j.Opt.AfterFailure == fsm.AfterOnly {
			details(j, func(d *fsm.Details) { d.Waits = append(d.Waits, id) })
		}
	}
	if m.busy(n.Options.GetSequence()) {
		details(j, func(d *fsm.Details) { d.InLine = true })
	}
	j.Status = m.waitingOrReady(j)
	return j
}

func backoffOf(b *fsmpb.Backoff) backoff.Backoff {
	return backoff.Backoff{
		Kind: backoff.Kind(b.GetKind()), BaseMs: b.GetBaseMs(), CapMs: b.GetCapMs(), Jitter: uint8(b.GetJitterPercent()),
	}
}

func withoutRepetitions(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// sameContent reports whether two jobs are the same request, apart from their times.
func sameContent(a, b *fsm.Job) bool {
	if made := a.Details().Content; made != "" {
		return made == fsm.ContentOf(b)
	}
	x, y := *a.Options(), *b.Options()
	return a.Type == b.Type && a.Priority == b.Priority && a.MaxAttempts == b.MaxAttempts && a.Execution().LeaseMs == b.Execution().LeaseMs &&
		string(a.Payload()) == string(b.Payload()) && (a.Payload() == nil) == (b.Payload() == nil) &&
		x.Backoff == y.Backoff && x.TimeoutMs == y.TimeoutMs && x.Group == y.Group && slices.Equal(x.Tags, y.Tags) &&
		x.Unique == y.Unique && slices.Equal(withoutRepetitions(x.After), withoutRepetitions(y.After)) &&
		x.AfterFailure == y.AfterFailure && x.Batch == y.Batch && slices.Equal(x.Limits, y.Limits) && x.Sequence == y.Sequence &&
		x.RetainMs == y.RetainMs && sameOnError(x.OnError, y.OnError) &&
		slices.Equal(x.AfterNames, y.AfterNames) && slices.Equal(x.AfterBatches, y.AfterBatches) && x.Step == y.Step
}

// sameJob reports whether two requests mean the same; both may be absent.
func (m *model) sameJob(a, b *fsmpb.NewJob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Id == b.Id && a.RunAtMs == b.RunAtMs && m.sameCallback(a, b)
}

// sameCallback reports whether two callbacks are the same request; both may be absent.
// Their times and their ids, which the leader gives, do not count.
func (m *model) sameCallback(a, b *fsmpb.NewJob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameContent(m.fresh(a, ""), m.fresh(b, ""))
}

// unique is whether the job is one of few that may be there.
func unique(j *fsm.Job) bool {
	u := j.Options().Unique
	return u.Key != "" && u.Scope != fsm.UniqueNone
}

// holder is the job that holds the unique key of j, or stands for it; nil if
// the key is free. The job self does not count.
func (m *model) holder(j, self *fsm.Job) *fsm.Job {
	if !unique(j) {
		return nil
	}
	key := j.Options().Unique.Key
	for _, o := range m.jobs {
		if o != self && o.Type == j.Type && o.Options().Unique.Key == key && holds(o) {
			return o
		}
	}
	h := found(m.holds, func(h *fsm.Hold) bool { return h.Type == j.Type && h.Key == key })
	if h == nil || self != nil && h.Seq == self.Seq {
		return nil
	}
	if o := m.job(h.JobId); o != nil && o.Seq == h.Seq {
		return o
	}
	return &fsm.Job{ID: h.JobId, Type: h.Type, Seq: h.Seq}
}

// holds reports whether a job holds its unique key by its status.
func holds(j *fsm.Job) bool {
	switch j.Options().Unique.Scope {
	case fsm.UniqueWaiting:
		return j.Status == fsm.Blocked || j.Status == fsm.Scheduled || j.Status == fsm.Unclaimed
	case fsm.UniqueActive:
		return !hasEnded(j.Status)
	}
	return false
}

func (m *model) overQuota(j *fsm.Job) fsm.Code {
	q, s := m.settingsOf(j.Type), m.meta.Settings
	payload, size := int64(len(j.Payload())), sizeOf(j)
	typeJobs, typeBytes := m.load(func(o *fsm.Job) bool { return o.Type == j.Type })
	allJobs, allBytes := m.load(func(*fsm.Job) bool { return true })
	allBytes += m.recordBytes()
	over := func(limit, n int64) bool { return limit > 0 && n > limit }
	switch {
	case over(q.MaxPayload, payload) || over(s.MaxPayload, payload):
		return fsm.PayloadTooLarge
	case over(q.MaxJobs, typeJobs+1) || over(s.MaxJobs, allJobs+1):
		return fsm.TooManyJobs
	case over(q.MaxBytes, typeBytes+size) || over(s.MaxBytes, allBytes+size):
		return fsm.TooManyBytes
	}
	return fsm.OK
}

// overTokenQuota checks the quota of the producer of a new job.
func (m *model) overTokenQuota(j *fsm.Job, q *fsmpb.Quota) fsm.Code {
	var jobs, bytes int64
	for _, o := range m.jobs {
		if o.Options().Account == q.GetAccount() && !hasEnded(o.Status) {
			jobs++
			bytes += sentBytes(o)
		}
	}
	more, moreBytes := m.usedByRecords(q.GetAccount())
	jobs, bytes = jobs+more, bytes+moreBytes
	switch {
	case q.GetMaxJobs() > 0 && jobs+1 > q.MaxJobs:
		return fsm.TooManyTokenJobs
	case q.GetMaxBytes() > 0 && bytes+sentBytes(j) > q.MaxBytes:
		return fsm.TooManyTokenBytes
	}
	return fsm.OK
}

// sizeOf returns the bytes of a job that count in quotas.
func sizeOf(j *fsm.Job) int64 {
	d := j.Details()
	return int64(len(j.Execution().Result)+len(d.Log)) + keptBytes(j) + sentBytes(j)
}

// sentBytes has the bytes that the producer of a job sent.
func sentBytes(j *fsm.Job) int64 {
	o := j.Options()
	texts := append([]string{o.Group, o.Unique.Key, o.Batch}, append(unrepeated(o.Tags), unrepeated(o.After)...)...)
	texts = append(texts, append(slices.Clone(o.Limits), o.Sequence, o.Step)...)
	texts = append(texts, append(slices.Clone(o.AfterNames), o.AfterBatches...)...)
	for _, r := range o.OnError {
		texts = append(texts, r.Class)
	}
	for _, h := range o.Headers {
		texts = append(texts, h.Name, h.Value)
	}
	return int64(len(j.Payload()) + len(strings.Join(texts, "")))
}

// templateBytes is sentBytes of a template.
func (m *model) templateBytes(n *fsmpb.NewJob) int64 {
	if n == nil {
		return 0
	}
	texts := append([]string{n.Options.GetGroup(), n.GetOptions().GetUnique().GetKey(), n.Options.GetBatch()}, append(unrepeated(n.Options.GetTags()), unrepeated(n.Options.GetAfter())...)...)
	texts = append(texts, append(slices.Clone(n.Options.GetLimits()), n.Options.GetSequence(), n.Options.GetStep())...)
	texts = append(texts, append(slices.Clone(n.Options.GetAfterNames()), unrepeated(n.Options.GetAfterBatches())...)...)
	for _, r := range n.Options.GetOnError() {
		texts = append(texts, r.Class)
	}
	for _, h := range n.Options.GetHeaders() {
		texts = append(texts, h.Name, h.Value)
	}
	return int64(len(n.Payload) + len(strings.Join(texts, "")))
}

func unrepeated(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

const recordBytes = 256

// recordBytes has the bytes of batches, with callbacks that are still to come, of schedules and of artefacts.
func (m *model) recordBytes() (n int64) {
	for _, b := range m.batches {
		n += recordBytes + int64(len(b.Id))
		if !b.Called {
			n += m.templateBytes(b.Callback)
		}
	}
	for _, c := range m.crons {
		n += cronBytes(m, c)
	}
	for _, a := range m.artefacts {
		n += artefactBytes(a)
	}
	return n
}

// usedByRecords returns what the records of a producer take of its quota.
func (m *model) usedByRecords(account string) (jobs, bytes int64) {
	for _, b := range m.batches {
		if account == "" || b.Account != account {
			continue
		}
		toCall := b.Callback != nil && !b.Called
		if toCall {
			bytes += m.templateBytes(b.Callback)
		}
		if b.EndedAtMs == 0 {
			bytes += recordBytes + int64(len(b.Id))
		}
		if toCall || b.EndedAtMs == 0 && b.Total == 0 && b.Id != m.opening {
			jobs++
		}
	}
	for _, c := range m.crons {
		if account != "" && c.Job.GetQuota().GetAccount() == account {
			bytes += cronBytes(m, c)
		}
	}
	for _, w := range m.workers {
		if account != "" && w.Account == account {
			bytes += workerBytes(w)
		}
	}
	for _, a := range m.artefacts {
		if account != "" && a.Account == account && a.ReleasedMs == 0 {
			bytes += artefactBytes(a) + a.Size
		}
	}
	return jobs, bytes
}

func cronBytes(m *model, c *fsm.Cron) int64 {
	n := recordBytes + int64(len(c.Name+c.Spec+c.TimeZone)) + m.templateBytes(c.Job)
	for _, r := range c.Runs {
		n += 96 + int64(len(r.JobId+r.Reason))
	}
	return n
}

func workerBytes(w *fsm.Worker) int64 {
	return recordBytes + int64(len(w.Name+w.Version+w.Address+strings.Join(w.Types, "")))
}

// overRecordQuota checks the quotas for a record; before is the state without the one that it replaces.
func (m *model) overRecordQuota(before *model, size, grows int64, q *fsmpb.Quota, pending int64) fsm.Code {
	_, bytes := m.load(func(*fsm.Job) bool { return true })
	if limit := m.meta.Settings.MaxBytes; limit > 0 && grows > 0 && bytes+before.recordBytes()+size > limit {
		return fsm.TooManyBytes
	}
	return m.overAccount(before, size, q, pending)
}

// overAccount is overRecordQuota for the quota of the producer.
func (m *model) overAccount(before *model, size int64, q *fsmpb.Quota, pending int64) fsm.Code {
	var jobs, used int64
	for _, o := range m.jobs {
		if q != nil && o.Options().Account == q.Account && !hasEnded(o.Status) {
			jobs, used = jobs+1, used+sentBytes(o)
		}
	}
	moreJobs, moreBytes := before.usedByRecords(q.GetAccount())
	jobs, used = jobs+moreJobs, used+moreBytes
	switch {
	case q.GetMaxJobs() > 0 && pending > 0 && jobs+pending > q.MaxJobs:
		return fsm.TooManyTokenJobs
	case q.GetMaxBytes() > 0 && used+size > q.MaxBytes:
		return fsm.TooManyTokenBytes
	}
	return fsm.OK
}

// load is how many jobs have not ended, and the bytes of all.
func (m *model) load(counts func(*fsm.Job) bool) (jobs, bytes int64) {
	for _, j := range m.jobs {
		if !counts(j) {
			continue
		}
		bytes += sizeOf(j)
		if !hasEnded(j.Status) {
			jobs++
		}
	}
	return jobs, bytes
}

// statusOf is the status of a job, also of one that retention removed a short time ago; 0: there
// is none.
func (m *model) statusOf(id string) fsm.Status {
	if j := m.job(id); j != nil {
		return j.Status
	}
	if j, _ := m.removed(id); j != nil {
		return j.Status
	}
	return 0
}

// checkAfter looks at what a job of a mutation that added jobs waits for.
func (m *model) checkAfter(n *fsmpb.NewJob, added []string, scope *fsmpb.Scope) fsm.Code {
	for _, id := range n.Options.GetAfter() {
		var jobType, group string
		if j := m.job(id); j != nil {
			jobType, group = j.Type, j.Options().Group
		} else if r := found(m.requests, func(r *fsm.RequestRecord) bool { return r.Key == removedKey+id }); r != nil {
			jobType, group = r.Type, r.Group
		}
		matches := func(globs []string, name string) bool {
			return len(globs) == 0 || slices.Contains(globs, name) || slices.Contains(globs, "*")
		}
		if m.statusOf(id) == 0 || !slices.Contains(added, id) && (!matches(scope.GetTypes(), jobType) || !matches(scope.GetGroups(), group)) {
			return fsm.NoSuchJob
		}
	}
	if m.reachesCycle(n.Id, added, nil) || n.Options.GetBatch() != "" && slices.Contains(n.Options.GetAfterBatches(), n.Options.GetBatch()) {
		return fsm.Cycle
	}
	all := slices.Clone(n.Options.GetAfter())
	for _, id := range n.Options.GetAfterBatches() {
		all = append(all, batchMark+id)
	}
	for _, id := range all {
		waiters := 0
		for _, j := range m.jobs {
			if slices.Contains(j.Details().Waits, id) {
				waiters++
			}
		}
		if waiters > waitersMax {
			return fsm.TooManyWaiters
		}
	}
	return fsm.OK
}

// reachesCycle is whether one comes from a job to one that was met on the way
// there, over jobs that were added together.
func (m *model) reachesCycle(id string, added, way []string) bool {
	if !slices.Contains(added, id) {
		return false
	}
	if slices.Contains(way, id) {
		return true
	}
	return slices.ContainsFunc(m.job(id).Options().After, func(next string) bool {
		return m.reachesCycle(next, added, append(slices.Clone(way), id))
	})
}

func (m *model) batch(id string) *fsm.JobBatch {
	return found(m.batches, func(b *fsm.JobBatch) bool { return b.Id == id })
}

// endIfEmpty ends a new batch that got none of its jobs, as they were there.
func (m *model) endIfEmpty(batch *fsm.JobBatch) {
	if batch.Total > 0 {
		return
	}
	b := fsmpb.Copy(batch)
	b.EndedAtMs = m.meta.NowMs
	b.Called = b.Callback != nil && fsm.CallbackOn(b.CallbackOn) != fsm.CallbackFailed
	m.batches = put(m.batches, b, byBatchID)
	m.happened(fsm.BatchEnded, b.Id)
	if b.Called {
		m.callBack(b)
	}
}

// newBatch makes a batch, or finds that it is there.
func (m *model) newBatch(n *fsmpb.NewBatch, withJobs int) fsm.Code {
	if n == nil {
		return fsm.OK
	}
	if b := m.batch(n.Id); b != nil {
		if m.sameCallback(b.Callback, n.Callback) && b.CallbackOn == n.CallbackOn && b.Parent == n.Parent {
			return fsm.OK
		}
		return fsm.IDTaken
	}
	pending := int64(0)
	if n.Callback != nil || withJobs == 0 {
		pending = 1
	}
	size := recordBytes + int64(len(n.Id)) + m.templateBytes(n.Callback)
	if code := m.overRecordQuota(m, size, size, n.Quota, pending); code != fsm.OK {
		return code
	}
	m.batches = put(m.batches, &fsm.JobBatch{
		Id: n.Id, CreatedAtMs: m.meta.NowMs, Callback: n.Callback, CallbackOn: n.CallbackOn,
		Account: n.Quota.GetAccount(), Parent: n.Parent,
	}, byBatchID)
	return fsm.OK
}

func onErrorOf(n *fsmpb.NewJob) (out []*fsmpb.OnError) {
	for _, r := range n.Options.GetOnError() {
		out = append(out, &fsmpb.OnError{Class: r.Class, Dead: r.Dead, DelayMs: r.DelayMs})
	}
	return out
}

func sameOnError(a, b []*fsmpb.OnError) bool {
	return slices.EqualFunc(a, b, func(x, y *fsmpb.OnError) bool {
		return x.Class == y.Class && x.Dead == y.Dead && x.DelayMs == y.DelayMs
	})
}

func headersOf(n *fsmpb.NewJob) (out []*fsmpb.Header) {
	for _, h := range n.Options.GetHeaders() {
		out = append(out, &fsmpb.Header{Name: h.Name, Value: h.Value})
	}
	return out
}
