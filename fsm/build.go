package fsm

import (
	"errors"
	"fmt"
	"slices"

	"osqueue/fsm/backoff"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tokens"
)

// ErrState is wrapped by the errors about a stored state that contradicts itself.
var ErrState = errors.New("state is not valid")

// Builder makes a machine from a stored state, record by record. The machine keeps the
// records that it is given. It is not safe for concurrent use.
type Builder struct {
	m    *Machine
	seqs map[uint64]uint64 // the Seqs in use, one bit each, 64 to a word
}

// counterMax is the largest counter that a restored state may have. No queue reaches it;
// a counter near the end of uint64 would wrap around.
const counterMax = 1<<63 - 1

// CheckMeta returns an error that wraps ErrState if the scalars are out of range, as only a
// damaged state has them.
func CheckMeta(m *Meta) error {
	if err := checkLevel(m.Level); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if max(m.LastSeq, m.LastTurn, m.LastToken, m.TermBase, m.Term, m.Index) > counterMax {
		return fmt.Errorf("%w: %w", ErrState, errCounter)
	}
	return nil
}

// NewBuilder returns a builder for a state with these scalars, which have passed CheckMeta.
func NewBuilder(meta *Meta) *Builder {
	m := New()
	meta = fsmpb.Clone(meta)
	m.meta, m.types.meta, m.types.building = meta, meta, true
	m.meta.Level = max(meta.Level, BaseLevel)
	if meta.Settings == nil {
		m.meta.Settings = new(Settings)
	}
	m.meta.LastToken = max(meta.LastToken, tokenFloor(meta.Epoch))
	return &Builder{m: m, seqs: make(map[uint64]uint64)}
}

// AddJob adds a job with all of its fields.
func (b *Builder) AddJob(j *Job) error { return b.addJob(j, b.m.ids.Hash(j.ID)) }

// addJob adds a job with the hash of its id.
func (b *Builder) addJob(j *Job, hash uint32) error {
	if err := b.checkJob(j, hash); err != nil {
		return fmt.Errorf("%w: job %q: %w", ErrState, j.ID, err)
	}
	b.seqs[j.Seq/64] |= 1 << (j.Seq % 64)
	j.Type = b.m.types.queue(j.Type).name
	switch {
	case j.Exec == nil && j.Status == InProgress:
		j.Exec = new(Execution)
	case j.Exec != nil && j.Exec.Zero() && j.Status != InProgress:
		j.Exec = nil
	}
	b.m.usage.Share(j)
	b.m.ids.Add(j, hash)
	b.m.index(j)
	b.m.waits.Add(j)
	return nil
}

// add stores a record that the state does not have yet, and in which err has found nothing wrong.
func add(what, name string, twice bool, err error, store func()) error {
	if twice {
		err = errTwice
	}
	if err != nil {
		return fmt.Errorf("%w: %s %q: %w", ErrState, what, name, err)
	}
	store()
	return nil
}

// AddQueue adds the settings of a type.
func (b *Builder) AddQueue(s *QueueSettings) error {
	_, twice := b.m.types.settings.Get(s)
	valid := s.Backoff.GetKind() < backoff.NumKinds && min(s.RateMilli, s.AgingMs) >= 0 && s.Level >= 0 && s.LevelAtMs >= 0 && validPause(s.Pause, s.Paused)
	return add("settings of type", s.Name, twice, need(valid, errRange), func() { b.m.types.useSettings(b.m.types.queue(s.Name), s) })
}

// AddLimit adds a rule of a pattern, and what is used of a key. Call it after the jobs were added.
func (b *Builder) AddLimit(r *Limit) error {
	l := &b.m.types.limits
	used := max(r.LevelAtMs, r.HeldUntilMs, r.OpensAtMs) > 0
	valid := min(r.Level, r.LevelAtMs, r.HeldUntilMs, r.OpensAtMs) >= 0 && validRule(r.Rule) &&
		(job.ValidKey(r.Name) && (used || r.Rule != nil) || job.ValidPattern(r.Name) && !used && r.Rule != nil)
	return add("limit", r.Name, l.records.Find(r) != nil, need(valid, errRange), func() {
		l.records.Set(r)
		if r.Rule != nil {
			l.countRule(r.Name, 1)
		}
		l.key(r.Name).record = r
	})
}

// AddLane parks a lane. Call it after the limits were added.
func (b *Builder) AddLane(r *ParkedLane) error {
	var l *lane
	q := b.m.types.queues[r.Type]
	if q != nil && q.groups[r.Group] != nil {
		l = q.groups[r.Group].lanes[laneKey(r.Limits)]
	}
	valid := l != nil && slices.Equal(l.limits, r.Limits) && slices.Contains(r.Limits, r.Key)
	return add("jobs that wait under the limit", r.Key, valid && l.line != nil, need(valid, errNoLane), func() {
		b.m.types.moveLane(q, l, b.m.types.limits.key(r.Key))
	})
}

// AddTurn adds a group's place in the rotation. Call it after the jobs were added.
func (b *Builder) AddTurn(t *Turn) error {
	var g *group
	q := b.m.types.queues[t.Type]
	if q != nil {
		g = q.groups[t.Group]
	}
	switch {
	case g == nil || !g.waits():
		return fmt.Errorf("%w: round-robin position of group %q of type %q: %w", ErrState, t.Group, t.Type, errNoGroup)
	case t.Turn == 0 || t.Turn > b.m.meta.LastTurn:
		return fmt.Errorf("%w: round-robin position of group %q of type %q: %w", ErrState, t.Group, t.Type, errRange)
	case g.turn != 0:
		return fmt.Errorf("%w: round-robin position of group %q of type %q: %w", ErrState, t.Group, t.Type, errTwice)
	}
	b.m.types.setTurn(q, g, t.Turn)
	b.m.types.refresh(q, g)
	return nil
}

// AddCron adds a schedule.
func (b *Builder) AddCron(c *Cron) error {
	valid := c.Overlap < numOverlaps && c.Missed < numMissed && (!c.Paused || c.NextAtMs == 0) && checkNewJob(c.Job) == nil &&
		CheckCronHeaders(c.Job.GetOptions().GetHeaders()) == nil && len(c.Runs) <= fsmpb.RunsMax &&
		!slices.ContainsFunc(c.Runs, func(r *CronRun) bool { return r.Status >= uint32(job.NumStatuses) })
	return add("schedule", c.Name, b.m.crons.Find(c) != nil, need(valid, errRange), func() { b.m.storeCron(nil, c) })
}

// AddBatch adds a batch.
func (b *Builder) AddBatch(batch *JobBatch) error {
	ended := batch.Completed + batch.Dead + batch.Cancelled
	valid := batch.CallbackOn < numCallbacks && checkNewJob(batch.Callback) == nil && batch.Total <= counterMax && ended <= batch.Total &&
		max(batch.Completed, batch.Dead, batch.Cancelled) <= batch.Total
	return add("batch", batch.Id, b.m.batches.Find(batch) != nil, need(valid, errRange), func() { b.m.storeBatch(nil, batch) })
}

// AddHold adds a unique-key reservation for a period.
func (b *Builder) AddHold(h *Hold) error {
	if b.m.uniques.Find(h) != nil {
		return fmt.Errorf("%w: unique key %q of type %q: %w", ErrState, h.Key, h.Type, errTwice)
	}
	b.m.uniques.Set(nil, h)
	return nil
}

// AddRequest adds a remembered request.
func (b *Builder) AddRequest(r *RequestRecord) error {
	foreign := func(i *fsmpb.RequestItem) bool { return i.Code >= numCodes || i.Status >= uint32(job.NumStatuses) }
	valid := r.Code < numCodes && !slices.ContainsFunc(r.Items, foreign)
	return add("request", r.Key, b.m.requests.Of(r.Key) != nil, need(valid, errRange), func() { b.m.requests.Add(r) })
}

var (
	errCounter  = errors.New("a counter is too large")
	errNoID     = errors.New("the id is empty")
	errTwice    = errors.New("the id occurs twice")
	errStatus   = errors.New("the status is unknown")
	errSeq      = errors.New("the sequence number is 0, or above the last one assigned")
	errPlace    = errors.New("another job has the same sequence number")
	errToken    = errors.New("the fencing token is above the last one assigned")
	errEnd      = errors.New("the end of its last attempt is unknown")
	errAttempts = errors.New("the number of attempts is negative")
	errRange    = errors.New("a value is unknown or out of range")
	errWaits    = errors.New("the job is blocked and waits for no job, or it waits for a job and is not blocked")
	errNoGroup  = errors.New("the group has no unclaimed jobs")
	errLine     = errors.New("the job is in line without a sequence, or is not, though another one is first")
	errNoLane   = errors.New("no unclaimed jobs have these limits")
	errNoLeases = errors.New("the claim has no leases")
	errOrder    = errors.New("the token is not above the token of the previous claim")
)

func (b *Builder) checkJob(j *Job, hash uint32) error {
	m := b.m
	switch {
	case j.ID == "":
		return errNoID
	case m.ids.Has(j.ID, hash):
		return errTwice
	case j.Status == 0 || j.Status >= job.NumStatuses:
		return errStatus
	case j.Seq == 0 || j.Seq > m.meta.LastSeq:
		return errSeq
	case b.seqs[j.Seq/64]&(1<<(j.Seq%64)) != 0:
		return errPlace
	case j.Execution().Token > m.meta.LastToken:
		return errToken
	case j.AttemptEnd >= job.NumEnds:
		return errEnd
	case j.Attempts < 0:
		return errAttempts
	case (j.Status == Blocked) != (len(j.Details().Waits) > 0 || j.Details().InLine):
		return errWaits
	case j.Details().InLine && j.Options().Sequence == "", !j.Status.Ended() && !j.Details().InLine && m.sequences.first[j.Options().Sequence]:
		return errLine
	}
	return job.CheckOptions(j.Options())
}

// AddWorker adds a registered worker.
func (b *Builder) AddWorker(w *Worker) error {
	return add("worker", w.Name, b.m.workers.find(w.Name) != nil, need(validQuiet(w), errQuiet), func() { b.m.putWorker(nil, w) })
}

// AddClaim adds a remembered claim. Add the oldest one first.
func (b *Builder) AddClaim(r *ClaimRecord) error {
	if err := b.checkClaim(r); err != nil {
		return fmt.Errorf("%w: claim %q of worker %q: %w", ErrState, r.RequestId, r.Worker, err)
	}
	b.m.claims.Add(r)
	return nil
}

func (b *Builder) checkClaim(r *ClaimRecord) error {
	if len(r.JobIds) == 0 {
		return errNoLeases
	}
	if r.FirstToken > b.m.meta.LastToken {
		return errToken
	}
	if last, ok := b.m.claims.Records.Max(); ok && r.FirstToken <= last.FirstToken {
		return errOrder
	}
	return nil
}

// Machine returns the machine. Do not use the builder afterwards.
func (b *Builder) Machine() *Machine {
	m := b.m
	m.waits.All(dependencies{m}.review)
	for _, q := range m.types.dirty {
		q.dirty = false
		m.types.timeRetention(q)
	}
	m.types.dirty = nil
	m.sequences.review()
	m.types.limits.keys.Scan(func(k *limitKey) bool {
		k.rule = m.types.limits.ruleOf(k.name).GetRule()
		if k.rule.GetRateMilli() == 0 && k.record.GetLevelAtMs() != 0 { // as only a damaged state has it
			m.types.limits.change(k, func(r *Limit) { r.Level, r.LevelAtMs = 0, 0 })
		}
		m.types.refreshLines(k)
		return true
	})
	m.entry.begin(&fsmpb.Batch{})
	m.types.building = false
	return m
}

// AddFigures adds the figures of a type. The machine keeps a copy.
func (b *Builder) AddFigures(f *Figures) error {
	_, twice := b.m.figures.Get(f)
	valid := (!f.Shared || f.Type == "") && b.m.figures.Len() <= FiguresMax
	return add("figures of type", f.Type, twice, need(valid, errRange), func() {
		b.m.figures.Add(f)
	})
}

// addFiguresPB adds the figures of a type as a snapshot has them.
func (b *Builder) addFiguresPB(p *fsmpb.Figures) error {
	f, err := figures.Unpack(p)
	if err != nil {
		return fmt.Errorf("%w: figures of type %q: %w", ErrState, p.Type, err)
	}
	return b.AddFigures(f)
}

// AddToken adds a token.
func (b *Builder) AddToken(t *Token) error {
	return add("token", t.Id, b.m.tokens.ByID(t.Id) != nil, tokens.Check(t), func() { b.m.tokens.Add(t) })
}

// addHook adds a hook, with an empty outbox.
func (b *Builder) addHook(h *fsmpb.Hook) error { return stateError(b.m.hooks.Add(h)) }

// addHookEvent adds an event to the outbox of a hook that was added before.
func (b *Builder) addHookEvent(e *outbox.Event) error { return stateError(b.m.hooks.AddEvent(e)) }

// addArtefact adds an artefact. Call it after the jobs were added.
func (b *Builder) addArtefact(a *Artefact) error {
	return stateError(b.m.artefacts.Add(a, b.m.ids.Get(a.JobId) != nil))
}

func stateError(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}
