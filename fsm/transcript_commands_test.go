package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// mutations returns the mutations of one entry.
func (p *player) mutations(t *testing.T, d *datadriven.TestData) (muts []*fsmpb.Mutation) {
	switch d.Cmd {
	case "tick":
		return nil
	case "entry":
		for _, c := range input(t, d) {
			muts = append(muts, p.mutation(t, c))
		}
		return muts
	case "group":
		op := &fsmpb.Group{}
		for _, c := range input(t, d) {
			op.Mutations = append(op.Mutations, p.mutation(t, c))
		}
		m := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: op}}
		return []*fsmpb.Mutation{parsed(d.Cmd, d.CmdArgs).withKey(m)}
	}
	m := p.mutation(t, parsed(d.Cmd, d.CmdArgs))
	if op := m.GetEnqueue(); op != nil {
		for _, c := range input(t, d) {
			op.Jobs = append(op.Jobs, newJob(t, c, c.name, op.NewBatch.GetId()))
		}
	}
	return []*fsmpb.Mutation{m}
}

// mutation returns the mutation that one line names.
func (p *player) mutation(t *testing.T, c command) *fsmpb.Mutation {
	for _, kind := range []func(*testing.T, command) *fsmpb.Mutation{p.report, admin, change} {
		if m := kind(t, c); m != nil {
			return c.withKey(m)
		}
	}
	t.Fatalf("command %q is not known", c.name)
	return nil
}

// withKey gives the mutation its request key.
func (c command) withKey(m *fsmpb.Mutation) *fsmpb.Mutation {
	if key := c.text("key"); key != "" {
		m.Request = &fsmpb.Request{Key: key, Fingerprint: []byte(c.text("print"))}
	}
	return m
}

func (c command) worker() string {
	if w := c.text("worker"); w != "nobody" {
		return w
	}
	return fsm.Anonymous
}

// report makes what producers and workers send.
func (p *player) report(t *testing.T, c command) *fsmpb.Mutation {
	switch c.name {
	case "enqueue":
		return enqueueCommand(t, c)
	case "claim":
		m := claim(c.worker(), uint32(c.number(t, "max", 1)), c.named["types"]...)
		m.GetClaim().RequestId, m.GetClaim().LeaseMs = c.text("request"), c.number(t, "lease", 0)
		return m
	case "heartbeat":
		return p.heartbeatCommand(t, c)
	case "complete":
		m := complete(c.worker(), c.id(0), p.token(t, c, c.id(0)))
		m.GetComplete().Result, m.GetComplete().Log = []byte(c.text("result")), c.text("log")
		return m
	case "fail":
		m := fail(c.worker(), c.id(0), p.token(t, c, c.id(0)), c.text("error"), slices.Contains(c.ids, "permanent"))
		m.GetFail().RetryDelayMs = c.optional(t, "delay")
		return m
	case "force":
		return forceComplete(c.id(0), c.text("result"))
	case "release":
		return release(c.worker(), c.id(0), p.token(t, c, c.id(0)))
	}
	return nil
}

func (p *player) heartbeatCommand(t *testing.T, c command) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{Worker: c.worker()}
	for _, id := range c.ids {
		l := &fsmpb.Lease{JobId: id, Token: p.token(t, c, id)}
		if percent := c.optional(t, "percent"); percent != nil {
			l.Progress = &fsmpb.Progress{Percent: uint32(*percent), Message: c.text("message")}
		}
		op.Leases = append(op.Leases, l)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
}

func (p *player) token(t *testing.T, c command, id string) uint64 {
	switch text := c.text("token"); {
	case text == "none":
		return 0
	case text != "":
		epoch, counter, _ := strings.Cut(text, ".")
		return uint64(number(t, epoch)<<32 + number(t, counter))
	case p.m.Job(id) == nil:
		return 1
	}
	return p.m.Job(id).Execution().Token
}

func enqueueCommand(t *testing.T, c command) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	batch := c.optionalText("newbatch")
	if batch != nil {
		op.NewBatch = &fsmpb.NewBatch{Id: *batch}
		if callback := c.optionalText("callback"); callback != nil {
			op.NewBatch.Callback = &fsmpb.NewJob{Id: *callback, Type: c.text("calltype")}
		}
		if key := c.text("callkey"); key != "" {
			op.NewBatch.Callback.Unique = &fsmpb.Unique{Key: key, Scope: uint32(fsm.UniqueActive)}
		}
		op.NewBatch.CallbackOn = named(t, c.text("on"), fsm.CallbackEnded, fsm.CallbackCompleted)
	}
	for _, id := range c.ids {
		op.Jobs = append(op.Jobs, newJob(t, c, id, op.NewBatch.GetId()))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// newJob is a job as a line describes it.
func newJob(t *testing.T, c command, id, batch string) *fsmpb.NewJob {
	n := &fsmpb.NewJob{
		Id: id, Type: c.text("type"), Payload: []byte(c.text("payload")), Priority: int32(c.number(t, "priority", 0)),
		RunAtMs: c.number(t, "at", 0), LeaseMs: c.number(t, "lease", 0), TimeoutMs: c.number(t, "timeout", 0),
		Backoff: backoffArg(t, c), Group: c.text("group"), Tags: c.named["tags"], After: c.named["after"], Batch: batch,
		AfterFailure: named(t, c.text("failure"), fsm.AfterBlock, fsm.AfterCancel, fsm.AfterRun),
	}
	if c.optionalText("batch") != nil {
		n.Batch = c.text("batch")
	}
	if attempts := c.optional(t, "attempts"); attempts != nil {
		narrow := int32(*attempts)
		n.MaxAttempts = &narrow
	}
	if u := c.named["unique"]; len(u) > 0 {
		scope, _ := fsm.ParseUniqueScope(value(u, 1))
		n.Unique = &fsmpb.Unique{Key: u[0], Scope: uint32(scope), PeriodMs: number(t, value(u, 2))}
	}
	return n
}

// value is element i of a list, "0" if it has not so many.
func value(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "0"
}

func backoffArg(t *testing.T, c command) *fsmpb.Backoff {
	v := c.named["backoff"]
	if len(v) == 0 {
		return nil
	}
	kind, _ := backoff.ParseKind(v[0])
	return &fsmpb.Backoff{
		Kind: uint32(kind), BaseMs: number(t, value(v, 1)), CapMs: number(t, value(v, 2)),
		JitterPercent: uint32(number(t, value(v, 3))),
	}
}

// named is the choice of that name; "" is the first.
func named[T interface {
	~uint8
	String() string
}](t *testing.T, name string, choices ...T) uint32 {
	if name == "" {
		return uint32(choices[0])
	}
	i := slices.IndexFunc(choices, func(c T) bool { return c.String() == name })
	if i < 0 {
		t.Fatalf("%q is not known", name)
	}
	return uint32(choices[i])
}

// admin makes what the leader and operators send.
func admin(t *testing.T, c command) *fsmpb.Mutation {
	switch c.name {
	case "register":
		return registerWorker(c.worker())
	case "dead":
		return workerDead(c.worker())
	case "broker":
		return brokerCommand(t, c)
	case "announce":
		kinds := map[string]fsm.AnnounceKind{
			"away": fsm.AnnounceBucketAway, "back": fsm.AnnounceBucketBack,
			"refused": fsm.AnnounceWritesRefused, "accepted": fsm.AnnounceWritesAccepted,
			"damaged": fsm.AnnounceBucketDamaged, "healed": fsm.AnnounceBucketHealed,
		}
		return announce(kinds[c.id(0)], strings.Repeat(c.text("text"), int(c.number(t, "times", 1))))
	case "setqueue":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: setQueueCommand(t, c)}}
	case "cron":
		return cronCommand(t, c)
	}
	return nil
}

func brokerCommand(t *testing.T, c command) *fsmpb.Mutation {
	s := fsm.DefaultSettings()
	s.MaxAttempts = int32(c.number(t, "attempts", int64(s.MaxAttempts)))
	for key, member := range map[string]*int64{
		"lease": &s.LeaseMs, "timeout": &s.WorkerTimeoutMs, "retain": &s.RetainCompletedMs, "keep": &s.RetainCompletedCount,
		"requestms": &s.RequestMs, "requests": &s.RequestCount,
		"jobs": &s.MaxJobs, "bytes": &s.MaxBytes, "payload": &s.MaxPayload,
	} {
		*member = c.number(t, key, *member)
	}
	return registerBroker(c.text("node"), uint64(c.number(t, "epoch", 0)), s)
}

func setQueueCommand(t *testing.T, c command) *fsmpb.SetQueue {
	return &fsmpb.SetQueue{
		Name: c.id(0), Remove: slices.Contains(c.ids, "remove"), Paused: switchOf(c, "paused"),
		MaxRunning: c.optional(t, "running"), MaxRunningPerGroup: c.optional(t, "pergroup"),
		RateMilli: c.optional(t, "rate"), Burst: c.optional(t, "burst"),
		LeaseMs: c.optional(t, "lease"), TimeoutMs: c.optional(t, "timeout"), MaxAttempts: c.optional(t, "attempts"),
		Backoff: backoffArg(t, c), RetainMs: c.optional(t, "retain"), RetainCount: c.optional(t, "keep"),
		MaxJobs: c.optional(t, "jobs"), MaxBytes: c.optional(t, "bytes"), MaxPayload: c.optional(t, "payload"),
	}
}

// switchOf is on for "key", off for "key=no", and nil without either.
func switchOf(c command, key string) *bool {
	on := slices.Contains(c.ids, key)
	if !on && len(c.named[key]) == 0 {
		return nil
	}
	return &on
}

func cronCommand(t *testing.T, c command) *fsmpb.Mutation {
	name, next := c.id(1), c.number(t, "next", 0)
	switch c.id(0) {
	case "put":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: name, NextMs: next, Spec: c.text("spec"), TimeZone: c.text("zone"),
			Paused: slices.Contains(c.ids, "paused"), Job: newJob(t, c, c.text("id"), ""),
			Overlap: named(t, c.text("overlap"), fsm.OverlapAllow, fsm.OverlapSkip),
			Missed:  named(t, c.text("missed"), fsm.MissedSkip, fsm.MissedOne),
		}}}
	case "pause", "resume":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: &fsmpb.PauseCron{
			Name: name, NextMs: next, Paused: c.id(0) == "pause",
			Spec: c.optionalText("spec"), TimeZone: c.optionalText("zone"),
		}}}
	case "delete":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
	case "fire":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: name, DueMs: c.number(t, "due", 0), AtMs: c.number(t, "at", 0), NextMs: next,
			Missed: uint64(c.number(t, "missed", 0)), JobId: c.text("job"),
			Spec: c.optionalText("spec"), TimeZone: c.optionalText("zone"),
		}}}
	case "trigger":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: name, JobId: c.text("job")}}}
	}
	return nil
}

// change makes a cancel, retry or delete, by ids or, with "all", by filter.
func change(t *testing.T, c command) *fsmpb.Mutation {
	kinds := map[string]fsm.ChangeKind{"cancel": fsm.CancelJobs, "retry": fsm.RetryJobs, "delete": fsm.DeleteJobs}
	kind, ok := kinds[c.name]
	if !ok {
		return nil
	}
	op := &fsmpb.Change{Kind: uint32(kind), Ids: c.ids}
	if c.id(0) == "all" {
		op.Ids, op.Filter, op.Limit = nil, filterOf(t, c), uint32(c.number(t, "limit", 0))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

func filterOf(t *testing.T, c command) *fsmpb.Filter {
	f := &fsmpb.Filter{
		Type: c.optionalText("type"), Tag: c.text("tag"), Group: c.optionalText("group"), Batch: c.text("batch"),
		Worker: c.optionalText("worker"), CreatedFromMs: c.number(t, "from", 0), CreatedBeforeMs: c.number(t, "before", 0),
	}
	for _, name := range c.named["status"] {
		f.Statuses = append(f.Statuses, statusOf(t, name))
	}
	if place := c.named["behind"]; len(place) == 2 {
		f.AfterStatus, f.AfterSeq = statusOf(t, place[0]), uint64(number(t, place[1]))
	}
	return f
}

func statusOf(t *testing.T, name string) uint32 {
	s, ok := fsm.ParseStatus(name)
	if !ok {
		t.Fatalf("status %q is not known", name)
	}
	return uint32(s)
}
