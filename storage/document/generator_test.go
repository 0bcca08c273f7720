package document_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// randomMachine drives a machine into a random reachable state.
func randomMachine(t *rapid.T) *fsm.Machine {
	g := generator{T: t, m: fsm.New(), now: rapid.Int64Range(0, 1<<42).Draw(t, "start")}
	g.live(40)
	return g.m
}

// live applies up to n entries.
func (g *generator) live(n int) {
	for range rapid.IntRange(0, n).Draw(g.T, "entries") {
		var muts []*fsmpb.Mutation
		for range rapid.IntRange(0, 4).Draw(g.T, "mutations") {
			muts = append(muts, g.mutation())
		}
		g.now += rapid.SampledFrom([]int64{0, 1, 7, 1000, 31_000, 100_000}).Draw(g.T, "pass")
		apply(g.T, g.m, rapid.SampledFrom([]uint64{1, 2, 1 << 60}).Draw(g.T, "term"), g.now, muts...)
	}
}

type generator struct {
	*rapid.T
	m   *fsm.Machine
	now int64
	ids int
}

var (
	textGen   = rapid.OneOf(rapid.SampledFrom([]string{"", "a", "w1", "w2", "é\u2028\"\\\x1f", fsm.Anonymous, "\xff\xfe", "<&>"}), rapid.String())
	workerGen = rapid.SampledFrom([]string{"", "w1", "w2", fsm.Anonymous, "\xc3("})
	jsonGen   = rapid.SampledFrom([]string{
		`null`, `{"a": [1,2.50, 1e400], "a":"\ud800"}`, `"x"`, `[]`, `-0`, ` 1`, "1\n", ``, `{`, `1 2`, "\"\xff\"",
		"[\n]", `[`, `]`, `,`, `9007199254740993`, "\"\u2028\"",
	})
	durationGen = rapid.SampledFrom([]int64{0, 1, 50, 60_000, 1 << 62, -5})
)

func (g *generator) payload(label string) []byte {
	if rapid.Bool().Draw(g.T, label+" absent") {
		return nil
	}
	return []byte(jsonGen.Draw(g.T, label))
}

func (g *generator) freshID() string {
	g.ids++
	return fmt.Sprintf("%d%s", g.ids, rapid.SampledFrom([]string{"", "é", "\xff"}).Draw(g.T, "id"))
}

func (g *generator) newJob() *fsmpb.NewJob {
	j := &fsmpb.NewJob{
		Id:       g.freshID(),
		Type:     textGen.Draw(g.T, "type"),
		Payload:  g.payload("payload"),
		Priority: rapid.Int32().Draw(g.T, "priority"),
		LeaseMs:  durationGen.Draw(g.T, "leaseMs"),
	}
	if rapid.Bool().Draw(g.T, "limited") {
		n := rapid.SampledFrom([]int32{0, 1, 2, -7, 1 << 30}).Draw(g.T, "maxAttempts")
		j.MaxAttempts = &n
	}
	if d := durationGen.Draw(g.T, "runAt"); d > 0 {
		j.RunAtMs = g.now + d
	}
	if rapid.Bool().Draw(g.T, "with options") {
		g.options(j)
	}
	return j
}

var (
	groupGen = rapid.SampledFrom([]string{"", "g1", "g2", "g\xff"})
	batchGen = rapid.SampledFrom([]string{"b1", "b2", "b\xff"})
	cronGen  = rapid.SampledFrom([]string{"", "c1", "c\xff"})
)

// options sets one or two rare options.
func (g *generator) options(j *fsmpb.NewJob) {
	for range 2 {
		switch rapid.IntRange(0, 10).Draw(g.T, "option") {
		case 10:
			j.Quota = &fsmpb.Quota{Account: "k\u00e9\"", MaxJobs: 1 << 40, MaxBytes: 1 << 60}
		case 9:
			j.Headers = []*fsmpb.Header{{Name: "a", Value: "é\"\n"}, {Name: "traceparent"}}
		case 0:
			j.Backoff = g.backoff()
		case 1:
			j.TimeoutMs = durationGen.Draw(g.T, "timeoutMs")
		case 2, 3:
			j.Type, j.Group = "t", groupGen.Draw(g.T, "group")
		case 4:
			j.Tags = rapid.SliceOfN(textGen, 0, 3).Draw(g.T, "tags")
		case 5:
			j.Unique = &fsmpb.Unique{
				Key: textGen.Draw(g.T, "key"), Scope: rapid.Uint32Range(0, 3).Draw(g.T, "scope"),
				PeriodMs: durationGen.Draw(g.T, "period"),
			}
		case 6, 7:
			j.After, j.AfterFailure = g.someJobs(), rapid.Uint32Range(0, 2).Draw(g.T, "afterFailure")
		case 8:
			if b := batchGen.Draw(g.T, "batch"); g.open(b) {
				j.Batch = b
			}
		}
	}
}

func (g *generator) open(batch string) bool {
	b := g.m.View().Batch(batch)
	return b != nil && b.EndedAt == 0
}

func (g *generator) backoff() *fsmpb.Backoff {
	return &fsmpb.Backoff{
		Kind:   rapid.Uint32Range(0, 4).Draw(g.T, "backoff"),
		BaseMs: durationGen.Draw(g.T, "base"), CapMs: durationGen.Draw(g.T, "cap"),
		JitterPercent: rapid.Uint32Range(0, 100).Draw(g.T, "jitter"),
	}
}

// someJobs returns ids of existing jobs.
func (g *generator) someJobs() (ids []string) {
	for s := fsm.Scheduled; s <= fsm.Blocked; s++ {
		g.m.View().Jobs(s, 0, func(j *fsm.Job) bool { ids = append(ids, j.ID); return len(ids) < 20 })
	}
	if len(ids) == 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.SampledFrom(ids), 1, 3).Draw(g.T, "jobs")
}

func (g *generator) callback() *fsmpb.NewJob {
	if rapid.IntRange(0, 5).Draw(g.T, "no callback") == 0 {
		return nil
	}
	return g.newJob()
}

func (g *generator) lease() *fsmpb.Lease {
	var running []*fsm.Job
	g.m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool { running = append(running, j); return true })
	if len(running) == 0 {
		return &fsmpb.Lease{JobId: "none"}
	}
	j := rapid.SampledFrom(running).Draw(g.T, "job")
	return &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}
}

// mutation generates a mutation, which may have one of a few request keys.
func (g *generator) mutation() *fsmpb.Mutation {
	mut := g.op()
	if rapid.IntRange(0, 2).Draw(g.T, "request key") == 0 {
		mut.Request = &fsmpb.Request{
			Key: textGen.Draw(g.T, "key"), Fingerprint: []byte(rapid.SampledFrom([]string{"", "\x00\xff", "f"}).Draw(g.T, "fingerprint")),
		}
	}
	return mut
}

func (g *generator) op() *fsmpb.Mutation {
	switch rapid.IntRange(0, 8).Draw(g.T, "area") {
	case 0, 1, 2, 3:
		return g.lifeOp()
	case 4:
		return g.rareOp()
	case 5:
		return g.cronOp()
	case 6:
		return g.batchOp()
	case 7:
		return change(rapid.SampledFrom([]fsm.ChangeKind{fsm.CancelJobs, fsm.RetryJobs, fsm.DeleteJobs}).Draw(g.T, "change"), g.someJobs()...)
	default:
		return g.changeOp()
	}
}

// lifeOp generates one of the operations that make up most of a log.
func (g *generator) lifeOp() *fsmpb.Mutation {
	w := workerGen.Draw(g.T, "worker")
	switch rapid.IntRange(0, 7).Draw(g.T, "kind") {
	case 0, 1:
		a, b := g.newJob(), g.newJob()
		if rapid.IntRange(0, 3).Draw(g.T, "extra") == 0 {
			a.Extra = extraGen.Draw(g.T, "extra of a new job")
		}
		return enqueue(a, b)
	case 2, 3:
		mut := claim(w, textGen.Draw(g.T, "request"), rapid.Uint32Range(0, 3).Draw(g.T, "max"))
		mut.GetClaim().Owner = rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1}).Draw(g.T, "owner")
		return mut
	case 4:
		mut := complete(w, g.lease(), g.payload("result"))
		mut.GetComplete().Log = strings.ToValidUTF8(textGen.Draw(g.T, "log"), "?")
		return mut
	case 5:
		mut := fail(w, g.lease(), textGen.Draw(g.T, "error"), rapid.Bool().Draw(g.T, "permanent"), durationGen.Draw(g.T, "delay"))
		if rapid.Bool().Draw(g.T, "by backoff") {
			mut.GetFail().RetryDelayMs = nil
		}
		return mut
	case 6:
		l := g.lease()
		l.Progress = &fsmpb.Progress{Percent: rapid.Uint32Range(0, 100).Draw(g.T, "percent"), Message: textGen.Draw(g.T, "message")}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: w, Leases: []*fsmpb.Lease{l}}}}
	default:
		return release(w, g.lease())
	}
}

func (g *generator) rareOp() *fsmpb.Mutation {
	w := workerGen.Draw(g.T, "worker")
	switch rapid.IntRange(0, 6).Draw(g.T, "rare") {
	case 6:
		return g.token()
	case 5:
		return g.setExtra()
	case 0:
		return registerWorker(w, rapid.SliceOfN(textGen, 0, 3).Draw(g.T, "types")...)
	case 1:
		return g.takeover()
	default:
		return g.setQueue()
	}
}

// setExtra generates unknown fields of the document, or of a job.
func (g *generator) setExtra() *fsmpb.Mutation {
	id := ""
	if ids := g.someJobs(); len(ids) > 0 && rapid.Bool().Draw(g.T, "of a job") {
		id = ids[0]
	}
	return setExtra(id, extraGen.Draw(g.T, "extra"))
}

func (g *generator) takeover() *fsmpb.Mutation {
	op := registerBroker(textGen.Draw(g.T, "node"), textGen.Draw(g.T, "address"), rapid.Uint64().Draw(g.T, "epoch"))
	s := op.GetRegisterBroker().Settings
	s.MaxAttempts = rapid.Int32().Draw(g.T, "settings.maxAttempts")
	s.LeaseMs = durationGen.Draw(g.T, "settings.leaseMs")
	s.WorkerTimeoutMs = durationGen.Draw(g.T, "settings.workerTimeoutMs")
	s.RetainCompletedCount = durationGen.Draw(g.T, "settings.retainCompletedCount")
	s.RequestMs = durationGen.Draw(g.T, "settings.requestMs")
	s.RequestCount = durationGen.Draw(g.T, "settings.requestCount")
	s.MaxJobs = rapid.SampledFrom([]int64{0, 0, 30, 1 << 60}).Draw(g.T, "settings.maxJobs")
	s.MaxBytes = rapid.SampledFrom([]int64{0, 0, 1000, 1 << 60}).Draw(g.T, "settings.maxBytes")
	s.MaxPayload = rapid.SampledFrom([]int64{0, 0, 5}).Draw(g.T, "settings.maxPayload")
	return op
}

func (g *generator) setQueue() *fsmpb.Mutation {
	op := &fsmpb.SetQueue{Name: rapid.SampledFrom([]string{"", "t", "\xff"}).Draw(g.T, "type")}
	if rapid.IntRange(0, 5).Draw(g.T, "what") == 0 {
		op.Remove = true
	}
	for _, member := range []**int64{
		&op.MaxRunning, &op.MaxRunningPerGroup, &op.RateMilli, &op.Burst, &op.LeaseMs, &op.TimeoutMs, &op.MaxAttempts,
		&op.RetainMs, &op.RetainCount, &op.MaxJobs, &op.MaxBytes, &op.MaxPayload,
	} {
		if rapid.IntRange(0, 3).Draw(g.T, "set") == 0 {
			*member = new(durationGen.Draw(g.T, "to"))
		}
	}
	if rapid.IntRange(0, 3).Draw(g.T, "set paused") == 0 {
		op.Paused = new(rapid.Bool().Draw(g.T, "paused"))
		if *op.Paused && !op.Remove && rapid.Bool().Draw(g.T, "described") {
			op.Pause = &fsmpb.Pause{Reason: "a \"reason\"", By: "é", UntilMs: g.now + durationGen.Draw(g.T, "until")}
			if op.Pause.UntilMs < 0 {
				op.Pause.UntilMs = 0
			}
		}
	}
	if rapid.Bool().Draw(g.T, "set backoff") {
		op.Backoff = g.backoff()
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
}

func (g *generator) cronOp() *fsmpb.Mutation {
	name := cronGen.Draw(g.T, "cron")
	next := g.now + durationGen.Draw(g.T, "next")
	c := g.m.View().Cron(name)
	switch kind := rapid.IntRange(0, 6).Draw(g.T, "cron op"); {
	case c == nil || kind == 0:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: name, Spec: textGen.Draw(g.T, "spec"), TimeZone: textGen.Draw(g.T, "zone"), Job: g.newJob(), NextMs: next,
			Overlap: rapid.Uint32Range(0, 1).Draw(g.T, "overlap"), Missed: rapid.Uint32Range(0, 1).Draw(g.T, "missed"),
			Paused: rapid.IntRange(0, 4).Draw(g.T, "paused") == 0,
		}}}
	case kind == 1:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: &fsmpb.PauseCron{
			Name: name, Paused: rapid.Bool().Draw(g.T, "paused"), NextMs: next,
		}}}
	case kind == 2:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
	case kind == 3:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: name, JobId: g.freshID()}}}
	default:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: name, DueMs: c.NextAt, AtMs: g.now, Missed: rapid.Uint64Range(0, 2).Draw(g.T, "missed"), NextMs: next, JobId: g.freshID(),
		}}}
	}
}

func (g *generator) batchOp() *fsmpb.Mutation {
	id := batchGen.Draw(g.T, "batch")
	var jobs []*fsmpb.NewJob
	for range rapid.IntRange(0, 3).Draw(g.T, "jobs") {
		j := g.newJob()
		j.Batch = id
		jobs = append(jobs, j)
	}
	mut := enqueue(jobs...)
	if g.m.View().Batch(id) == nil {
		mut.GetEnqueue().NewBatch = &fsmpb.NewBatch{
			Id: id, Callback: g.callback(), CallbackOn: rapid.Uint32Range(0, 1).Draw(g.T, "callbackOn"),
		}
	}
	return mut
}

// changeOp generates a change by filter, or several reports as one.
func (g *generator) changeOp() *fsmpb.Mutation {
	if rapid.Bool().Draw(g.T, "group of reports") {
		op := &fsmpb.Group{Mutations: []*fsmpb.Mutation{g.lifeOp(), g.lifeOp()}}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: op}}
	}
	mut := change(rapid.SampledFrom([]fsm.ChangeKind{fsm.CancelJobs, fsm.RetryJobs}).Draw(g.T, "change"))
	mut.GetChange().Limit, mut.GetChange().Filter = 1, &fsmpb.Filter{}
	return mut
}

// token makes a token, or a mutation about hooks.
func (g *generator) token() *fsmpb.Mutation {
	if rapid.Bool().Draw(g.T, "of hooks") {
		return g.hook()
	}
	text := rapid.SampledFrom([]string{"", "a", "é\"", "mail.*"})
	t := &fsmpb.Token{
		Id: g.freshID()[:1], Hash: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(g.T, "hash"), Role: rapid.Uint32Range(1, 5).Draw(g.T, "role"),
		Name: text.Draw(g.T, "name"), Types: rapid.SliceOfN(text, 0, 2).Draw(g.T, "types"), Groups: rapid.SliceOfN(text, 0, 2).Draw(g.T, "groups"),
		Programs: rapid.Bool().Draw(g.T, "programs"), RateMilli: 7, Burst: 2, MaxPayload: 9, Family: text.Draw(g.T, "family"), Tenant: text.Draw(g.T, "tenant"), MadeBy: "admin",
	}
	t.MaxJobs, t.MaxBytes = 8, 1<<40
	if rapid.Bool().Draw(g.T, "expires") {
		t.ExpiresMs = g.now + 50_000
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: t}}}
}

// hook makes a mutation about one of two hooks.
func (g *generator) hook() *fsmpb.Mutation {
	name := rapid.SampledFrom([]string{"h", "é\""}).Draw(g.T, "hook")
	switch rapid.IntRange(0, 5).Draw(g.T, "of hooks") {
	case 0:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_TestHook{TestHook: &fsmpb.TestHook{Name: name}}}
	case 1:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetAlert{SetAlert: &fsmpb.SetAlert{
			Hook: name, Kind: uint32(fsm.HookQueueStuck), Subject: "a\n", Firing: rapid.Bool().Draw(g.T, "firing"), Text: "old",
		}}}
	case 2:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReportHook{ReportHook: &fsmpb.ReportHook{
			Name: name, Error: "500", Delivered: []*fsmpb.HookEventId{{Term: 1, Index: rapid.Uint64Range(1, 40).Draw(g.T, "index"), N: 1}},
		}}}
	}
	h := &fsmpb.Hook{
		Name: name, Url: "https://example.com/?a=\"", Kinds: uint64(fsm.AllHookKinds), Secret: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(g.T, "secret"),
		KeyId: "k", Types: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "*"}), 0, 2).Draw(g.T, "types"),
		Plain: rapid.Bool().Draw(g.T, "plain"), Paused: rapid.Bool().Draw(g.T, "paused"),
		OldestAgeMs: 1, FailurePercent: 2, DeadGrew: 3, LagMs: 4, BufferBytes: fsm.HookBufferMin, RetryForMs: 5, MadeBy: "admin",
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: h, OverlapMs: rapid.Int64Range(0, 9).Draw(g.T, "overlap")}}}
}
