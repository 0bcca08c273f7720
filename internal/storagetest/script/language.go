package script

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// Tokens returns the token of a job's last attempt, for reports that name none.
type Tokens func(id string) uint64

// Mutations returns the mutations of one entry: of a command, of the lines of "entry", or of the lines of "group"
// as one mutation. TestTranscripts in package fsm has the language.
func (p Tokens) Mutations(t testing.TB, d *datadriven.TestData) (muts []*fsmpb.Mutation) {
	whole := Of(t, d)
	switch d.Cmd {
	case "tick":
		return nil
	case "entry", "group":
		for _, c := range Input(t, d) {
			muts = append(muts, p.Mutation(c))
		}
		if d.Cmd == "group" {
			muts = []*fsmpb.Mutation{whole.withKey(&fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: muts}}})}
		}
		return muts
	}
	m := p.Mutation(whole)
	if op := m.GetEnqueue(); op != nil {
		for _, c := range Input(t, d) {
			op.Jobs = append(op.Jobs, newJob(c, c.Name, op.NewBatch.GetId()))
		}
	}
	return []*fsmpb.Mutation{m}
}

// Mutation returns the mutation that one line names.
func (p Tokens) Mutation(c Command) *fsmpb.Mutation {
	for _, kind := range []func(Command) *fsmpb.Mutation{p.report, admin, change} {
		if m := kind(c); m != nil {
			return c.withKey(m)
		}
	}
	c.t.Fatalf("command %q is not known", c.Name)
	return nil
}

// withKey gives the mutation its request key and its actor.
func (c Command) withKey(m *fsmpb.Mutation) *fsmpb.Mutation {
	m.Actor = c.Text("actor")
	if key := c.Text("key"); key != "" {
		m.Request = &fsmpb.Request{Key: key, Fingerprint: []byte(c.Text("print"))}
	}
	return m
}

// token returns the token of a report: epoch.counter, none, or that of the job.
func (p Tokens) token(c Command, id string) uint64 {
	switch text := c.Text("token"); text {
	case "none":
		return 0
	case "":
		return p(id)
	default:
		epoch, counter, _ := strings.Cut(text, ".")
		return uint64(Number(c.t, epoch)<<32 + Number(c.t, counter))
	}
}

func workerOf(c Command) string {
	if w := c.Text("worker"); w != "nobody" {
		return w
	}
	return fsm.Anonymous
}

// report makes what producers and workers send.
func (p Tokens) report(c Command) *fsmpb.Mutation {
	switch c.Name {
	case "enqueue":
		m := enqueueCommand(c)
		if parent := c.List("parent"); len(parent) == 2 {
			m.GetEnqueue().Parent = &fsmpb.Parent{Worker: parent[0], Lease: &fsmpb.Lease{JobId: parent[1], Token: p.token(c, parent[1])}}
		}
		return m
	case "step":
		return StoreStep(workerOf(c), c.ID(0), p.token(c, c.ID(0)), c.Text("name"), c.Text("value"))
	case "suspend":
		m := Suspend(workerOf(c), c.ID(0), p.token(c, c.ID(0)), c.Number("until", 0), c.Text("signal"))
		m.GetSuspend().Batch = c.Text("endof")
		return m
	case "attach":
		return AttachArtefact(workerOf(c), c.ID(0), p.token(c, c.ID(0)), c.Text("name"), c.Text("file"))
	case "claim":
		m := Claim(workerOf(c), uint32(c.Number("max", 1)), c.List("types")...)
		m.GetClaim().RequestId, m.GetClaim().LeaseMs = c.Text("request"), c.Number("lease", 0)
		m.GetClaim().Instance, m.GetClaim().Confirms = uint64(c.Number("instance", 0)), c.Has("confirms")
		return m
	case "heartbeat":
		return p.heartbeatCommand(c)
	case "complete":
		m := Complete(workerOf(c), c.ID(0), p.token(c, c.ID(0)))
		m.GetComplete().Result, m.GetComplete().Log = []byte(c.Text("result")), c.Text("log")
		return m
	case "fail":
		m := Fail(workerOf(c), c.ID(0), p.token(c, c.ID(0)), c.Text("error"), c.Has("permanent"))
		m.GetFail().RetryDelayMs, m.GetFail().Class = c.Optional("delay"), c.Text("class")
		return m
	case "grouped":
		parts := []*fsmpb.Mutation{p.Mutation(c.Rest())}
		if and := c.Text("and"); and != "" {
			parts = append(parts, p.Mutation(Line(c.t, and)))
		}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: parts}}}
	case "force":
		return ForceComplete(c.ID(0), c.Text("result"))
	case "release":
		return Release(workerOf(c), c.ID(0), p.token(c, c.ID(0)))
	}
	return nil
}

func (p Tokens) heartbeatCommand(c Command) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{Worker: workerOf(c)}
	for _, id := range c.IDs {
		l := &fsmpb.Lease{JobId: id, Token: p.token(c, id)}
		if percent := c.Optional("percent"); percent != nil {
			l.Progress = &fsmpb.Progress{Percent: uint32(*percent), Message: c.Text("message")}
		}
		op.Leases = append(op.Leases, l)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
}

func enqueueCommand(c Command) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	batch := c.OptionalText("newbatch")
	if batch != nil {
		op.NewBatch = &fsmpb.NewBatch{Id: *batch, Parent: c.Text("of")}
		if callback := c.OptionalText("callback"); callback != nil {
			op.NewBatch.Callback = &fsmpb.NewJob{Id: *callback, Type: c.Text("calltype")}
		}
		if key := c.Text("callkey"); key != "" {
			op.NewBatch.Callback.Options = &fsmpb.Options{Unique: &fsmpb.Unique{Key: key, Scope: uint32(fsm.UniqueActive)}}
		}
		op.NewBatch.CallbackOn = named(c, "on", fsm.CallbackEnded, fsm.CallbackCompleted, fsm.CallbackFailed)
	}
	for _, id := range c.IDs {
		op.Jobs = append(op.Jobs, newJob(c, id, op.NewBatch.GetId()))
	}
	for i := range c.Number("many", 0) {
		op.Jobs = append(op.Jobs, newJob(c, fmt.Sprint(c.Text("prefix"), i), ""))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// newJob is a job as a line describes it.
func newJob(c Command, id, batch string) *fsmpb.NewJob {
	n := &fsmpb.NewJob{
		Id: id, Type: c.Text("type"), Payload: []byte(c.Text("payload")), Priority: int32(c.Number("priority", 0)),
		RunAtMs: c.Number("at", 0), LeaseMs: c.Number("lease", 0),
	}
	o := &fsmpb.Options{
		TimeoutMs: c.Number("timeout", 0), StartBeforeMs: c.Number("before", 0), RetainMs: c.Number("retain", 0),
		Backoff: backoffArg(c), Group: c.Text("group"), Tags: c.List("tags"),
		After: c.List("after"), Batch: batch, AfterFailure: named(c, "failure", fsm.AfterBlock, fsm.AfterCancel, fsm.AfterRun, fsm.AfterOnly),
		AfterNames: c.List("names"), AfterBatches: c.List("afterbatches"), Step: c.Text("step"),
	}
	for _, file := range c.List("files") { // NAME:ID
		name, id, _ := strings.Cut(file, ":")
		n.Artefacts = append(n.Artefacts, &fsmpb.NamedArtefact{Name: name, Id: id})
	}
	if size := c.Number("size", 0); size > 0 {
		n.Payload = bytes.Repeat([]byte("1"), int(size))
	}
	if c.OptionalText("batch") != nil {
		o.Batch = c.Text("batch")
	}
	if attempts := c.Optional("attempts"); attempts != nil {
		narrow := int32(*attempts)
		n.MaxAttempts = &narrow
	}
	n.Quota = quotaArg(c)
	for _, rule := range c.List("onerror") { // CLASS:dead, CLASS:DELAY
		class, action, _ := strings.Cut(rule, ":")
		r := &fsmpb.OnError{Class: class, Dead: action == "dead"}
		if !r.Dead {
			r.DelayMs = Number(c.t, action)
		}
		o.OnError = append(o.OnError, r)
	}
	if u := c.List("unique"); len(u) > 0 {
		scope, _ := fsm.ParseUniqueScope(value(u, 1))
		o.Unique = &fsmpb.Unique{Key: u[0], Scope: uint32(scope), PeriodMs: Number(c.t, value(u, 2)), OnConflict: uint32(Number(c.t, value(u, 3)))}
	}
	if o.SizeVT() > 0 {
		n.Options = o
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

func quotaArg(c Command) *fsmpb.Quota {
	q := c.List("quota")
	if len(q) == 0 {
		return nil
	}
	return &fsmpb.Quota{Account: q[0], MaxJobs: Number(c.t, value(q, 1)), MaxBytes: Number(c.t, value(q, 2))}
}

func backoffArg(c Command) *fsmpb.Backoff {
	v := c.List("backoff")
	if len(v) == 0 {
		return nil
	}
	kind, _ := backoff.ParseKind(v[0])
	return &fsmpb.Backoff{
		Kind: uint32(kind), BaseMs: Number(c.t, value(v, 1)), CapMs: Number(c.t, value(v, 2)),
		JitterPercent: uint32(Number(c.t, value(v, 3))),
	}
}

// named is the choice that the key names; "" is the first.
func named[T interface {
	~uint8
	String() string
}](c Command, key string, choices ...T) uint32 {
	name := c.Text(key)
	if name == "" {
		return uint32(choices[0])
	}
	i := slices.IndexFunc(choices, func(choice T) bool { return choice.String() == name })
	if i < 0 {
		c.t.Fatalf("%q is not known", name)
	}
	return uint32(choices[i])
}

// admin makes what the leader and operators send.
func admin(c Command) *fsmpb.Mutation {
	switch c.Name {
	case "reserve":
		return ReserveArtefact(c.ID(0), c.Number("size", 0), c.Number("until", 0), quotaArg(c))
	case "drop":
		return DropArtefacts(c.IDs...)
	case "register":
		m := RegisterWorker(workerOf(c))
		m.GetRegisterWorker().Instance = uint64(c.Number("instance", 0))
		return m
	case "dead":
		m := WorkerDead(workerOf(c))
		m.GetWorkerDead().Instance = uint64(c.Number("instance", 0))
		return m
	case "quiet":
		return SetQuiet(workerOf(c), !c.Has("no"))
	case "token":
		return tokenCommand(c)
	case "hook":
		return hookCommand(c)
	case "broker":
		return brokerCommand(c)
	case "announce":
		return Announce(fsm.AnnounceKind(slices.Index(Announcements, c.ID(0))), strings.Repeat(c.Text("text"), int(c.Number("times", 1))))
	case "setqueue":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: setQueueCommand(c)}}
	case "cron":
		return cronCommand(c)
	}
	return nil
}

// Announcements are the names of the kinds, in their order.
var Announcements = []string{"", "away", "back", "refused", "accepted", "damaged", "healed"}

func tokenCommand(c Command) *fsmpb.Mutation {
	id, overlap := c.ID(1), c.Number("overlap", 0)
	switch c.ID(0) {
	case "create":
		role, _ := fsm.ParseRole(cmp.Or(c.Text("role"), "reader"))
		m := CreateToken(id, role)
		m.GetCreateToken().Replaces, m.GetCreateToken().OverlapMs = c.Text("replaces"), overlap
		return m
	case "revoke":
		return RevokeToken(id, overlap)
	}
	return nil
}

func hookCommand(c Command) *fsmpb.Mutation {
	switch name := c.ID(1); c.ID(0) {
	case "put":
		m := PutHook(name, outbox.AllKinds)
		m.GetPutHook().Hook.BufferBytes = c.Number("bytes", 0)
		return m
	case "delete":
		return DeleteHook(name)
	case "test":
		return TestHook(name)
	case "delivered":
		var id outbox.EventID
		if _, err := fmt.Sscanf(c.ID(2), "%d-%d-%d", &id.Term, &id.Index, &id.N); err != nil {
			c.t.Fatal(err)
		}
		return Reported(name, id)
	}
	return nil
}

func brokerCommand(c Command) *fsmpb.Mutation {
	s := fsm.DefaultSettings()
	s.MaxAttempts = int32(c.Number("attempts", int64(s.MaxAttempts)))
	for key, member := range map[string]*int64{
		"lease": &s.LeaseMs, "timeout": &s.WorkerTimeoutMs, "retain": &s.RetainCompletedMs, "keep": &s.RetainCompletedCount,
		"requestms": &s.RequestMs, "requests": &s.RequestCount,
		"jobs": &s.MaxJobs, "bytes": &s.MaxBytes, "payload": &s.MaxPayload,
	} {
		*member = c.Number(key, *member)
	}
	return RegisterBroker(c.Text("node"), uint64(c.Number("epoch", 0)), s)
}

func setQueueCommand(c Command) *fsmpb.SetQueue {
	var p *fsmpb.Pause
	if len(c.List("reason"))+len(c.List("by"))+len(c.List("until")) > 0 {
		p = &fsmpb.Pause{Reason: c.Text("reason"), By: c.Text("by"), UntilMs: c.Number("until", 0)}
	}
	return &fsmpb.SetQueue{
		Name: c.ID(0), Remove: c.Has("remove"), Paused: switchOf(c, "paused"), Pause: p,
		MaxRunning: c.Optional("running"), MaxRunningPerGroup: c.Optional("pergroup"),
		RateMilli: c.Optional("rate"), Burst: c.Optional("burst"),
		AgingMs: c.Optional("aging"), LeaseMs: c.Optional("lease"), TimeoutMs: c.Optional("timeout"), MaxAttempts: c.Optional("attempts"),
		Backoff: backoffArg(c), RetainMs: c.Optional("retain"), RetainCount: c.Optional("keep"),
		RetainDeadMs: c.Optional("retaindead"), RetainDeadCount: c.Optional("keepdead"),
		MaxJobs: c.Optional("jobs"), MaxBytes: c.Optional("bytes"), MaxPayload: c.Optional("payload"),
	}
}

// switchOf is on for "key", off for "key=no", and nil without either.
func switchOf(c Command, key string) *bool {
	on := c.Has(key)
	if !on && len(c.List(key)) == 0 {
		return nil
	}
	return &on
}

func cronCommand(c Command) *fsmpb.Mutation {
	name, next := c.ID(1), c.Number("next", 0)
	switch c.ID(0) {
	case "put":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: name, NextMs: next, Spec: c.Text("spec"), TimeZone: c.Text("zone"),
			Paused: c.Has("paused"), Job: newJob(c, c.Text("id"), ""),
			Overlap: named(c, "overlap", fsm.OverlapAllow, fsm.OverlapSkip),
			Missed:  named(c, "missed", fsm.MissedSkip, fsm.MissedOne, fsm.MissedAll),
			StartMs: c.Number("start", 0), EndMs: c.Number("end", 0), JitterMs: c.Number("jitter", 0), MaxFires: uint64(c.Number("max", 0)),
		}}}
	case "pause", "resume":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: &fsmpb.PauseCron{
			Name: name, NextMs: next, Paused: c.ID(0) == "pause",
			Spec: c.OptionalText("spec"), TimeZone: c.OptionalText("zone"), StartMs: c.Optional("start"), EndMs: c.Optional("end"),
		}}}
	case "delete":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
	case "fire":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: name, DueMs: c.Number("due", 0), AtMs: c.Number("at", 0), NextMs: next,
			Missed: uint64(c.Number("missed", 0)), JobId: c.Text("job"),
			Spec: c.OptionalText("spec"), TimeZone: c.OptionalText("zone"), StartMs: c.Optional("start"), EndMs: c.Optional("end"),
		}}}
	case "trigger":
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: name, JobId: c.Text("job")}}}
	}
	return nil
}

// change makes a signal, a link, the retry of a flow, and a cancel, retry or delete by ids or, with "all", by filter.
func change(c Command) *fsmpb.Mutation {
	switch c.Name {
	case "signal":
		m := SendSignal(c.ID(0), c.Text("name"), c.Text("id"), c.Text("value"))
		m.GetSendSignal().Link = hashOf(c.Text("link"))
		return m
	case "link":
		return MakeLink(c.ID(0), c.Text("name"), hashOf(c.Text("secret")), c.Number("until", 0))
	case "retryflow":
		return RetryFlow(c.ID(0), c.Text("fresh") != "")
	}
	kinds := map[string]fsm.ChangeKind{"cancel": fsm.CancelJobs, "retry": fsm.RetryJobs, "delete": fsm.DeleteJobs}
	kind, ok := kinds[c.Name]
	if !ok {
		return nil
	}
	op := &fsmpb.Change{Kind: uint32(kind), Ids: c.IDs, Fresh: c.Text("fresh") != ""}
	if c.ID(0) == "all" {
		op.Ids, op.Filter, op.Limit = nil, filterOf(c), uint32(c.Number("limit", 0))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

// hashOf is that of the secret of a link; none without a secret.
func hashOf(secret string) []byte {
	if secret == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func filterOf(c Command) *fsmpb.Filter {
	f := &fsmpb.Filter{
		Type: c.OptionalText("type"), Tag: c.Text("tag"), Group: c.OptionalText("group"), Batch: c.Text("batch"),
		Worker: c.OptionalText("worker"), CreatedFromMs: c.Number("from", 0), CreatedBeforeMs: c.Number("before", 0),
	}
	for _, name := range c.List("status") {
		f.Statuses = append(f.Statuses, statusOf(c, name))
	}
	if place := c.List("behind"); len(place) == 2 {
		f.AfterStatus, f.AfterSeq = statusOf(c, place[0]), uint64(Number(c.t, place[1]))
	}
	return f
}

func statusOf(c Command, name string) uint32 {
	s, ok := fsm.ParseStatus(name)
	if !ok {
		c.t.Fatalf("status %q is not known", name)
	}
	return uint32(s)
}
