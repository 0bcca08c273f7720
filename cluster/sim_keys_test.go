package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/script"
)

// Limits by key, sequences, edits and releases with a delay: what users ask for, and the checks of one line of history.

// simEdit is what an edit asked for.
type simEdit struct {
	job      string
	limits   []string // nil: they stay
	revision *uint64  // that the job must have; nil: any
}

// simHold is a key that a worker was told is held.
type simHold struct {
	lsn   fsm.LSN // of the answer
	until int64   // ms
}

// simStart is a start under a key.
type simStart struct {
	job string
	lsn fsm.LSN
	now int64 // ms
}

// simKeys are the limits of one line of history. It counts on its own: of the machine it takes rules when they are set, and all at
// the beginning of a line.
type simKeys struct {
	rules   map[string]*fsm.LimitRule // by pattern
	running map[string]int64
	levels  map[string]simLevel // of buckets; others are full
	holds   map[string][]simHold
	starts  map[string][]simStart
}

// simLevel is a bucket at a time, in ms and millionths of a permit.
type simLevel struct{ left, at int64 }

const simPermit = 1_000_000

func newSimKeys() *simKeys {
	return &simKeys{
		rules: make(map[string]*fsm.LimitRule), running: make(map[string]int64), levels: make(map[string]simLevel),
		holds: make(map[string][]simHold), starts: make(map[string][]simStart),
	}
}

// rule returns the rule in force for a key.
func (k *simKeys) rule(key string) *fsm.LimitRule {
	r := k.rules[key]
	for n := len(key); n >= 0 && r == nil; n-- {
		r = k.rules[key[:n]+"*"]
	}
	return r
}

// set replaces the rule of a pattern. The buckets of keys that get another rate are full.
func (k *simKeys) set(pattern string, rule *fsm.LimitRule) {
	before := make(map[string]*fsm.LimitRule)
	for key := range k.levels {
		before[key] = k.rule(key)
	}
	k.rules[pattern] = rule
	for key, old := range before {
		if now := k.rule(key); now.GetRateMilli() != old.GetRateMilli() || now.GetBurst() != old.GetBurst() {
			delete(k.levels, key)
		}
	}
}

// adopt takes over the limits of a state in which a line begins, with the keys of its running jobs.
func (k *simKeys) adopt(v *fsm.View) {
	v.Limits(func(r *fsm.Limit) bool {
		k.rules[r.Name] = r.Rule
		if r.LevelAtMs != 0 {
			k.levels[r.Name] = simLevel{r.Level, r.LevelAtMs}
		}
		return true
	})
	v.Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		k.count(j.Options().Limits, 1)
		return true
	})
}

func (k *simKeys) count(keys []string, n int64) {
	for _, key := range keys {
		k.running[key] += n
	}
}

// start checks that a job may start under its keys, and counts it.
func (l *simLedger) start(lsn fsm.LSN, id string, keys []string) {
	w, k := l.world, l.keys
	for _, key := range keys {
		rule := k.rule(key)
		if n := k.running[key]; rule.GetRunning() > 0 {
			w.counts.One("check: limit of running jobs")
			if n >= rule.Running {
				w.failLocked("job %s starts at %s while %d jobs run under %s, of which %d may", id, lsn, n, key, rule.Running)
			}
		}
		if rule.GetRateMilli() > 0 {
			w.counts.One("check: rate of starts")
			level, full := simLevel{}, max(rule.Burst, 1)*simPermit
			level.left, level.at = full, l.now
			if b, begun := k.levels[key]; begun {
				level.left = min(full, b.left+(l.now-b.at)*rule.RateMilli)
			}
			if level.left -= simPermit; level.left < 0 {
				w.failLocked("job %s starts at %s under %s, which has no permit left", id, lsn, key)
			}
			k.levels[key] = level
		}
		s := simStart{id, lsn, l.now}
		for _, h := range k.holds[key] {
			l.heldStart(key, h, s)
		}
		k.holds[key] = slices.DeleteFunc(k.holds[key], func(h simHold) bool { return h.until <= l.now })
		k.starts[key] = append(k.starts[key], s)
	}
	k.count(keys, 1)
}

// heldStart checks a start against a hold that was acknowledged.
func (l *simLedger) heldStart(key string, h simHold, s simStart) {
	if s.lsn.Compare(h.lsn) <= 0 {
		return
	}
	l.world.counts.One("check: start under a key that was held")
	if s.now < h.until {
		l.world.failLocked("job %s starts at %s (%d ms) under %s, which was held at %s until %d", s.job, s.lsn, s.now, key, h.lsn, h.until)
	}
}

// inTurn checks that no other job of the sequence is before a job that starts, or runs.
func (l *simLedger) inTurn(lsn fsm.LSN, id string, j *simJob) {
	if j.sequence == "" {
		return
	}
	l.world.counts.One("check: sequence")
	for other := range l.sequences[j.sequence] {
		o := l.jobs[other]
		if o == nil || o == j || o.removed || ended(o.status) {
			delete(l.sequences[j.sequence], other)
			continue
		}
		if o.place < j.place || o.status == fsm.InProgress {
			l.world.failLocked("job %s of sequence %s starts at %s while %s is %s", id, j.sequence, lsn, other, o.status)
		}
	}
	l.sequences[j.sequence][id] = true
}

// join notes a job of a sequence, at the end of the line.
func (l *simLedger) join(id string, j *simJob) {
	if j.sequence == "" {
		return
	}
	if l.sequences[j.sequence] == nil {
		l.sequences[j.sequence] = make(map[string]bool)
	}
	l.sequences[j.sequence][id] = true
	l.placed++
	j.place = l.placed
}

// adopt begins the line with what the state v has of limits, sequences and edits. What clients were answered before, of edits,
// delays and memory, may be lost.
func (l *simLedger) adopt(v *fsm.View, live map[string]*fsm.Job) {
	l.keys.adopt(v)
	for _, id := range slices.SortedFunc(maps.Keys(live), func(a, b string) int { return cmp.Compare(live[a].Seq, live[b].Seq) }) {
		if j := l.jobs[id]; j != nil {
			j.notBefore, j.attempts, j.edits, j.refused, j.memory = 0, live[id].Attempts, nil, nil, nil
			j.revision = live[id].Details().Revision
			j.ask(live[id])
			l.join(id, j)
		}
	}
}

// ask takes over what a job asks for.
func (j *simJob) ask(job *fsm.Job) {
	j.limits, j.sequence, j.payload = job.Options().Limits, job.Options().Sequence, string(job.Payload())
}

// edited notes an edit of a job. Its payload says which.
func (l *simLedger) edited(lsn fsm.LSN, j *simJob, job *fsm.Job) {
	w, payload := l.world, string(job.Payload())
	e, asked := w.edits[payload]
	switch {
	case !asked || e.job != job.ID:
		w.failLocked("job %s has payload %s from %s on, which nobody has asked for", job.ID, payload, lsn)
	case j.refused[payload]:
		w.failLocked("job %s has payload %s from %s on, and that edit was refused", job.ID, payload, lsn)
	case e.revision != nil && *e.revision != j.revision:
		w.failLocked("job %s of revision %d is edited at %s for revision %d", job.ID, j.revision, lsn, *e.revision)
	case e.limits != nil && !slices.Equal(e.limits, job.Options().Limits), e.limits == nil && !slices.Equal(j.limits, job.Options().Limits):
		w.failLocked("job %s has limits %q from %s on", job.ID, job.Options().Limits, lsn)
	}
	j.ask(job)
	j.revision++
	if j.edits == nil {
		j.edits = make(map[string]fsm.LSN)
	}
	j.edits[payload] = lsn
}

// attempt checks an attempt that starts against what was asked for.
func (l *simLedger) attempt(lsn fsm.LSN, id string, j *simJob, job *fsm.Job) {
	w := l.world
	if got := string(job.Payload()); got != j.payload {
		w.failLocked("job %s starts at %s with payload %s in place of %s", id, lsn, got, j.payload)
	}
	if len(j.edits) > 0 {
		w.counts.One("check: attempt after an edit")
	}
	if j.notBefore != 0 {
		w.counts.One("check: attempt after a delay")
		if l.now < j.notBefore {
			w.failLocked("job %s starts at %s (%d ms), and was released until %d", id, lsn, l.now, j.notBefore)
		}
		if job.Attempts != j.attempts {
			w.failLocked("job %s starts attempt %d at %s, and its attempt %d was released", id, job.Attempts, lsn, j.attempts)
		}
	}
	j.notBefore, j.attempts = 0, job.Attempts
	l.inTurn(lsn, id, j)
	l.start(lsn, id, job.Options().Limits)
}

// over notes the end of an attempt.
func (l *simLedger) over(j *simJob, job *fsm.Job) {
	l.keys.count(j.limits, -1)
	if d := l.world.delays[j.token]; d > 0 && job.AttemptEnd == fsm.EndReleased && job.Status == fsm.Scheduled {
		j.notBefore = l.now + d
	}
}

// simPatterns have rules that the users of the simulation set and take away.
var simPatterns = []string{"k*", "k1", "rate"}

// simKeySets are the limits of jobs.
var simKeySets = [][]string{{"k1"}, {"k2"}, {"rate"}, {"k1", "rate"}, {"k1", "k2"}}

func (c *simClient) limits() []string { return simKeySets[c.r.IntN(len(simKeySets))] }

// simLimitsRest is the longest time between two changes of rules.
const simLimitsRest = 15 * time.Second

// setLimits sets rules, and takes them away.
func (c *simClient) setLimits() {
	for c.rest(c.ms(int(simLimitsRest.Milliseconds()))) {
		op := &fsmpb.SetLimit{Pattern: simPatterns[c.r.IntN(len(simPatterns))]}
		switch {
		case c.r.IntN(6) == 0:
		case op.Pattern == "rate":
			op.Rule = &fsm.LimitRule{RateMilli: int64(1+c.r.IntN(3)) * 1000, Burst: int64(c.r.IntN(4))}
		default:
			op.Rule = &fsm.LimitRule{Running: int64(1 + c.r.IntN(2))}
		}
		if a, ok := c.do(c.keyed(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: op}})); ok {
			c.world.counts.One("limit set: " + a.Code.String())
		}
	}
}

// keyed gives a mutation a request key, under which it takes effect once however often it is repeated.
func (c *simClient) keyed(m *fsmpb.Mutation) func() *fsmpb.Mutation {
	key := c.id("k")
	m.Request = &fsmpb.Request{Key: key, Fingerprint: []byte(key)}
	return func() *fsmpb.Mutation { return m }
}

// editOne edits a job of the client, mostly one of the last.
func (c *simClient) editOne() {
	if len(c.sent) == 0 {
		return
	}
	id := c.sent[max(0, len(c.sent)-1-c.r.IntN(4))]
	payload := fmt.Sprintf(`{"edit":%q}`, c.id("e"))
	op, asked := &fsmpb.EditJob{Id: id, Payload: []byte(payload)}, simEdit{job: id}
	if c.r.IntN(2) == 0 {
		op.Revision = new(uint64(c.r.IntN(2)))
		asked.revision = op.Revision
	}
	if c.r.IntN(3) == 0 {
		asked.limits = c.limits()
		op.Limits = &fsmpb.Limits{Limits: asked.limits}
	}
	c.world.askEdit(payload, asked)
	a, ok := c.do(c.keyed(&fsmpb.Mutation{Op: &fsmpb.Mutation_EditJob{EditJob: op}}))
	if ok {
		c.world.counts.One("edit answered: " + a.Code.String())
		c.world.editAnswered(id, payload, a)
	}
}

func (w *simWorld) askEdit(payload string, e simEdit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.edits[payload] = e
}

// editAnswered checks that the job has an acknowledged edit, and not a refused one.
func (w *simWorld) editAnswered(id, payload string, a simAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[a.lsn]
	if s == nil {
		w.failLocked("an edit of job %s was answered at %s, which no node has applied", id, a.lsn)
		return
	}
	j := s.ledger.jobs[id]
	if j == nil {
		return // it was removed, or was lost with the disks
	}
	at, seen := j.edits[payload]
	switch {
	case a.Code.Done() && (!seen || at.Compare(a.lsn) > 0):
		w.failLocked("an edit of job %s to %s was acknowledged at %s, and it is not there", id, payload, a.lsn)
	case !a.Code.Done() && seen:
		w.failLocked("an edit of job %s to %s was refused at %s as %s, and took effect at %s", id, payload, a.lsn, a.Code, at)
	case !a.Code.Done():
		if j.refused == nil {
			j.refused = make(map[string]bool)
		}
		j.refused[payload] = true
	}
}

// throttle holds a key of a job that the worker has.
func (c *simClient) throttle(j *fsm.Job) {
	keys := j.Options().Limits
	l := c.node()
	if len(keys) == 0 || l == nil {
		return
	}
	op := &fsmpb.ThrottleLimit{
		Key: keys[c.r.IntN(len(keys))], UntilMs: l.View().Now() + c.ms(4000).Milliseconds(),
		Worker: c.name, Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token},
	}
	a, ok := c.do(c.keyed(&fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: op}}))
	if ok && a.Code == fsm.OK {
		c.world.counts.One("throttle answered")
		c.world.held(op.Key, simHold{a.lsn, op.UntilMs})
	}
}

// held records that a worker has received the answer that a key is held.
func (w *simWorld) held(key string, h simHold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[h.lsn]
	if s == nil {
		w.failLocked("key %s is held at %s, which no node has applied", key, h.lsn)
		return
	}
	k := s.ledger.keys
	k.holds[key] = append(k.holds[key], h)
	for _, start := range k.starts[key] {
		s.ledger.heldStart(key, h, start)
	}
}

// snooze releases a job for a time.
func (c *simClient) snooze(j *fsm.Job) {
	m := script.Release(c.name, j.ID, j.Execution().Token)
	m.GetRelease().DelayMs = c.ms(5000).Milliseconds()
	c.world.delayed(j.Execution().Token, m.GetRelease().DelayMs)
	if a, ok := c.do(func() *fsmpb.Mutation { return m }); ok && a.Code.Done() {
		c.world.counts.One("snooze answered")
	}
}

func (w *simWorld) delayed(token uint64, ms int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delays[token] = ms
}

// TestSimKeyChecksFind has jobs a and b, which get what the events say.
func TestSimKeyChecksFind(t *testing.T) {
	keys, line := &fsm.Options{Limits: []string{"k1"}}, &fsm.Options{Sequence: "s"}
	is := func(id string, s fsm.Status, o *fsm.Options) *fsm.Job {
		return &fsm.Job{ID: id, Status: s, Opt: o, Attempts: 1, Exec: &fsm.Execution{Token: uint64(id[0])}}
	}
	comes := func(id string, o *fsm.Options) fsm.Event { return fsm.Event{Job: is(id, fsm.Unclaimed, o)} }
	starts := func(id string, o *fsm.Options) fsm.Event {
		return fsm.Event{Job: is(id, fsm.InProgress, o), From: fsm.Unclaimed}
	}
	ends := func(id string, o *fsm.Options, s fsm.Status, how fsm.End) fsm.Event {
		j := is(id, s, o)
		j.AttemptEnd = how
		return fsm.Event{Job: j, From: fsm.InProgress}
	}
	again := func(attempts int32) fsm.Event {
		j := is("a", fsm.InProgress, nil)
		j.Attempts, j.Exec = attempts, &fsm.Execution{Token: 200}
		return fsm.Event{Job: j, From: fsm.Scheduled}
	}
	with := func(payload string, e fsm.Event) fsm.Event {
		e.Job.SetPayload([]byte(payload))
		return e
	}
	edit := func(payload string) fsm.Event {
		return with(payload, fsm.Event{Kind: fsm.JobEdited, Job: is("a", fsm.Unclaimed, nil), From: fsm.Unclaimed})
	}
	running := func(l *simLedger) { l.keys.set("k*", &fsm.LimitRule{Running: 1}) }
	slow := func(l *simLedger) { l.keys.set("k1", &fsm.LimitRule{RateMilli: 1, Burst: 1}) }
	held := func(until int64) func(*simLedger) {
		return func(l *simLedger) { l.world.held("k1", simHold{fsm.LSN{Term: 1, Index: 1}, until}) }
	}
	asked := func(l *simLedger) { l.world.askEdit("new", simEdit{job: "a"}) }
	snoozed := func(ms int64) func(*simLedger) { return func(l *simLedger) { l.world.delayed('a', ms) } }
	both := []fsm.Event{comes("a", keys), comes("b", keys), starts("a", keys)}
	released := []fsm.Event{comes("a", nil), starts("a", nil), ends("a", nil, fsm.Scheduled, fsm.EndReleased)}
	for name, c := range map[string]struct {
		events []fsm.Event
		know   func(*simLedger) // called before the last event
		found  string           // expected violation; "": none
	}{
		"two under a limit of one":     {append(both[:3:3], starts("b", keys)), running, "starts at 1-4 while 1 jobs run under k1"},
		"the lease of the first ended": {append(both[:3:3], ends("a", keys, fsm.Unclaimed, fsm.EndLease), starts("b", keys)), running, ""},
		"no rule":                      {append(both[:3:3], starts("b", keys)), nil, ""},
		"too fast":                     {append(both[:3:3], ends("a", keys, fsm.Completed, fsm.EndOK), starts("b", keys)), func(l *simLedger) { slow(l); l.keys.levels["k1"] = simLevel{0, 3} }, "no permit left"},
		"held":                         {both, held(1000), "which was held"},
		"held no more":                 {both, held(2), ""},
		"overtakes in a sequence":      {[]fsm.Event{comes("a", line), comes("b", line), starts("b", line)}, nil, "job b of sequence s"},
		"overtakes between attempts": {
			[]fsm.Event{comes("a", line), comes("b", line), starts("a", line), ends("a", line, fsm.Unclaimed, fsm.EndFail), starts("b", line)}, nil, "job b of sequence s",
		},
		"in order": {
			[]fsm.Event{comes("a", line), comes("b", line), starts("a", line), ends("a", line, fsm.Dead, fsm.EndFail), starts("b", line)}, nil, "",
		},
		"edited":                      {[]fsm.Event{comes("a", nil), edit("new")}, asked, ""},
		"edited by nobody":            {[]fsm.Event{comes("a", nil), edit("new")}, nil, "nobody has asked for"},
		"an edit of another revision": {[]fsm.Event{comes("a", nil), edit("new")}, func(l *simLedger) { l.world.askEdit("new", simEdit{job: "a", revision: new(uint64(1))}) }, "of revision 0"},
		"an edit that was refused":    {[]fsm.Event{comes("a", nil), edit("new")}, func(l *simLedger) { asked(l); l.jobs["a"].refused = map[string]bool{"new": true} }, "that edit was refused"},
		"an edit that is not seen":    {[]fsm.Event{comes("a", nil), starts("a", nil)}, func(l *simLedger) { l.jobs["a"].payload = "new" }, "in place of new"},
		"too early":                   {append(released[:3:3], again(1)), func(l *simLedger) { l.jobs["a"].notBefore = 1000 }, "was released until 1000"},
		"the attempt counts":          {append(released[:3:3], again(2)), func(l *simLedger) { l.jobs["a"].notBefore = 1 }, "its attempt 1 was released"},
		"snoozed":                     {released, snoozed(1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			w.ask("a")
			w.ask("b")
			l := newSimLedger(w, "a")
			w.states[fsm.LSN{Term: 1, Index: 1}] = &simState{ledger: l}
			for i, e := range c.events {
				if c.know != nil && i == len(c.events)-1 {
					c.know(l)
				}
				l.note(simStateAt(t, uint64(i+1)), []fsm.Event{e})
			}
			if c.found == "" && len(w.failures) > 0 {
				t.Errorf("found is %q", w.failures)
			} else if c.found != "" {
				mustFind(t, w.failures, c.found)
			}
			if name == "snoozed" && l.jobs["a"].notBefore != l.now+1 {
				t.Errorf("the job may start at %d, and it is %d", l.jobs["a"].notBefore, l.now)
			}
		})
	}
}

// TestSimFindsAWrongAnswerToAnEdit has answers that contradict the line.
func TestSimFindsAWrongAnswerToAnEdit(t *testing.T) {
	at := fsm.LSN{Term: 1, Index: 1}
	for name, c := range map[string]struct {
		code  fsm.Code
		edits map[string]fsm.LSN
		found string
	}{
		"acknowledged and not there": {fsm.OK, nil, "it is not there"},
		"refused and there":          {fsm.Revised, map[string]fsm.LSN{"new": at}, "took effect"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			l := newSimLedger(w, "a")
			l.jobs["j"] = &simJob{edits: c.edits}
			w.states[at] = &simState{ledger: l}
			w.editAnswered("j", "new", simAnswer{Result: fsm.Result{Code: c.code}, lsn: at})
			mustFind(t, w.failures, c.found)
		})
	}
}
