package fsm_test

// mutants are the seeded bugs, by feature in the order of the design.
var mutants = []mutant{
	// 1. Time.
	{
		"takeover forgets the time of the entry", "takeover", "machine.go",
		`m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now, b.NowMs)`,
		`m.meta.LeasesFrom = max(m.meta.LeasesFrom, m.meta.Now)`,
	},
	{
		"timeout not put off by a takeover", "takeover", "timer.go",
		`if m.meta.LeasesFrom > j.Exec.ClaimedAt {`,
		`if m.meta.LeasesFrom > j.Exec.ClaimedAt && false {`,
	},
	{
		"lease ends one ms early", "time", "timer.go",
		`return later(max(j.Exec.Heartbeat, m.meta.LeasesFrom), j.Exec.HeldMs, 1)`,
		`return later(max(j.Exec.Heartbeat, m.meta.LeasesFrom), j.Exec.HeldMs)`,
	},
	{
		"next deadline without unique periods", "time", "timer.go",
		`consider(h.Until)`,
		`consider(h.Until + 1000)`,
	},
	{
		"nothing settles when time passes", "time", "timer.go",
		"m.endReservations()\n\tm.settle()\n",
		"m.endReservations()\n",
	},

	{
		"permits wait for the budget", "budgets", "timer.go",
		`if m.firings <= 0 && m.Level() >= Level7 {`,
		`if m.firings <= 0 && m.Level() < Level7 {`,
	},
	{
		"a timer that is moved uses the budget", "budgets", "timer.go",
		"if end := m.leaseEnd(j); end > t.at {\n",
		"if end := m.leaseEnd(j); end > t.at {\n\t\tm.firings--\n",
	},
	{
		"retention continues with the types of the last entry", "budgets", "retain.go",
		"\t\tm.retireOf(q)\n\t\tq.dirty",
		"\t\tif m.removals <= 0 {\n\t\t\tm.dirty = m.dirty[i:]\n\t\t\treturn\n\t\t}\n\t\tm.retireOf(q)\n\t\tq.dirty",
	},

	// 3. Enqueue.
	{
		"backoff is no content", "enqueue", "enqueue.go",
		`return o.Backoff == p.Backoff && o.TimeoutMs == p.TimeoutMs`,
		`return o.TimeoutMs == p.TimeoutMs`,
	},
	{
		"duplicate of another type's key", "enqueue", "unique.go",
		`if h.jobType == jobType && h.key == key {`,
		`if h.key == key {`,
	},
	{
		"twins of one mutation not seen", "enqueue", "enqueue.go",
		`if k, ok := p.keys[holder{jobType: n.Type, key: key}]; ok {`,
		`if k, ok := p.keys[holder{jobType: n.Type, key: key}]; ok && k < 0 {`,
	},
	{
		"batch of a refused enqueue stays", "enqueue", "enqueue.go",
		"if code, i := p.check(); code != OK {\n",
		"if batch != nil {\n\t\tm.batches.Set(batch)\n\t}\n\tif code, i := p.check(); code != OK {\n",
	},

	// 4. Claim.
	{
		"turns are not taken", "groups", "queue.go",
		"\tif a.turn != b.turn {\n\t\treturn a.turn < b.turn\n\t}\n",
		"",
	},
	{
		"rotation before priority", "groups", "queue.go",
		`if a.head.Priority != b.head.Priority {`,
		`if a.turn == b.turn && a.head.Priority != b.head.Priority {`,
	},
	{
		"group served stays in front", "groups", "queue.go",
		`if q.waiting.Len() < 2 {`,
		`if q.waiting.Len() < 3 {`,
	},
	{
		"a waiting group keeps its turn when it is empty", "groups", "queue.go",
		"q.waiting.Delete(g)\n\t\tm.setTurn(q, g, 0)",
		"q.waiting.Delete(g)",
	},
	{
		"jobs without group count as one", "limits", "queue.go",
		`s.MaxRunningPerGroup > 0 && g.name != "" && int64(g.running)`,
		`s.MaxRunningPerGroup > 0 && int64(g.running)`,
	},
	{
		"one too many runs in a type", "limits", "queue.go",
		`s.MaxRunning > 0 && int64(q.counts[InProgress]) >= s.MaxRunning`,
		`s.MaxRunning > 0 && int64(q.counts[InProgress]) > s.MaxRunning`,
	},
	{
		"a pause is not seen", "limits", "queue.go",
		`if s.Paused || s.MaxRunning > 0`,
		`if s.MaxRunning > 0`,
	},
	{
		"permits begin to come at the claim", "rate", "rate.go",
		`s.Level, s.LevelAt = level-permit, m.meta.Now`,
		`s.Level, s.LevelAt = s.Level-permit, m.meta.Now`,
	},
	{
		"the type waits for its permit a ms too long", "rate", "rate.go",
		`return later(s.LevelAt, (missing-1)/s.RateMilli+1)`,
		`return later(s.LevelAt, (missing-1)/s.RateMilli+2)`,
	},
	{
		"the type's lease before the job's", "claim", "claim.go",
		`firstPositive(op.LeaseMs, j.Exec.LeaseMs, lease,`,
		`firstPositive(op.LeaseMs, lease, j.Exec.LeaseMs,`,
	},
	{
		"progress of the last attempt stays", "progress", "claim.go",
		`d.TimeoutMs, d.Progress, d.ProgressAt, d.Owner = timeout, Progress{}, 0, op.Owner`,
		`d.TimeoutMs, d.Owner = timeout, op.Owner`,
	},

	{
		"a second permit wakes no worker", "wake-ups", "rate.go",
		"\tm.arrive(q, int(level/permit-s.Level/permit)) // new permits, for which no timer was set\n",
		"",
	},
	{
		"a permit that came with another timer wakes no worker", "wake-ups", "queue.go",
		`if q.permitAt != 0 { // the permit came`,
		`if q.permitAt < 0 { // the permit came`,
	},
	{
		"a job that is over wakes nobody for its place", "wake-ups", "queue.go",
		`if s := q.settings; n < 0 && s != nil && s.limitsRunning() {`,
		`if s := q.settings; n < -1 && s != nil && s.limitsRunning() {`,
	},

	// 5. Ends of an attempt.
	{
		"a cancelled job is tried again", "cancel", "report.go",
		"switch {\n\tcase old.Details().CancelAt != 0:\n\t\tm.endCancelled(old, j)\n",
		"switch {\n",
	},
	{
		"a released job forgets its cancellation", "cancel", "report.go",
		"if old.Details().CancelAt != 0 {\n\t\tj.Exec.LastError = \"\"\n",
		"if old.Details().CancelAt != 0 && old.Attempts > 1 {\n\t\tj.Exec.LastError = \"\"\n",
	},
	{
		"history keeps the first attempts", "history", "report.go",
		`past := d.History[max(0, len(d.History)-historyMax+1):]`,
		`past := d.History[:min(len(d.History), 2)]`,
	},
	{
		"history cut inside a character", "history", "report.go",
		`for n > 0 && !utf8.RuneStart(s[n]) {`,
		`for n > 0 && !utf8.RuneStart(s[n]) && n < 0 {`,
	},
	{
		"a delay of 0 is none", "backoff", "report.go",
		`case delayMs != nil:`,
		`case delayMs != nil && *delayMs != 0:`,
	},
	{
		"exponential one step ahead", "backoff", "backoff.go",
		`1<<min(max(n, 1)-1, 63)`,
		`1<<min(max(n, 1), 63)`,
	},
	{
		"linear has no cap", "backoff", "backoff.go",
		"if b.CapMs > 0 {\n",
		"if b.CapMs > 0 && b.Kind != BackoffLinear {\n",
	},
	{
		"one die for all", "backoff", "backoff.go",
		`mix(m.random, j.Execution().Token))`,
		`mix(m.random, 0))`,
	},
	{
		"the type's backoff is forgotten", "backoff", "backoff.go",
		`b = s.Backoff`,
		`b.Kind = BackoffNone`,
	},
	{
		"timed out is lease expired", "timeout", "report.go",
		`return j, TimedOut`,
		`return j, LeaseExpired`,
	},
	{
		"the type's timeout wins", "timeout", "claim.go",
		`timeout = firstPositive(old.Options().TimeoutMs, timeout)`,
		`timeout = firstPositive(timeout, old.Options().TimeoutMs)`,
	},

	{
		"a forced completion leaves a blocked job waiting", "forced", "report.go",
		"case Blocked:\n\t\tj.changeDetails(func(d *Details) { d.Waits = nil })\n\t}\n\tm.meta.CompletedTotal++",
		"}\n\tm.meta.CompletedTotal++",
	},
	{
		"a forced completion rewrites how a lost attempt ended", "forced", "report.go",
		"case InProgress:\n\t\tj.AttemptEnd = EndOK\n",
		"default:\n\t\tj.AttemptEnd = EndOK\n",
	},
	{
		"a second result is not counted in bytes", "forced", "index.go",
		"m.unindex(old)\n\tm.ids[j.ID] = j\n\tm.index(j)\n\tm.events",
		"m.ids[j.ID] = j\n\tm.replace(old, j)\n\tm.events",
	},
	{
		"completed again counts again", "forced", "report.go",
		"case Completed:\n\t\tm.putEndedAgain",
		"case Completed:\n\t\tm.meta.CompletedTotal++\n\t\tm.putEndedAgain",
	},
	{
		"waiters of a dead job are not settled by its completion", "forced", "index.go",
		`if from == 0 || from.ended() || j.Status.ended() {`,
		`if from == 0 || from.ended() != j.Status.ended() {`,
	},
	{
		"a batch with a force-completed job is not called back", "forced", "batch.go",
		`if from.ended() && j.Status.ended() {`,
		`if from.ended() && j.Status.ended() && false {`,
	},

	{
		"logs are not counted", "log", "index.go",
		`int64(len(d.Extra)+len(d.Log))`,
		`int64(len(d.Extra))`,
	},
	{
		"a completion loses its log", "log", "report.go",
		`if op.Log != j.Details().Log {`,
		`if op.Log == "" {`,
	},
	{
		"a log with nothing else is dropped", "log", "after.go",
		` && d.Extra == "" && d.Log == ""`,
		` && d.Extra == ""`,
	},
	{
		"snapshots lose logs", "log", "pbrecords.go",
		`TimeoutMs: p.TimeoutMs, Extra: p.Extra, Log: p.Log,`,
		`TimeoutMs: p.TimeoutMs, Extra: p.Extra,`,
	},

	// 6. Change.
	{
		"cancelled twice is ok twice", "cancel", "change.go",
		"if old.Details().CancelAt != 0 {\n\t\treturn old, Duplicate\n",
		"if old.Details().CancelAt < 0 {\n\t\treturn old, Duplicate\n",
	},
	{
		"a retry leaves the request to cancel", "retry", "change.go",
		`d.CancelAt, d.Progress, d.ProgressAt, d.Waits = 0, Progress{}, 0, nil`,
		`d.Progress, d.ProgressAt, d.Waits = Progress{}, 0, nil`,
	},
	{
		"a retry does not look at the key", "unique", "change.go",
		`h != nil && h.Seq != old.Seq`,
		`h != nil && h.Seq < old.Seq`,
	},
	{
		"deleting leaves the period", "delete", "change.go",
		"m.endReservation(j)\n",
		"",
	},
	{
		"created from is exclusive", "filter", "change.go",
		`f.CreatedFromMs != 0 && j.CreatedAt < f.CreatedFromMs`,
		`f.CreatedFromMs != 0 && j.CreatedAt <= f.CreatedFromMs`,
	},
	{
		"the last of a page is visited twice", "filter", "change.go",
		`m.nextIn(f, s, seq+1)`,
		`m.nextIn(f, s, max(seq, 1))`,
	},
	{
		"the type is not looked at with a tag", "filter", "change.go",
		`case f.Type != nil && j.Type != *f.Type,`,
		`case f.Type != nil && f.label == nil && j.Type != *f.Type,`,
	},

	// 7. Uniqueness.
	{
		"waiting holds while it runs", "unique", "unique.go",
		`return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed`,
		`return j.Status == Blocked || j.Status == Scheduled || j.Status == Unclaimed || j.Status == InProgress`,
	},
	{
		"a period ends one ms late", "unique", "unique.go",
		`if !ok || h.Until > m.meta.Now {`,
		`if !ok || h.Until >= m.meta.Now {`,
	},

	// 8. Dependencies.
	{
		"a dead job lets its waiters go", "after", "after.go",
		`if other != nil && other.Status == Completed || old.Options().AfterFailure == AfterRun {`,
		`if other != nil || old.Options().AfterFailure == AfterRun {`,
	},
	{
		"a deleted job blocks its waiters", "after", "after.go",
		"case j == nil, j.Status == Completed:\n\t\treturn w.all > 0",
		"case j == nil:\n\t\treturn w.moved > 0\n\tcase j.Status == Completed:\n\t\treturn w.all > 0",
	},
	{
		"unblocked before its time", "after", "after.go",
		`if j.RunAt > m.meta.Now {`,
		`if j.RunAt > m.meta.Now && j.Status != Blocked {`,
	},
	{
		"a cycle blames the last", "after", "enqueue.go",
		`case i == first:`,
		`case first >= 0 && i == len(p.jobs)-1:`,
	},
	{
		"a job waits for one that completed before the enqueue", "after", "enqueue.go",
		`other == nil || other.Status != Completed {`,
		`other == nil || other.Status != Unclaimed {`,
	},

	// 9. Batches.
	{
		"the callback comes twice", "batch", "batch.go",
		`if old.Callback == nil || old.Called || `,
		`if old.Callback == nil || `,
	},
	{
		"completed only, but called for any end", "batch", "batch.go",
		`old.CallbackOn == CallbackCompleted && old.Completed != old.Total`,
		`old.CallbackOn == CallbackCompleted && old.Completed == 0`,
	},
	{
		"a retry does not open the batch", "batch", "batch.go",
		"if b.Pending() > 0 {\n\t\tb.EndedAt = 0",
		"if b.Pending() > 0 {\n\t\tb.EndedAt += 0",
	},
	{
		"deleted jobs are not counted", "batch", "batch.go",
		"b.count(Cancelled, +1)\n\tm.putBatch(old, &b)",
		"m.putBatch(old, &b)",
	},
	{
		"a job counts in a later batch of the name", "batch", "batch.go",
		`if !ok || b.CreatedAt > j.CreatedAt {`,
		`if !ok {`,
	},

	// 10. Types.
	{
		"removed settings stay in force", "types", "settings.go",
		`m.useSettings(m.queue(op.Name), nil)`,
		`m.useSettings(m.queue(op.Name), old)`,
	},
	{
		"no default to go back to", "types", "settings.go",
		`assign(&s.MaxAttempts, op.MaxAttempts, Unset)`,
		`assign(&s.MaxAttempts, op.MaxAttempts, 0)`,
	},
	{
		"a new burst does not fill the rate", "rate", "settings.go",
		`if old == nil || s.RateMilli != rate || s.Burst != burst {`,
		`if old == nil || s.RateMilli != rate || s.Burst > burst {`,
	},
	{
		"small counts of a type are passed over", "retention", "retain.go",
		`if s := q.settings; s != nil && s.RetainCount != Unset {`,
		`if s := q.settings; s != nil && s.RetainCount > 2 {`,
	},
	{
		"new settings keep old jobs", "retention", "machine.go",
		"m.reviewRetention()\n",
		"",
	},
	{
		"types retire in any order", "retention", "retain.go",
		`return strings.Compare(a.name, b.name) })`,
		`return strings.Compare(b.name, a.name) })`,
	},

	// 11. Cron.
	{
		"fires again for the same time", "cron", "cron.go",
		`old.NextAt == 0 || old.NextAt != op.DueMs ||`,
		`old.NextAt == 0 || old.NextAt < op.DueMs ||`,
	},
	{
		"a late fire is made", "cron", "cron.go",
		`c.Missed == MissedSkip && late > lateMs {`,
		`c.Missed == MissedSkip && late > lateMs+1 {`,
	},
	{
		"overlaps", "cron", "cron.go",
		`c.Overlap == OverlapSkip && m.unended(c.LastJobID)`,
		`c.Overlap == OverlapSkip && m.unended(op.JobId)`,
	},
	{
		"an edited schedule forgets its counters", "cron", "cron.go",
		"*c = *old\n",
		"c.CreatedAt = old.CreatedAt\n",
	},
	{
		"a paused schedule wakes the leader", "cron", "cron.go",
		"if paused {\n\t\tc.NextAt = 0\n\t}\n",
		"",
	},

	// 12. Quotas.
	{
		"results are not counted", "quota", "index.go",
		`return int64(len(j.Payload)+len(j.Execution().Result)) + int64(len(d.Extra)+len(d.Log))`,
		`return int64(len(j.Payload)) + int64(len(d.Extra)+len(d.Log))`,
	},
	{
		"ended jobs count", "quota", "machine.go",
		`return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress]`,
		`return c[Blocked] + c[Scheduled] + c[Unclaimed] + c[InProgress] + c[Dead]`,
	},
	{
		"jobs of one mutation do not add up", "quota", "enqueue.go",
		"p.added.jobs++\n",
		"",
	},

	// 13. Requests.
	{
		"another request under the key", "requests", "request.go",
		`if r.Fingerprint != string(req.Fingerprint) {`,
		`if len(r.Fingerprint) != len(req.Fingerprint) {`,
	},
	{
		"refusals are remembered", "requests", "request.go",
		`if res.tookEffect() && !claimedNothing(mut, &res) {`,
		`if !claimedNothing(mut, &res) {`,
	},
	{
		"requests are never forgotten", "requests", "request.go",
		`if !ok || later(r.At, m.meta.Settings.RequestMs) >= m.meta.Now {`,
		`if !ok || later(r.At, m.meta.Settings.RequestMs, 1) >= m.meta.Now {`,
	},
	{
		"a repeated claim answers lost jobs", "requests", "request.go",
		`j != nil && j.Status == InProgress && j.Execution().Token == i.Token`,
		`j != nil && j.Status == InProgress`,
	},
	{
		"a group stops at a refusal", "group", "request.go",
		"res.Codes[i] = r.Code\n",
		"res.Codes[i] = r.Code\n\t\tif !r.Code.Done() {\n\t\t\tbreak\n\t\t}\n",
	},

	{
		"requests of many jobs count once", "requests", "request.go",
		`return 1 + int64(len(r.Items)/requestItems)`,
		`return 1`,
	},
	{
		"removed jobs are added again with other content", "requests", "enqueue.go",
		`return p.repeats(old.Fingerprint == contentOfNew(n))`,
		`return p.repeats(true)`,
	},
	{
		"a removed job takes any report", "requests", "removed.go",
		`j.Execution().Token == l.Token && j.AttemptEnd == end`,
		`j.Execution().Token == l.Token`,
	},
	{
		"removed jobs are known for a request's time", "requests", "removed.go",
		`repeatMs-max(m.meta.Settings.RequestMs, 0)))`,
		`0))`,
	},

	// 14. Announcements.
	{
		"announcements of any length", "announce", "announce.go",
		`cut(op.Text, announceMax)`,
		`cut(op.Text, 1<<20)`,
	},
	{
		"the bucket is back when writes are refused", "announce", "announce.go",
		"AnnounceWritesRefused:  WritesRefused,",
		"AnnounceWritesRefused:  BucketBack,",
	},
	{
		"an announcement without a node", "announce", "announce.go",
		`Name: m.meta.Broker.Node, Text:`,
		`Text:`,
	},

	// 15. Unknown fields.
	{
		"unknown fields are not counted", "extra", "index.go",
		`int64(len(d.Extra)+len(d.Log))`,
		`int64(len(d.Log))`,
	},
	{
		"a change of unknown fields is not counted", "extra", "index.go",
		"m.addBytes(q, j.size()-old.size())\n",
		"",
	},
	{
		"claims get the job as it was", "extra", "index.go",
		"g.ready.Set(j)\n\t\tm.refresh(q, g)\n",
		"m.refresh(q, g)\n",
	},
	{
		"retention knows the job as it was", "extra", "index.go",
		"if _, there := q.retained.Get(j); there {",
		"if _, there := q.retained.Get(j); there && false {",
	},
	{
		"job with nothing else loses them", "extra", "after.go",
		` && d.TimeoutMs == 0 && d.Extra == ""`,
		` && d.TimeoutMs == 0`,
	},
	{
		"snapshots lose those of the document", "extra", "pb.go",
		"Extra:          p.Extra,",
		"",
	},
	{
		"an enqueue brings none", "extra", "enqueue.go",
		"Extra: strings.Clone(n.Extra)}",
		"}",
	},
	{
		"they count as payload", "extra", "enqueue.go",
		`case limits[0].tooLarge(len(n.Payload)) || limits[1].tooLarge(len(n.Payload)):`,
		`case limits[0].tooLarge(int(size)) || limits[1].tooLarge(int(size)):`,
	},

	// Snapshots and listings.
	{
		"a restored machine gives new turns", "snapshot", "queue.go",
		`if m.building {`,
		`if m.building && q.waiting.Len() > 2 {`,
	},
	{
		"snapshots lose the level of a rate", "snapshot", "pbrecords.go",
		`Level: p.Level, LevelAt: p.LevelAtMs,`,
		`Level: p.Level, LevelAt: p.Level,`,
	},
	{
		"snapshots lose the request to cancel", "snapshot", "pbrecords.go",
		`ProgressAt: p.ProgressAtMs, Waits: p.Waits, CancelAt: p.CancelAtMs, TimeoutMs: p.TimeoutMs, Extra: p.Extra,`,
		`ProgressAt: p.ProgressAtMs, Waits: p.Waits, TimeoutMs: p.TimeoutMs, Extra: p.Extra,`,
	},
	{
		"jobs listed under a tag are old", "views", "index.go",
		`j.labels(func(l label) { m.tagged.Set(tagged{l, j}) })
	switch j.Status {
	case InProgress:
		m.running.Set(j)`,
		`switch j.Status {
	case InProgress:
		m.running.Set(j)`,
	},
}
