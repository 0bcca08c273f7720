package fsm_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/onerror"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
)

// everyKind has one mutation of each kind with every message in it, so that a
// walk through it meets every message of the log.
func everyKind(t testing.TB) *fsmpb.Batch {
	b := &fsmpb.Batch{Version: 1, NowMs: 1000, FlushedTerm: 1, FlushedIndex: 7, Mutations: []*fsmpb.Mutation{
		enqueueAt(2000, "a"), claimAs("w", "r", 3), heartbeat("w", "a", 1), complete("w", "a", 1),
		fail("w", "a", 1, "boom", true), release("w", "a", 1), registerWorker("w", "t"), workerDead("w"),
		registerBroker("n1", 1, fsm.DefaultSettings()),
		{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Filter: &fsmpb.Filter{Tag: "x"}}}},
		{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", Backoff: &fsmpb.Backoff{Kind: 2}, Paused: new(true), Pause: &fsmpb.Pause{UntilMs: 9}}}},
		{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "c", Job: fullJob("", "")}}},
		{Op: &fsmpb.Mutation_PauseCron{PauseCron: &fsmpb.PauseCron{Name: "c"}}},
		{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: "d"}}},
		{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: 1}}},
		{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "c", JobId: "triggered"}}},
		{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{release("w", "a", 1)}}}},
		announce(fsm.AnnounceBucketAway, "PUT queue.json: timeout"),
		forceComplete("full", "43"),
		raiseLevel(fsm.BaseLevel), checkState(), stateChecked(fsm.LSN{Term: 1, Index: 7}, [32]byte{1}, "n3~x"),
		createToken("k", fsm.RoleWorker), revokeToken("k", 5), touchTokens("k"),
		putHook("h", outbox.AllKinds), deleteHook("other"), testHook("h"),
		reported("h", outbox.EventID{Term: 1, Index: 7, N: 2}), setAlert("h", outbox.QueueStuck, "é", true), setQuiet("w", true),
		{Op: &fsmpb.Mutation_EditJob{EditJob: &fsmpb.EditJob{Id: "a", Payload: []byte("2"), Tags: &fsmpb.Tags{Tags: []string{"x"}}, Quota: &fsmpb.Quota{Account: "q"}, Limits: &fsmpb.Limits{Limits: []string{"k"}}}}},
		setLimit("k*", &fsmpb.LimitRule{Running: 1, RateMilli: 2, Burst: 3}), throttleLimit("k", 5, "w", &fsmpb.Lease{JobId: "a", Token: 1}),
		storeStep("w", "a", 1, "s", "1"), suspend("w", "a", 1, 9, "go"), sendSignal("a", "go", "i", "2"), makeLink("a", "go", bytes.Repeat([]byte{1}, 32), 9),
		retryFlow("full", true),
		reserveArtefact("file", 5, 9000, &fsmpb.Quota{Account: "q"}), attachArtefact("w", "a", 1, "n", "file"),
		{Op: &fsmpb.Mutation_DropArtefacts{DropArtefacts: &fsmpb.DropArtefacts{Ids: []string{"file"}}}},
		completeWithLog("w", "full", 1, "line\n"),
	}}
	for _, m := range b.Mutations { // no PutHook has an alert, which only states have
		if op := m.GetReportHook(); op != nil {
			op.Failed, op.Error = []*fsmpb.HookEventId{{Term: 1, Index: 8, N: 1}}, "503 é"
		}
	}
	b.Mutations[0].Request = &fsmpb.Request{Key: "k", Fingerprint: []byte("f")}
	b.Mutations[0].GetEnqueue().Scope = &fsmpb.Scope{Types: []string{"t"}, Groups: []string{"*"}}
	b.Mutations[0].GetEnqueue().Parent = &fsmpb.Parent{Worker: "w", Lease: &fsmpb.Lease{JobId: "a", Token: 1}}
	b.Mutations[0].GetEnqueue().NewBatch = &fsmpb.NewBatch{Id: "b", Callback: fullJob("callback", "")}
	b.Mutations[0].GetEnqueue().Jobs = append(b.Mutations[0].GetEnqueue().Jobs, fullJob("full", "b"))
	b.Mutations[2].GetHeartbeat().Leases[0].Progress = &fsmpb.Progress{Percent: 50, Message: "half"}
	kinds := new(fsmpb.Mutation).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range kinds.Len() {
		if number := b.Mutations[i].ProtoReflect().WhichOneof(kinds.Get(i).ContainingOneof()).Number(); number != kinds.Get(i).Number() {
			t.Fatalf("mutation %d is of kind %d, want %v: everyKind does not have them all", i, number, kinds.Get(i).FullName())
		}
	}
	return b
}

// fullJob has everything that a job can have.
func fullJob(id, batch string) *fsmpb.NewJob {
	attempts := int32(4)
	n := &fsmpb.NewJob{
		Id: id, Type: "t", Payload: []byte("{}"), Priority: 1, RunAtMs: 5, MaxAttempts: &attempts, LeaseMs: 6,
		Options: &fsmpb.Options{Backoff: &fsmpb.Backoff{Kind: uint32(backoff.Exponential), BaseMs: 1, CapMs: 100, JitterPercent: 10}, TimeoutMs: 7, Group: "g", Tags: []string{"x", "y"}, Batch: batch, AfterFailure: uint32(fsm.AfterCancel), Unique: &fsmpb.Unique{Key: "u", Scope: uint32(fsm.UniquePeriod), PeriodMs: 9}, Headers: []*fsmpb.Header{{Name: "traceparent", Value: "00-1-2-01"}}, StartBeforeMs: 10, RetainMs: 11, OnError: []*fsmpb.OnError{{Class: "smtp", Dead: true}}, Limits: []string{"k", "l"}, Sequence: "s"}, Quota: &fsmpb.Quota{Account: "k", MaxJobs: 1},
	}
	if id == "full" {
		n.Artefacts = []*fsmpb.NamedArtefact{{Name: "n", Id: "other"}}
	}
	if batch != "" {
		n.Optional().After, n.Optional().AfterNames, n.Optional().AfterBatches, n.Optional().Step = []string{"a"}, []string{"first"}, []string{batch}, "step"
	}
	return n
}

// onErrorOnly enqueues a job with rules for errors; without any it has one without a class.
func onErrorOnly(rules ...*fsmpb.OnError) *fsmpb.Mutation {
	m := enqueue("a")
	m.GetEnqueue().Jobs[0].Optional().OnError = rules
	if len(rules) == 0 {
		m.GetEnqueue().Jobs[0].Optional().OnError = []*fsmpb.OnError{{}}
	}
	return m
}

// messages calls fn for m and every message in it.
func messages(m protoreflect.Message, fn func(protoreflect.Message)) {
	fn(m)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				messages(v.List().Get(i).Message(), fn)
			}
		default:
			messages(v.Message(), fn)
		}
		return true
	})
}

// TestUnknownFieldsAreRefusedInEveryMessage puts a field of the future into
// each message of a log entry in turn.
func TestUnknownFieldsAreRefusedInEveryMessage(t *testing.T) {
	future := protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 1)
	total, met := 0, map[protoreflect.FullName]bool{}
	messages(everyKind(t).ProtoReflect(), func(protoreflect.Message) { total++ })
	for n := range total {
		b, i := everyKind(t), 0
		var where protoreflect.FullName
		messages(b.ProtoReflect(), func(m protoreflect.Message) {
			if i == n {
				m.SetUnknown(future)
				where = m.Descriptor().FullName()
			}
			i++
		})
		met[where] = true
		if _, err := fsm.EncodeEntry(b); err == nil {
			t.Errorf("%s: an entry was encoded that no node will apply", where)
		}
		data, err := proto.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsm.DecodeEntry(data); !errors.Is(err, fsm.ErrEntry) || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("%s: error %v", where, err)
		}
	}
	met["osqueue.fsm.v1.Alert"] = true // only a record of a snapshot has one
	all := fsmpb.File_entry_proto.Messages()
	for i := range all.Len() {
		if !met[all.Get(i).FullName()] {
			t.Errorf("no entry of the test has a %s", all.Get(i).FullName())
		}
	}
}

// The same for the records of a snapshot.
func TestUnknownFieldsOfRecordsAreSeen(t *testing.T) {
	future := protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 1)
	all := fsmpb.File_snapshot_proto.Messages()
	for k := range all.Len() {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(all.Get(k).FullName())
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		messages(withMessages(kind.New()), func(protoreflect.Message) { total++ })
		for n := range total {
			r, i := withMessages(kind.New()), 0
			if fsmpb.HasUnknown(r.Interface()) {
				t.Fatalf("%s: an unknown field is seen where there is none", all.Get(k).FullName())
			}
			messages(r, func(m protoreflect.Message) {
				if i == n {
					m.SetUnknown(future)
				}
				i++
			})
			if !fsmpb.HasUnknown(r.Interface()) {
				t.Errorf("%s, message %d: unknown field not seen", all.Get(k).FullName(), n)
			}
		}
	}
}

// withMessages gives m every message that it can have.
func withMessages(m protoreflect.Message) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.Message() == nil:
		case f.IsList():
			for range 2 {
				withMessages(m.Mutable(f).List().AppendMutable().Message())
			}
		default:
			withMessages(m.Mutable(f).Message())
		}
	}
	return m
}

func TestEntriesThatAreRefused(t *testing.T) {
	encoded := func(b *fsmpb.Batch) []byte {
		data, err := proto.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	mutation := func(m *fsmpb.Mutation) []byte {
		return encoded(&fsmpb.Batch{Version: 1, Mutations: []*fsmpb.Mutation{m}})
	}
	newer := encoded(&fsmpb.Batch{Version: fsm.MaxLevel + 1})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing at all":        {nil, "version is missing"},
		"no version":            {encoded(&fsmpb.Batch{NowMs: 1}), "version is missing"},
		"a newer version":       {newer, "upgrade"},
		"newer and unreadable":  {append(newer, 0xff), "upgrade"},
		"unreadable":            {[]byte{0x08, 0x01, 0xff}, "EOF"},
		"another wire type":     {[]byte{0x0a, 0x01, 0x01}, "wire"},
		"no kind":               {mutation(&fsmpb.Mutation{}), "kind"},
		"a kind of the future":  {append(mutation(nil)[:2], 0x1a, 0x04, 0xfa, 0x03, 0x01, 0x00), "kind"},
		"complete without what": {mutation(&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{}}}), "lease"},
		"fail without what":     {mutation(&fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{}}}), "lease"},
		"release without what":  {mutation(&fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{}}}), "lease"},
	} {
		b, err := fsm.DecodeEntry(c.data)
		if b != nil || !errors.Is(err, fsm.ErrEntry) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// An entry that would stop every node must not get into the log.
func TestEncodeEntryRefusesWhatDecodeEntryWould(t *testing.T) {
	long := strings.Repeat("x", fsm.PauseTextMax+1)
	set := func(op *fsmpb.SetQueue) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
	}
	alert := func(a *fsmpb.SetAlert) *fsmpb.Mutation {
		a.Hook, a.Kind = "h", uint32(outbox.QueueStuck)
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetAlert{SetAlert: a}}
	}
	for i, m := range []*fsmpb.Mutation{
		nil,
		{},
		{Op: &fsmpb.Mutation_Enqueue{}},
		{Op: &fsmpb.Mutation_Claim{}},
		{Op: &fsmpb.Mutation_Heartbeat{}},
		{Op: &fsmpb.Mutation_Complete{}},
		{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{}}},
		{Op: &fsmpb.Mutation_Fail{}},
		{Op: &fsmpb.Mutation_Release{}},
		{Op: &fsmpb.Mutation_Group{}},
		{Op: &fsmpb.Mutation_RegisterBroker{}},
		{Op: &fsmpb.Mutation_DeleteHook{}},
		{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: "w", By: strings.Repeat("x", fsm.QuietByMax+1)}}},
		{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: "w", By: "\xff"}}},
		{Op: &fsmpb.Mutation_Announce{}},
		completeWithLog("w", "a", 1, strings.Repeat("x", fsm.LogMax+1)),
		{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Lease: &fsmpb.Lease{}, Class: strings.Repeat("x", onerror.ClassMax+1)}}},
		onErrorOnly(), onErrorOnly(&fsmpb.OnError{Class: "a", Dead: true, DelayMs: 1}), onErrorOnly(&fsmpb.OnError{Class: "a", DelayMs: -1}),
		onErrorOnly(&fsmpb.OnError{Class: "\xff"}), onErrorOnly(slices.Repeat([]*fsmpb.OnError{{Class: "a"}}, onerror.Max+1)...),
		completeWithLog("w", "a", 1, "\xff"),
		announce(0, "nothing"),
		announce(fsm.AnnounceBucketHealed+1, "of the future"),
		{Op: &fsmpb.Mutation_RaiseLevel{}},
		raiseLevel(fsm.MaxLevel + 1),
		{Op: &fsmpb.Mutation_StateChecked{}},
		{Op: &fsmpb.Mutation_StateChecked{StateChecked: &fsmpb.StateChecked{Sum: []byte("short")}}},
		pauseOf("t", &fsmpb.Pause{Reason: long}), pauseOf("t", &fsmpb.Pause{By: long}), pauseOf("t", &fsmpb.Pause{Reason: "\xff"}),
		pauseOf("t", &fsmpb.Pause{UntilMs: -1}), pauseOf("t", &fsmpb.Pause{SinceMs: 1}),
		set(&fsmpb.SetQueue{Name: "t", Pause: &fsmpb.Pause{}}), // not paused, resumed, and removed
		set(&fsmpb.SetQueue{Name: "t", Paused: new(false), Pause: &fsmpb.Pause{}}),
		set(&fsmpb.SetQueue{Name: "t", Paused: new(true), Remove: true, Pause: &fsmpb.Pause{}}),
		{Op: &fsmpb.Mutation_ReportHook{ReportHook: &fsmpb.ReportHook{Name: "h", Error: "503 \xff"}}},
		withLimits("b", "a"), withLimits("a", "a"), withLimits("a*"), withLimits(""), withLimits("\xff"), withLimits(long[:fsm.LimitNameMax+1]),
		withLimits("a/b\x00k"), withLimits("t\x00"), withLimits("1", "2", "3", "4", "5", "6", "7", "8", "9"),
		{Op: &fsmpb.Mutation_EditJob{EditJob: &fsmpb.EditJob{Id: "a", Limits: &fsmpb.Limits{Limits: []string{"b", "a"}}}}},
		setLimit("", nil), setLimit("a*b", nil), setLimit("**", nil), setLimit(long[:fsm.LimitNameMax+1], nil), setLimit("\xff*", nil),
		setLimit("a", &fsmpb.LimitRule{Running: -1}), setLimit("a", &fsmpb.LimitRule{RateMilli: -1}), setLimit("a", &fsmpb.LimitRule{Burst: -1}),
		throttleLimit("", 1, "", nil), throttleLimit("a*", 1, "", nil),
		{Op: &fsmpb.Mutation_StoreStep{StoreStep: &fsmpb.StoreStep{Name: "s"}}},
		{Op: &fsmpb.Mutation_Suspend{Suspend: &fsmpb.Suspend{UntilMs: 1}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Parent: &fsmpb.Parent{Worker: "w"}}}},
		storeStep("w", "a", 1, "", "1"), storeStep("w", "a", 1, long[:fsm.StepNameMax+1], "1"), storeStep("w", "a", 1, "\xff", "1"),
		storeStep("w", "a", 1, "s", strings.Repeat("x", fsm.StepValueMax+1)),
		suspend("w", "a", 1, 0, ""), suspend("w", "a", 1, -1, "go"), suspend("w", "a", 1, 1, "\xff"), suspend("w", "a", 1, 0, "go"),
		{Op: &fsmpb.Mutation_Suspend{Suspend: &fsmpb.Suspend{Lease: &fsmpb.Lease{}, Batch: "b", UntilMs: 1}}},
		{Op: &fsmpb.Mutation_Suspend{Suspend: &fsmpb.Suspend{Lease: &fsmpb.Lease{}, Batch: "b", Signal: "go"}}},
		sendSignal("a", "", "", "1"), sendSignal("a", "go", long[:129], "1"), sendSignal("a", "go", "\xff", "1"),
		sendSignal("a", "go", "", strings.Repeat("x", fsm.StepValueMax+1)),
		{Op: &fsmpb.Mutation_SendSignal{SendSignal: &fsmpb.SendSignal{Name: "go", Link: []byte("short")}}},
		makeLink("a", "", make([]byte, 32), 1), makeLink("a", "go", []byte("short"), 1), makeLink("a", "go", make([]byte, 32), 0),
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "a", Options: &fsmpb.Options{After: []string{"b", "b"}, AfterNames: []string{"x", "y"}}}}}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "a", Options: &fsmpb.Options{AfterFailure: uint32(fsm.AfterOnly) + 1}}}}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: "a", CallbackOn: uint32(fsm.CallbackFailed) + 1}}}},
		alert(&fsmpb.SetAlert{Subject: "503 \xff"}), alert(&fsmpb.SetAlert{Text: "503 \xff"}), // no state with them could be restored
	} {
		if data, err := fsm.EncodeEntry(&fsmpb.Batch{Mutations: []*fsmpb.Mutation{m}}); err == nil {
			t.Errorf("case %d: %v was encoded", i, m)
			_, err := fsm.DecodeEntry(data)
			t.Log(err)
		}
	}
}

// The longest keys and patterns, and those of a tenant, can be encoded.
func TestLimitsThatAreTaken(t *testing.T) {
	long, tenant := strings.Repeat("x", fsm.LimitNameMax), strings.Repeat("t", tenants.Max)+tenants.End
	entry(t, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{
		withLimits(), withLimits(long), withLimits("1", "2", "3", "4", "5", "6", "7", "8"), withLimits(tenant + long),
		setLimit("*", nil), setLimit(tenant+"*", nil), setLimit(tenant+long[1:]+"*", nil), setLimit(tenant+long, nil),
		throttleLimit(tenant+long, -1, "", nil),
	}})
}

// Elements of lists are never nil after decoding: encoding makes them empty.
func TestNilElementsBecomeEmptyOnes(t *testing.T) {
	m := fsm.New()
	r := apply(t, m, 1,
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Leases: []*fsmpb.Lease{nil}}}},
		&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{nil}}}})
	if r[0].Codes[0] != fsm.NotFound || r[1].Code != fsm.NoID {
		t.Fatalf("%+v", r)
	}
}
