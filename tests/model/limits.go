package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"osqueue/tests/history"
)

// limited: under a key, no more jobs run than its rule allows, no more start than its bucket has permits for, and none starts
// while it is held.
func limited(f *facts, v *Verdict) {
	f.limitsInLog(v)
	f.limitsByAnswers(v)
}

// keysOf are the single keys.
func keysOf(limits string) []string {
	if limits == "" {
		return nil
	}
	return strings.Split(limits, ",")
}

// permit is what a start takes from a bucket, whose level grows by RateMilli in each ms.
const permit = 1_000_000

// level is a bucket at a time, in ms.
type level struct{ left, at int64 }

// limitLog follows keys through a log. A key whose bucket it does not have has a full one.
type limitLog struct {
	f       *facts
	v       *Verdict
	rules   map[string]*history.Rule // by pattern
	runs    map[string]string        // the keys of jobs that run
	running map[string]int64         // by key
	levels  map[string]level
	held    map[string]int64 // until when, ms
}

// limitsInLog counts by the log: it has the order of starts, ends and rules, and their time to the millisecond.
func (f *facts) limitsInLog(v *Verdict) {
	s := &limitLog{
		f: f, v: v, rules: make(map[string]*history.Rule), runs: make(map[string]string), running: make(map[string]int64),
		levels: make(map[string]level), held: make(map[string]int64),
	}
	edited := f.limitsEdited()
	for _, l := range f.log {
		if l.Code != okCode {
			continue
		}
		s.line(l)
		for _, it := range l.Jobs {
			if !didItem(it) {
				continue
			}
			if e := f.enqueue[it.Job]; l.Kind == history.Claim && e != nil && e.Limits != it.Limits && !edited[it.Job] {
				v.broken([]int{e.ID}, "log %s: job %s starts with the limits %q, and was enqueued with %q", l.LSN, it.Job, it.Limits, e.Limits)
			}
			s.item(l, it)
		}
	}
}

// limitsEdited are the jobs whose limits an edit may have changed.
func (f *facts) limitsEdited() map[string]bool {
	edited := make(map[string]bool)
	for _, op := range f.ops {
		if op.Kind == history.Edit && op.Limits != "" {
			edited[op.Job] = true
		}
	}
	return edited
}

// rule is the one in force for a key: that of the pattern that is the key, else that of the longest prefix.
func (s *limitLog) rule(key string) history.Rule {
	if r := s.rules[key]; r != nil {
		return *r
	}
	for n := len(key); n >= 0; n-- {
		if r := s.rules[key[:n]+"*"]; r != nil {
			return *r
		}
	}
	return history.Rule{}
}

func (s *limitLog) line(l *history.Applied) {
	switch l.Kind {
	case history.SetLimit:
		old := make(map[string]history.Rule)
		for key := range s.levels {
			old[key] = s.rule(key)
		}
		s.rules[l.Limit] = l.Rule
		for key, r := range old {
			if now := s.rule(key); now.RateMilli != r.RateMilli || now.Burst != r.Burst {
				delete(s.levels, key)
			}
		}
	case history.Throttle:
		if l.Worker == "" {
			s.held[l.Limit] = 0 // without a lease the time counts as it is
		}
		s.held[l.Limit] = max(s.held[l.Limit], l.Until)
	case history.Snapshot:
		for _, r := range l.Limits {
			s.rules[r.Name], s.held[r.Name] = r.Rule, r.Until
			if r.At != 0 {
				s.levels[r.Name] = level{r.Level, r.At}
			}
		}
	}
}

func (s *limitLog) item(l *history.Applied, it history.Item) {
	if it.Status == runningStatus {
		if l.Kind == history.Claim {
			for _, key := range keysOf(it.Limits) {
				s.start(l, it.Job, key)
			}
		}
		s.count(it.Job, it.Limits)
		return
	}
	s.count(it.Job, "")
}

// count notes under which keys a job runs.
func (s *limitLog) count(job, limits string) {
	for _, key := range keysOf(s.runs[job]) {
		s.running[key]--
	}
	s.runs[job] = limits
	for _, key := range keysOf(limits) {
		s.running[key]++
	}
}

func (s *limitLog) start(l *history.Applied, job, key string) {
	s.v.Checked++
	rule := s.rule(key)
	if n := s.running[key]; rule.Running > 0 && n >= rule.Running {
		s.v.broken(s.f.opsOf(job), "log %s: job %s starts while %d jobs run under %s, of which %d may", l.LSN, job, n, key, rule.Running)
	}
	if until := s.held[key]; until > l.Now {
		s.v.broken(s.f.opsOf(job), "log %s: job %s starts at %d ms under %s, which is held until %d", l.LSN, job, l.Now, key, until)
	}
	if rule.RateMilli > 0 {
		left := s.left(key, rule, l.Now)
		if left < permit {
			s.v.broken(s.f.opsOf(job), "log %s: job %s starts at %d ms under %s, whose bucket has %d of the %d parts of a permit", l.LSN, job, l.Now, key, left, permit)
		}
		s.levels[key] = level{left - permit, l.Now}
	}
}

// left is the level of a bucket at a time.
func (s *limitLog) left(key string, rule history.Rule, now int64) int64 {
	full := max(rule.Burst, 1) * permit
	b, begun := s.levels[key]
	if !begun {
		return full
	}
	return min(full, b.left+(now-b.at)*rule.RateMilli)
}

// stay is the time in which an attempt ran for certain: from the return of its claim until a heartbeat or the report of its end
// was called that was accepted.
type stay struct {
	*term
	until history.Time
}

// stays are the attempts that have such a time, by key, in the order of their claims.
func (f *facts) stays() map[string][]stay {
	type key struct {
		job   string
		token uint64
	}
	first, sure := make(map[key]history.Time), make(map[key]bool) // the report of the end
	for _, op := range f.ops {
		if k := (key{op.Job, op.Token}); ends(op.Kind) && op.Outcome != history.Refused {
			if at, is := first[k]; !is || op.Call < at {
				first[k] = op.Call
			}
			sure[k] = sure[k] || op.Outcome == history.OK
		}
	}
	edited, by := f.limitsEdited(), make(map[string][]stay)
	for _, t := range f.terms() {
		e, k := f.enqueue[t.job], key{t.job, t.token}
		if e == nil || edited[t.job] {
			continue
		}
		s := stay{term: t, until: t.sign.Call}
		if sure[k] {
			s.until = max(s.until, first[k])
		}
		for _, name := range keysOf(e.Limits) {
			by[name] = append(by[name], s)
		}
	}
	for _, all := range by {
		slices.SortFunc(all, func(a, b stay) int {
			return cmp.Or(cmp.Compare(a.claim.Call, b.claim.Call), cmp.Compare(a.token, b.token))
		})
	}
	return by
}

func ends(k history.Kind) bool {
	return k == history.Complete || k == history.Fail || k == history.Release
}

// limitsByAnswers: when a claim starts a job, the attempts that ran for certain all the while are fewer than the largest rule that
// may have been in force allows.
func (f *facts) limitsByAnswers(v *Verdict) {
	by := f.stays()
	for _, key := range sortedKeys(by) {
		for i, s := range by[key] {
			v.Checked++
			n, ops := int64(0), []int{s.claim.ID}
			for j, o := range by[key] {
				during := o.claim.Return <= s.claim.Call && o.until >= s.claim.Return && !f.losesIn(o.claim.Call, o.until)
				if during || o.claim == s.claim && j <= i { // of a claim, this one and those before it
					n++
					ops = append(ops, o.claim.ID)
				}
			}
			if most := f.mostRunning(key, s.claim.Call, s.claim.Return); n > most {
				v.broken(slices.Compact(ops), "job %s: with it %d jobs run under %s, of which at most %d may", s.job, n, key, most)
			}
		}
	}
}

// losesIn reports whether a fault in that time may have lost what was not in the bucket.
func (f *facts) losesIn(from, to history.Time) bool {
	return slices.ContainsFunc(f.h.Faults, func(x history.Fault) bool { return x.Loses && x.Hit && from < x.End && x.Begin < to })
}

// mostRunning is the largest number of running jobs that a rule can have allowed for a key in that time.
func (f *facts) mostRunning(key string, from, to history.Time) int64 {
	most := int64(0)
	for n := len(key) + 1; n >= 0; n-- { // the key itself, then the longest prefix
		pattern := key
		if n <= len(key) {
			pattern = key[:n] + "*"
		}
		rules := f.rulesIn(pattern, from, to)
		for _, r := range rules {
			switch {
			case r != nil && r.Running == 0:
				return math.MaxInt64
			case r != nil:
				most = max(most, r.Running)
			}
		}
		if !slices.Contains(rules, nil) {
			return most
		}
	}
	return math.MaxInt64 // it may have had none
}

// rulesIn are the rules that a pattern may have had at some moment of a time; nil: none.
func (f *facts) rulesIn(pattern string, from, to history.Time) (rules []*history.Rule) {
	if f.setLimits == nil {
		f.setLimits = make(map[string][]*history.Op)
		for _, op := range f.ops {
			if op.Kind == history.SetLimit && op.Outcome != history.Refused {
				f.setLimits[op.Limit] = append(f.setLimits[op.Limit], op)
			}
		}
	}
	replaced := func(since history.Time) bool { // for certain, before the time
		return slices.ContainsFunc(f.setLimits[pattern], func(o *history.Op) bool {
			return o.Outcome == history.OK && o.Call > since && o.Return < from && !f.losesIn(o.Call, to)
		})
	}
	if !replaced(-1) {
		rules = append(rules, nil)
	}
	for _, op := range f.setLimits[pattern] {
		if op.Call <= to && (op.Outcome == history.Unknown || !replaced(op.Return)) {
			rules = append(rules, op.Rule)
		}
	}
	return rules
}
