package fsm_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// textsOfNobody are the texts of mutations that name no object with an owner: by message and field.
// A text that is neither here nor in ownedTexts fails the test, so that a new record has an owner.
var textsOfNobody = strings.Fields(`
	Mutation.actor Mutation.tenant
	NewJob.id NewJob.type Options.group Options.tags Options.after Header.name Header.value Quota.account Scope.types Scope.groups
	Claim.types Claim.request_id Lease.job_id Progress.message Complete.log Fail.error Fail.class OnError.class ForceComplete.job_id
	StateChecked.diverged
	Options.after_names Options.step Options.cron Options.account NewBatch.parent
	StoreStep.name Suspend.signal SendSignal.job_id SendSignal.name SendSignal.id MakeLink.job_id MakeLink.signal RetryFlow.job_id
	RegisterWorker.types RegisterWorker.version RegisterWorker.address SetQuiet.by
	EditJob.id Tags.tags Change.ids Filter.type Filter.tag Filter.group SetQueue.name Pause.reason Pause.by
	PutCron.spec PutCron.time_zone PauseCron.spec PauseCron.time_zone
	FireCron.name FireCron.job_id FireCron.spec FireCron.time_zone TriggerCron.job_id
	Announce.text
	RegisterBroker.node RegisterBroker.address RegisterBroker.cluster RegisterBroker.lineage
	Token.id Token.name Token.types Token.groups Token.family Token.made_by Token.tenant
	CreateToken.replaces RevokeToken.id TouchTokens.ids
	Hook.name Hook.url Hook.types Hook.key_id Hook.made_by Hook.old_key_id Hook.last_error Alert.subject
	NamedArtefact.name DropArtefacts.ids
	DeleteHook.name TestHook.name ReportHook.name ReportHook.error SetAlert.hook SetAlert.subject SetAlert.text
`)

// ownedTexts name an object that belongs to the tenant of the mutation.
var ownedTexts = strings.Fields(`
	Request.key Options.batch Options.limits Options.sequence Unique.key NewBatch.id Limits.limits SetLimit.pattern ThrottleLimit.key ThrottleLimit.worker
	Claim.worker Heartbeat.worker Complete.worker Fail.worker Release.worker RegisterWorker.name WorkerDead.name SetQuiet.name
	Parent.worker StoreStep.worker Suspend.worker Suspend.batch Options.after_batches
	NamedArtefact.id ReserveArtefact.id AttachArtefact.worker
	Filter.batch Filter.worker PutCron.name PauseCron.name DeleteCron.name TriggerCron.name
`)

// TestEveryTextOfAMutationHasAnOwner makes each kind of mutation with each of its texts set, alone
// and in a Group, and looks at what the log's decoding makes of them for a tenant.
func TestEveryTextOfAMutationHasAnOwner(t *testing.T) {
	op := new(fsmpb.Mutation).ProtoReflect().Descriptor().Oneofs().ByName("op")
	for i := range op.Fields().Len() {
		field := op.Fields().Get(i)
		if field.Name() == "group" {
			continue
		}
		for _, grouped := range []bool{false, true} {
			m := new(fsmpb.Mutation)
			fill(m.ProtoReflect().Mutable(field).Message(), 0)
			if grouped {
				m = &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{m}}}}
			}
			m.Tenant, m.Request = "acme", &fsmpb.Request{Key: "x"}
			tenants.Settle(m)
			if m.Tenant != "" {
				t.Errorf("%s: the mutation has a tenant", field.Name())
			}
			walk(m.ProtoReflect(), func(name, text string) {
				want := map[bool]string{true: "acme\x00x", false: "x"}[has(ownedTexts, name)]
				if has(ownedTexts, name) == has(textsOfNobody, name) {
					t.Errorf("%s is new: say in this test who owns what it names", name)
				} else if text != want {
					t.Errorf("%s of %s is %q; want %q", name, field.Name(), text, want)
				}
			})
		}
	}
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// fill sets every text of a message, and of those in it, to x.
func fill(m protoreflect.Message, depth int) {
	if depth > 6 {
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.Kind() == protoreflect.StringKind && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			list := m.Mutable(f).List()
			item := list.NewElement()
			fill(item.Message(), depth+1)
			list.Append(item)
		case f.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(f).Message(), depth+1)
		}
	}
}

func walk(m protoreflect.Message, fn func(name, text string)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(m.Descriptor().Name()) + "." + string(f.Name())
		switch {
		case f.Kind() == protoreflect.StringKind && f.IsList():
			for i := range v.List().Len() {
				fn(name, v.List().Get(i).String())
			}
		case f.Kind() == protoreflect.StringKind:
			fn(name, v.String())
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for i := range v.List().Len() {
				walk(v.List().Get(i).Message(), fn)
			}
		case f.Kind() == protoreflect.MessageKind:
			walk(v.Message(), fn)
		}
		return true
	})
}

// A caller sees the batches that a job waits for as its own, whether or not the job has options with an owner.
func TestWaitsOfATenant(t *testing.T) {
	m := fsm.New()
	mine := enqueue("parent", "after", "child")
	mine.GetEnqueue().NewBatch = &fsmpb.NewBatch{Id: "b"}
	mine.GetEnqueue().Jobs[1].Optional().AfterBatches, mine.GetEnqueue().Jobs[2].Optional().Batch = []string{"b"}, "b"
	mine.Tenant = "acme"
	until := suspendUntilEnd("w", "parent", 0, "b")
	until.Tenant = "acme"
	take := claim("w", 1)
	take.Tenant = "acme"
	for _, r := range apply(t, m, 1, mine, take, until) {
		if r.Code != fsm.OK {
			t.Fatal(r.Code)
		}
	}
	for id, want := range map[string][2]string{"after": {"batch:b", "batch:acme/b"}, "parent": {"batch:b", "batch:acme/b"}} {
		for i, tenant := range []string{"acme", ""} {
			if got := m.Job(id).For(tenant).Details().Waits; len(got) != 1 || got[0] != want[i] {
				t.Errorf("%s waits for %q, seen by %q; want %q", id, got, tenant, want[i])
			}
		}
	}
	if got := m.Job("after").For("acme").Options().AfterBatches[0]; got != "b" {
		t.Errorf("the job was enqueued after %q", got)
	}
	if m.Job("after").Options().AfterBatches[0] != "acme\x00b" || m.Job("parent").Details().Waits[0] != "\x00end:acme\x00b" {
		t.Error("the view has changed the job")
	}
}

// The name of an object without a tenant, and one without an owner, stay. No name without a tenant is
// one with a tenant.
func TestOwned(t *testing.T) {
	for _, c := range [][3]string{
		{"", "n", "n"}, {"", "a/n", "a/n"}, {"a", "", ""}, {"a", fsm.Anonymous, fsm.Anonymous}, {"a", "n", "a\x00n"}, {"a", "b/n", "a\x00b/n"},
	} {
		if got := tenants.Owned(c[0], c[1]); got != c[2] || tenants.NameFor(c[0], got) != c[1] {
			t.Errorf("%q of %q is %q, and back %q", c[1], c[0], got, tenants.NameFor(c[0], got))
		}
	}
	if got := tenants.NameFor("a", tenants.Owned("b", "n")); got != "b/n" {
		t.Errorf("the object of another tenant is %q", got)
	}
	for name, want := range map[string]bool{"a/n": false, "a\x00n": true, fsm.Anonymous: false} {
		if got := tenants.Foreign(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: name}}}); got != want {
			t.Errorf("%q is a name of a tenant: %t", name, got)
		}
	}
	for _, bad := range []string{"", "a/b", "a\x00b", "\xff", strings.Repeat("x", tenants.Max+1)} {
		if tenants.Valid(bad) {
			t.Errorf("%q is a tenant", bad)
		}
	}
}
