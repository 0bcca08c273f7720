package mutants_test

import (
	"time"

	"osqueue/tests/mutants"
)

// behaviour are the tests of the machine of which at least one must notice a bug of it.
var (
	behaviour = check{
		pkg:    "fsm",
		tests:  []string{"TestMachineAgreesWithModel", "TestTranscripts", "TestReplicasStayEqual", "TestNoClaimSleepsOn"},
		flags:  []string{"-rapid.checks=4000", "-rapid.nofailfile", "-rapid.shrinktime=0s"},
		within: 30 * time.Minute,
	}
	// budgets is the test with budgets so small that short logs exhaust them.
	budgets = check{
		pkg:   "fsm",
		tests: []string{"TestReplicasWithTinyBudgetsStayEqual"},
		flags: behaviour.flags, within: behaviour.within,
	}
)

// machine are bugs of the machine, by feature in the order of its design.
var machine = []defect{
	// 1. Time.
	{"takeover", mutants.Mutant{
		Name: "takeover forgets the time of the entry", File: "fsm/apply.go",
		Old: `m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)`,
		Bug: `m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now)`,
	}, behaviour},
	{"takeover", mutants.Mutant{
		Name: "timeout not put off by a takeover", File: "fsm/timer.go",
		Old: `if m.meta.LeasesFrom > j.Exec.ClaimedAt {`,
		Bug: `if m.meta.LeasesFrom > j.Exec.ClaimedAt && false {`,
	}, behaviour},
	{"time", mutants.Mutant{
		Name: "lease ends one ms early", File: "fsm/timer.go",
		Old: `return later(max(j.Exec.Heartbeat, m.meta.LeasesFrom), j.Exec.HeldMs, 1)`,
		Bug: `return later(max(j.Exec.Heartbeat, m.meta.LeasesFrom), j.Exec.HeldMs)`,
	}, behaviour},
	{"time", mutants.Mutant{
		Name: "next deadline without unique periods", File: "fsm/advance.go",
		Old: `consider(h.UntilMs)`,
		Bug: `consider(h.UntilMs + 1000)`,
	}, behaviour},
	{"time", mutants.Mutant{
		Name: "nothing settles when time passes", File: "fsm/advance.go",
		Old: "m.endReservations()\n\tm.settle()\n",
		Bug: "m.endReservations()\n",
	}, behaviour},

	{"budgets", mutants.Mutant{
		Name: "permits wait for the budget", File: "fsm/advance.go",
		Old: `if m.firings <= 0 {`,
		Bug: `if m.firings < 0 {`,
	}, budgets},
	{"budgets", mutants.Mutant{
		Name: "a timer that is moved uses the budget", File: "fsm/advance.go",
		Old: "if end := m.leaseEnd(j); end > t.at {\n",
		Bug: "if end := m.leaseEnd(j); end > t.at {\n\t\tm.firings--\n",
	}, budgets},
	{"budgets", mutants.Mutant{
		Name: "retention continues with the types of the last entry", File: "fsm/retain.go",
		Old: "\t\tm.retireOf(q)\n\t\tq.dirty",
		Bug: "\t\tif m.removals <= 0 {\n\t\t\tm.dirty = m.dirty[i:]\n\t\t\treturn\n\t\t}\n\t\tm.retireOf(q)\n\t\tq.dirty",
	}, budgets},

	// 3. Enqueue.
	{"enqueue", mutants.Mutant{
		Name: "backoff is no content", File: "fsm/removed.go",
		Old: `numbers(int64(o.Backoff.Kind), o.Backoff.BaseMs, o.Backoff.CapMs, int64(o.Backoff.Jitter), o.TimeoutMs,`,
		Bug: `numbers(o.TimeoutMs,`,
	}, behaviour},
	{"enqueue", mutants.Mutant{
		Name: "duplicate of another type's key", File: "fsm/unique.go",
		Old: `if h.jobType == jobType && h.key == key {`,
		Bug: `if h.key == key {`,
	}, behaviour},
	{"enqueue", mutants.Mutant{
		Name: "twins of one mutation not seen", File: "fsm/enqueue.go",
		Old: `if k, ok := p.keys[holder{jobType: n.Type, key: key}]; ok {`,
		Bug: `if k, ok := p.keys[holder{jobType: n.Type, key: key}]; ok && k < 0 {`,
	}, behaviour},
	{"enqueue", mutants.Mutant{
		Name: "batch of a refused enqueue stays", File: "fsm/enqueue.go",
		Old: "if code, i := p.check(); code != OK {\n",
		Bug: "if batch != nil {\n\t\tm.batches.Set(batch)\n\t}\n\tif code, i := p.check(); code != OK {\n",
	}, behaviour},

	// 4. Claim.
	{"groups", mutants.Mutant{
		Name: "turns are not taken", File: "fsm/queue.go",
		Old: "\tif a.turn != b.turn {\n\t\treturn a.turn < b.turn\n\t}\n",
		Bug: "",
	}, behaviour},
	{"groups", mutants.Mutant{
		Name: "rotation before priority", File: "fsm/queue.go",
		Old: `if a.head.Priority != b.head.Priority {`,
		Bug: `if a.turn == b.turn && a.head.Priority != b.head.Priority {`,
	}, behaviour},
	{"groups", mutants.Mutant{
		Name: "group served stays in front", File: "fsm/queue.go",
		Old: `if q.waiting.Len() < 2 {`,
		Bug: `if q.waiting.Len() < 3 {`,
	}, behaviour},
	{"groups", mutants.Mutant{
		Name: "a waiting group keeps its turn when it is empty", File: "fsm/queue.go",
		Old: "q.waiting.Delete(g)\n\t\tm.setTurn(q, g, 0)",
		Bug: "q.waiting.Delete(g)",
	}, behaviour},
	{"limits", mutants.Mutant{
		Name: "jobs without group count as one", File: "fsm/queue.go",
		Old: `s.MaxRunningPerGroup > 0 && g.name != "" && int64(g.running)`,
		Bug: `s.MaxRunningPerGroup > 0 && int64(g.running)`,
	}, behaviour},
	{"limits", mutants.Mutant{
		Name: "one too many runs in a type", File: "fsm/queue.go",
		Old: `s.MaxRunning > 0 && int64(q.counts[InProgress]) >= s.MaxRunning`,
		Bug: `s.MaxRunning > 0 && int64(q.counts[InProgress]) > s.MaxRunning`,
	}, behaviour},
	{"limits", mutants.Mutant{
		Name: "a pause is not seen", File: "fsm/queue.go",
		Old: `if s.Paused || s.MaxRunning > 0`,
		Bug: `if s.MaxRunning > 0`,
	}, behaviour},
	{"rate", mutants.Mutant{
		Name: "permits begin to come at the claim", File: "fsm/rate.go",
		Old: `s.Level, s.LevelAt = level-permit, m.meta.Now`,
		Bug: `s.Level, s.LevelAt = s.Level-permit, m.meta.Now`,
	}, behaviour},
	{"rate", mutants.Mutant{
		Name: "the type waits for its permit a ms too long", File: "fsm/rate.go",
		Old: `return later(s.LevelAt, (missing-1)/s.RateMilli+1)`,
		Bug: `return later(s.LevelAt, (missing-1)/s.RateMilli+2)`,
	}, behaviour},
	{"claim", mutants.Mutant{
		Name: "the type's lease before the job's", File: "fsm/claim.go",
		Old: `firstPositive(op.LeaseMs, j.Exec.LeaseMs, lease,`,
		Bug: `firstPositive(op.LeaseMs, lease, j.Exec.LeaseMs,`,
	}, behaviour},
	{"progress", mutants.Mutant{
		Name: "progress of the last attempt stays", File: "fsm/claim.go",
		Old: `d.TimeoutMs, d.Progress, d.ProgressAt, d.Owner = timeout, Progress{}, 0, op.Owner`,
		Bug: `d.TimeoutMs, d.Owner = timeout, op.Owner`,
	}, behaviour},

	{"wake-ups", mutants.Mutant{
		Name: "a second permit wakes no worker", File: "fsm/rate.go",
		Old: "\tm.arrive(q, int(level/permit-s.Level/permit)) // new permits, for which no timer was set\n",
		Bug: "",
	}, behaviour},
	{"wake-ups", mutants.Mutant{
		Name: "a permit that came with another timer wakes no worker", File: "fsm/queue.go",
		Old: `if q.permitAt != 0 { // the permit came`,
		Bug: `if q.permitAt < 0 { // the permit came`,
	}, behaviour},
	{"wake-ups", mutants.Mutant{
		Name: "a job that is over wakes nobody for its place", File: "fsm/queue.go",
		Old: `if s := q.settings; n < 0 && s != nil && s.limitsRunning() {`,
		Bug: `if s := q.settings; n < -1 && s != nil && s.limitsRunning() {`,
	}, behaviour},

	// 5. Ends of an attempt.
	{"cancel", mutants.Mutant{
		Name: "a cancelled job is tried again", File: "fsm/report.go",
		Old: "switch {\n\tcase old.Details().CancelAt != 0:\n\t\tm.endCancelled(old, j)\n",
		Bug: "switch {\n",
	}, behaviour},
	{"cancel", mutants.Mutant{
		Name: "a released job forgets its cancellation", File: "fsm/report.go",
		Old: "if old.Details().CancelAt != 0 {\n\t\tj.Exec.LastError = \"\"\n",
		Bug: "if old.Details().CancelAt != 0 && old.Attempts > 1 {\n\t\tj.Exec.LastError = \"\"\n",
	}, behaviour},
	{"history", mutants.Mutant{
		Name: "history keeps the first attempts", File: "fsm/report.go",
		Old: `past := d.History[max(0, len(d.History)-historyMax+1):]`,
		Bug: `past := d.History[:min(len(d.History), 2)]`,
	}, behaviour},
	{"history", mutants.Mutant{
		Name: "history cut inside a character", File: "fsm/report.go",
		Old: `for n > 0 && !utf8.RuneStart(s[n]) {`,
		Bug: `for n > 0 && !utf8.RuneStart(s[n]) && n < 0 {`,
	}, behaviour},
	{"backoff", mutants.Mutant{
		Name: "a delay of 0 is none", File: "fsm/report.go",
		Old: `case delayMs != nil:`,
		Bug: `case delayMs != nil && *delayMs != 0:`,
	}, behaviour},
	{"backoff", mutants.Mutant{
		Name: "exponential one step ahead", File: "fsm/backoff/backoff.go",
		Old: `1<<min(max(n, 1)-1, 63)`,
		Bug: `1<<min(max(n, 1), 63)`,
	}, behaviour},
	{"backoff", mutants.Mutant{
		Name: "linear has no cap", File: "fsm/backoff/backoff.go",
		Old: "if b.CapMs > 0 {\n",
		Bug: "if b.CapMs > 0 && b.Kind != Linear {\n",
	}, behaviour},
	{"backoff", mutants.Mutant{
		Name: "one die for all", File: "fsm/backoff/backoff.go",
		Old: `mix(random, token))`,
		Bug: `mix(random, 0))`,
	}, behaviour},
	{"backoff", mutants.Mutant{
		Name: "the type's backoff is forgotten", File: "fsm/report.go",
		Old: `b = s.Backoff`,
		Bug: `b.Kind = backoff.None`,
	}, behaviour},
	{"timeout", mutants.Mutant{
		Name: "timed out is lease expired", File: "fsm/report.go",
		Old: `return j, TimedOut`,
		Bug: `return j, LeaseExpired`,
	}, behaviour},
	{"timeout", mutants.Mutant{
		Name: "the type's timeout wins", File: "fsm/claim.go",
		Old: `timeout = firstPositive(old.Options().TimeoutMs, timeout)`,
		Bug: `timeout = firstPositive(timeout, old.Options().TimeoutMs)`,
	}, behaviour},

	{"forced", mutants.Mutant{
		Name: "a forced completion leaves a blocked job waiting", File: "fsm/report.go",
		Old: "case Blocked:\n\t\tj.changeDetails(func(d *Details) { d.Waits = nil })\n\t}\n\tm.meta.CompletedTotal++",
		Bug: "}\n\tm.meta.CompletedTotal++",
	}, behaviour},
	{"forced", mutants.Mutant{
		Name: "a forced completion rewrites how a lost attempt ended", File: "fsm/report.go",
		Old: "case InProgress:\n\t\tj.AttemptEnd = EndOK\n",
		Bug: "default:\n\t\tj.AttemptEnd = EndOK\n",
	}, behaviour},
	{"forced", mutants.Mutant{
		Name: "a second result is not counted in bytes", File: "fsm/index.go",
		Old: "m.unindex(old)\n\tm.ids.Put(j)\n\tm.index(j)\n\tm.events",
		Bug: "m.ids.Put(j)\n\tm.replace(old, j)\n\tm.events",
	}, behaviour},
	{"forced", mutants.Mutant{
		Name: "completed again counts again", File: "fsm/report.go",
		Old: "case Completed:\n\t\tm.putEndedAgain",
		Bug: "case Completed:\n\t\tm.meta.CompletedTotal++\n\t\tm.putEndedAgain",
	}, behaviour},
	{"forced", mutants.Mutant{
		Name: "waiters of a dead job are not settled by its completion", File: "fsm/index.go",
		Old: `if from == 0 || from.ended() || j.Status.ended() {`,
		Bug: `if from == 0 || from.ended() != j.Status.ended() {`,
	}, behaviour},
	{"forced", mutants.Mutant{
		Name: "a batch with a force-completed job is not called back", File: "fsm/batch.go",
		Old: `if from.ended() && j.Status.ended() {`,
		Bug: `if from.ended() && j.Status.ended() && false {`,
	}, behaviour},

	{"log", mutants.Mutant{
		Name: "logs are not counted", File: "fsm/job.go",
		Old: `+len(j.Details().Log)) + j.Opt`,
		Bug: `) + j.Opt`,
	}, behaviour},
	{"log", mutants.Mutant{
		Name: "a completion loses its log", File: "fsm/report.go",
		Old: `if op.Log != j.Details().Log {`,
		Bug: `if op.Log == "" {`,
	}, behaviour},
	{"log", mutants.Mutant{
		Name: "a log with nothing else is dropped", File: "fsm/after.go",
		Old: ` && d.TimeoutMs == 0 && d.Log == ""`,
		Bug: ` && d.TimeoutMs == 0`,
	}, behaviour},
	{"log", mutants.Mutant{
		Name: "snapshots lose logs", File: "fsm/details.go",
		Old: `TimeoutMs: p.TimeoutMs, Log: p.Log,`,
		Bug: `TimeoutMs: p.TimeoutMs,`,
	}, behaviour},

	// 6. Change.
	{"cancel", mutants.Mutant{
		Name: "cancelled twice is ok twice", File: "fsm/change.go",
		Old: "if old.Details().CancelAt != 0 {\n\t\treturn old, Duplicate\n",
		Bug: "if old.Details().CancelAt < 0 {\n\t\treturn old, Duplicate\n",
	}, behaviour},
	{"retry", mutants.Mutant{
		Name: "a retry leaves the request to cancel", File: "fsm/change.go",
		Old: `d.CancelAt, d.Progress, d.ProgressAt, d.Waits, d.GivenBack = 0, Progress{}, 0, nil, 0`,
		Bug: `d.Progress, d.ProgressAt, d.Waits, d.GivenBack = Progress{}, 0, nil, 0`,
	}, behaviour},
	{"unique", mutants.Mutant{
		Name: "a retry does not look at the key", File: "fsm/change.go",
		Old: `h != nil && h.Seq != old.Seq`,
		Bug: `h != nil && h.Seq < old.Seq`,
	}, behaviour},
	{"delete", mutants.Mutant{
		Name: "deleting leaves the period", File: "fsm/change.go",
		Old: "m.endReservation(j)\n",
		Bug: "",
	}, behaviour},
	{"filter", mutants.Mutant{
		Name: "created from is exclusive", File: "fsm/change.go",
		Old: `f.CreatedFromMs != 0 && j.CreatedAt < f.CreatedFromMs`,
		Bug: `f.CreatedFromMs != 0 && j.CreatedAt <= f.CreatedFromMs`,
	}, behaviour},
	{"filter", mutants.Mutant{
		Name: "the last of a page is visited twice", File: "fsm/change.go",
		Old: `m.nextIn(f, s, seq+1)`,
		Bug: `m.nextIn(f, s, max(seq, 1))`,
	}, behaviour},
	{"filter", mutants.Mutant{
		Name: "the type is not looked at with a tag", File: "fsm/change.go",
		Old: `case f.Type != nil && j.Type != *f.Type,`,
		Bug: `case f.Type != nil && f.label == nil && j.Type != *f.Type,`,
	}, behaviour},

	// 7. Uniqueness.
	{"unique", mutants.Mutant{
		Name: "waiting holds while it runs", File: "fsm/unique.go",
		Old: `return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed`,
		Bug: `return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed || j.Status == InProgress`,
	}, behaviour},
	{"unique", mutants.Mutant{
		Name: "a period ends one ms late", File: "fsm/unique.go",
		Old: `if !ok || h.UntilMs > m.meta.Now {`,
		Bug: `if !ok || h.UntilMs >= m.meta.Now {`,
	}, behaviour},

	// 8. Dependencies.
	{"after", mutants.Mutant{
		Name: "a dead job lets its waiters go", File: "fsm/after.go",
		Old: `if status == Completed || old.Options().AfterFailure == AfterRun {`,
		Bug: `if status != 0 || old.Options().AfterFailure == AfterRun {`,
	}, behaviour},
	{"after", mutants.Mutant{
		Name: "a deleted job blocks its waiters", File: "fsm/after.go",
		Old: "case 0, Completed:\n\t\tn = w.waited[id].all",
		Bug: "case 0:\n\t\tn = w.waited[id].moved\n\tcase Completed:\n\t\tn = w.waited[id].all",
	}, behaviour},
	{"after", mutants.Mutant{
		Name: "unblocked before its time", File: "fsm/after.go",
		Old: `if j.RunAt > now {`,
		Bug: `if j.RunAt > now && j.Status != Blocked {`,
	}, behaviour},
	{"after", mutants.Mutant{
		Name: "a cycle blames the last", File: "fsm/enqueue.go",
		Old: `case i == first:`,
		Bug: `case first >= 0 && i == len(p.jobs)-1:`,
	}, behaviour},
	{"after", mutants.Mutant{
		Name: "a job waits for one that completed before the enqueue", File: "fsm/enqueue.go",
		Old: `m.statusOf(on) != Completed {`,
		Bug: `m.statusOf(on) != Unclaimed {`,
	}, behaviour},

	// 9. Batches.
	{"batch", mutants.Mutant{
		Name: "the callback comes twice", File: "fsm/batch.go",
		Old: `if old.Callback == nil || old.Called || `,
		Bug: `if old.Callback == nil || `,
	}, behaviour},
	{"batch", mutants.Mutant{
		Name: "completed only, but called for any end", File: "fsm/batch.go",
		Old: `old.CallbackOn == CallbackCompleted && old.Completed != old.Total`,
		Bug: `old.CallbackOn == CallbackCompleted && old.Completed == 0`,
	}, behaviour},
	{"batch", mutants.Mutant{
		Name: "a retry does not open the batch", File: "fsm/batch.go",
		Old: "if b.Pending() > 0 {\n\t\tb.EndedAt = 0",
		Bug: "if b.Pending() > 0 {\n\t\tb.EndedAt += 0",
	}, behaviour},
	{"batch", mutants.Mutant{
		Name: "deleted jobs are not counted", File: "fsm/batch.go",
		Old: "b.count(Cancelled, +1)\n\tm.putBatch(old, &b)",
		Bug: "m.putBatch(old, &b)",
	}, behaviour},
	{"batch", mutants.Mutant{
		Name: "a job counts in a later batch of the name", File: "fsm/batch.go",
		Old: `if !ok || b.CreatedAt > j.CreatedAt {`,
		Bug: `if !ok {`,
	}, behaviour},

	// 10. Types.
	{"types", mutants.Mutant{
		Name: "removed settings stay in force", File: "fsm/settings.go",
		Old: `m.useSettings(m.queue(op.Name), nil)`,
		Bug: `m.useSettings(m.queue(op.Name), old)`,
	}, behaviour},
	{"types", mutants.Mutant{
		Name: "no default to go back to", File: "fsm/settings.go",
		Old: `assign(&s.MaxAttempts, op.MaxAttempts, Unset)`,
		Bug: `assign(&s.MaxAttempts, op.MaxAttempts, 0)`,
	}, behaviour},
	{"rate", mutants.Mutant{
		Name: "a new burst does not fill the rate", File: "fsm/settings.go",
		Old: `if old == nil || s.RateMilli != rate || s.Burst != burst {`,
		Bug: `if old == nil || s.RateMilli != rate || s.Burst > burst {`,
	}, behaviour},
	{"retention", mutants.Mutant{
		Name: "small counts of a type are passed over", File: "fsm/retain.go",
		Old: `if s := q.settings; s != nil && s.RetainCount != Unset {`,
		Bug: `if s := q.settings; s != nil && s.RetainCount > 2 {`,
	}, behaviour},
	{"retention", mutants.Mutant{
		Name: "new settings keep old jobs", File: "fsm/apply.go",
		Old: "m.reviewRetention()\n",
		Bug: "",
	}, behaviour},
	{"retention", mutants.Mutant{
		Name: "types retire in any order", File: "fsm/retain.go",
		Old: `return strings.Compare(a.name, b.name) })`,
		Bug: `return strings.Compare(b.name, a.name) })`,
	}, behaviour},

	// 11. Cron.
	{"cron", mutants.Mutant{
		Name: "fires again for the same time", File: "fsm/cron.go",
		Old: `old.NextAt == 0 || old.NextAt != op.DueMs ||`,
		Bug: `old.NextAt == 0 || old.NextAt < op.DueMs ||`,
	}, behaviour},
	{"cron", mutants.Mutant{
		Name: "a late fire is made", File: "fsm/cron.go",
		Old: `c.Missed == MissedSkip && late > lateMs {`,
		Bug: `c.Missed == MissedSkip && late > lateMs+1 {`,
	}, behaviour},
	{"cron", mutants.Mutant{
		Name: "overlaps", File: "fsm/cron.go",
		Old: `c.Overlap == OverlapSkip && m.unended(c.LastJobID)`,
		Bug: `c.Overlap == OverlapSkip && m.unended(op.JobId)`,
	}, behaviour},
	{"cron", mutants.Mutant{
		Name: "an edited schedule forgets its counters", File: "fsm/cron.go",
		Old: "*c = *old\n",
		Bug: "c.CreatedAt = old.CreatedAt\n",
	}, behaviour},
	{"cron", mutants.Mutant{
		Name: "a paused schedule wakes the leader", File: "fsm/cron.go",
		Old: "if paused {\n\t\tc.NextAt = 0\n\t}\n",
		Bug: "",
	}, behaviour},

	// 12. Quotas.
	{"quota", mutants.Mutant{
		Name: "results are not counted", File: "fsm/job.go",
		Old: `return int64(len(j.payload)+len(j.Execution().Result)+len(j.Details().Log)) + j.Opt.textBytes()`,
		Bug: `return int64(len(j.payload)+len(j.Details().Log)) + j.Opt.textBytes()`,
	}, behaviour},
	{"quota", mutants.Mutant{
		Name: "ended jobs count", File: "fsm/machine.go",
		Old: `return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress]`,
		Bug: `return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress] + c[Dead]`,
	}, behaviour},
	{"quota", mutants.Mutant{
		Name: "jobs of one mutation do not add up", File: "fsm/enqueue.go",
		Old: "p.added.jobs++\n",
		Bug: "",
	}, behaviour},

	// 13. Requests.
	{"requests", mutants.Mutant{
		Name: "another request under the key", File: "fsm/request.go",
		Old: `if string(r.Fingerprint) != string(req.Fingerprint) {`,
		Bug: `if len(r.Fingerprint) != len(req.Fingerprint) {`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "refusals are remembered", File: "fsm/request.go",
		Old: `if res.tookEffect() && !claimedNothing(mut, &res) {`,
		Bug: `if !claimedNothing(mut, &res) {`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "requests are never forgotten", File: "fsm/request.go",
		Old: `if !ok || later(r.AtMs, m.meta.Settings.RequestMs) >= m.meta.Now {`,
		Bug: `if !ok || later(r.AtMs, m.meta.Settings.RequestMs, 1) >= m.meta.Now {`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "a repeated claim answers lost jobs", File: "fsm/claim.go",
		Old: `j != nil && j.Status == InProgress && j.Execution().Token == l.Token`,
		Bug: `j != nil && j.Status == InProgress`,
	}, behaviour},
	{"group", mutants.Mutant{
		Name: "a group stops at a refusal", File: "fsm/request.go",
		Old: "res.Codes[i] = r.Code\n",
		Bug: "res.Codes[i] = r.Code\n\t\tif !r.Code.Done() {\n\t\t\tbreak\n\t\t}\n",
	}, behaviour},

	{"requests", mutants.Mutant{
		Name: "requests of many jobs count once", File: "fsm/request.go",
		Old: `return 1 + int64(len(r.Items)/requestItems)`,
		Bug: `return 1`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "removed jobs are added again with other content", File: "fsm/enqueue.go",
		Old: `return p.repeats(string(old.Fingerprint) == contentOfNew(n))`,
		Bug: `return p.repeats(true)`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "a removed job takes any report", File: "fsm/removed.go",
		Old: `j.Execution().Token == l.Token && j.AttemptEnd == end`,
		Bug: `j.Execution().Token == l.Token`,
	}, behaviour},
	{"requests", mutants.Mutant{
		Name: "removed jobs are known for a request's time", File: "fsm/removed.go",
		Old: `repeatMs-max(m.meta.Settings.RequestMs, 0)))`,
		Bug: `0))`,
	}, behaviour},

	// 14. Announcements.
	{"announce", mutants.Mutant{
		Name: "announcements of any length", File: "fsm/apply.go",
		Old: `cut(op.Text, announceMax)`,
		Bug: `cut(op.Text, 1<<20)`,
	}, behaviour},
	{"announce", mutants.Mutant{
		Name: "the bucket is back when writes are refused", File: "fsm/event.go",
		Old: "AnnounceWritesRefused:  WritesRefused,",
		Bug: "AnnounceWritesRefused:  BucketBack,",
	}, behaviour},
	{"announce", mutants.Mutant{
		Name: "an announcement without a node", File: "fsm/apply.go",
		Old: `Name: m.meta.Broker.Node, Text:`,
		Bug: `Text:`,
	}, behaviour},

	{"quota", mutants.Mutant{
		Name: "the texts of options count as payload", File: "fsm/enqueue.go",
		Old: `case limits[0].tooLarge(len(n.Payload)) || limits[1].tooLarge(len(n.Payload)):`,
		Bug: `case limits[0].tooLarge(int(size)) || limits[1].tooLarge(int(size)):`,
	}, behaviour},

	// Snapshots and listings.
	{"snapshot", mutants.Mutant{
		Name: "a restored machine gives new turns", File: "fsm/queue.go",
		Old: `if m.building {`,
		Bug: `if m.building && q.waiting.Len() > 2 {`,
	}, behaviour},
	{"snapshot", mutants.Mutant{
		Name: "jobs keep memory that the decoder uses again", File: "fsm/snapshotjobs.go",
		Old: `if e := executionOf(p); p.Options == nil && p.Details == nil && e.zero() {`,
		Bug: `if e := executionOf(p); p.Details == nil && e.zero() {`,
	}, check{pkg: "fsm", test: "TestSnapshotOfManyChunks"}},
	{"snapshot", mutants.Mutant{
		Name: "snapshots lose the level of a rate", File: "fsm/pbrecords.go",
		Old: `Level: p.Level, LevelAt: p.LevelAtMs,`,
		Bug: `Level: p.Level, LevelAt: p.Level,`,
	}, behaviour},
	{"snapshot", mutants.Mutant{
		Name: "snapshots lose the request to cancel", File: "fsm/details.go",
		Old: `ProgressAt: p.ProgressAtMs, Waits: p.Waits, CancelAt: p.CancelAtMs, TimeoutMs: p.TimeoutMs,`,
		Bug: `ProgressAt: p.ProgressAtMs, Waits: p.Waits, TimeoutMs: p.TimeoutMs,`,
	}, behaviour},
	{"views", mutants.Mutant{
		Name: "jobs listed under a tag are old", File: "fsm/index.go",
		Old: `j.labels(func(l label) { m.tagged.Set(tagged{l, j}) })
	switch j.Status {
	case InProgress:
		m.running.Set(j)`,
		Bug: `switch j.Status {
	case InProgress:
		m.running.Set(j)`,
	}, behaviour},
}
