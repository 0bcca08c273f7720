package queuefile_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/queuefile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is what testing.TB and rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// apply runs mutations through the log's encoding, as a node does.
func apply(t tester, m *fsm.Machine, term uint64, now int64, muts ...*fsmpb.Mutation) []fsm.Result {
	t.Helper()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: now, Mutations: muts})
	if err != nil {
		t.Fatalf("encode entry: %v", err)
	}
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		t.Fatalf("decode entry: %v", err)
	}
	return m.Apply(m.Meta().LSN.Index+1, term, b)
}

func newJob(id, payload string) *fsmpb.NewJob { return &fsmpb.NewJob{Id: id, Payload: []byte(payload)} }

func enqueue(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

func claim(worker, request string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{
		Worker: worker, RequestId: request, Max: n, Types: types,
	}}}
}

func complete(worker string, l *fsmpb.Lease, result []byte) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: worker, Lease: l, Result: result,
	}}}
}

func fail(worker string, l *fsmpb.Lease, reason string, permanent bool, delayMs int64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: worker, Lease: l, Error: reason, Permanent: permanent, RetryDelayMs: delayMs,
	}}}
}

func release(worker string, l *fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: worker, Lease: l}}}
}

func registerWorker(name string, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: name, Types: types, Version: "1.2", Address: "w:1",
	}}}
}

func registerBroker(node, address string, epoch uint64) *fsmpb.Mutation {
	s := fsm.DefaultSettings()
	s.RetainCompletedCount = 5
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: node, Address: address, Epoch: epoch, Cluster: "cl", Lineage: "li", Settings: s.ToPB(),
	}}}
}

var header = queuefile.Header{
	Lineage: "li", Cluster: "cl", Epoch: 7, Node: "n1", Write: "w2", Writes: []string{"w1", "w2"},
}

// machine decodes a document and builds its machine.
func machine(t tester, data []byte) (*queuefile.Document, *fsm.Machine) {
	t.Helper()
	doc, err := queuefile.Decode(data)
	if err != nil {
		t.Fatalf("%v\nin %s", err, data)
	}
	m, err := doc.Machine()
	if err != nil {
		t.Fatalf("%v\nin %s", err, data)
	}
	return doc, m
}

// randomMachine drives a machine into some reachable state.
func randomMachine(t *rapid.T) *fsm.Machine {
	g := generator{T: t, m: fsm.New(), now: rapid.Int64Range(0, 1<<42).Draw(t, "start")}
	for range rapid.IntRange(0, 40).Draw(t, "entries") {
		var muts []*fsmpb.Mutation
		for range rapid.IntRange(0, 4).Draw(t, "mutations") {
			muts = append(muts, g.mutation())
		}
		g.now += rapid.SampledFrom([]int64{0, 1, 7, 1000, 31_000, 100_000}).Draw(t, "pass")
		apply(t, g.m, rapid.SampledFrom([]uint64{1, 2, 1 << 60}).Draw(t, "term"), g.now, muts...)
	}
	return g.m
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

func (g *generator) newJob() *fsmpb.NewJob {
	g.ids++
	j := &fsmpb.NewJob{
		Id:       fmt.Sprintf("%d%s", g.ids, rapid.SampledFrom([]string{"", "é", "\xff"}).Draw(g.T, "id")),
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
	return j
}

func (g *generator) lease() *fsmpb.Lease {
	var running []*fsm.Job
	g.m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool { running = append(running, j); return true })
	if len(running) == 0 {
		return &fsmpb.Lease{JobId: "none"}
	}
	j := rapid.SampledFrom(running).Draw(g.T, "job")
	return &fsmpb.Lease{JobId: j.ID, Token: j.Token}
}

func (g *generator) mutation() *fsmpb.Mutation {
	w := workerGen.Draw(g.T, "worker")
	switch rapid.IntRange(0, 8).Draw(g.T, "kind") {
	case 0, 1:
		return enqueue(g.newJob(), g.newJob())
	case 2, 3:
		return claim(w, textGen.Draw(g.T, "request"), rapid.Uint32Range(0, 3).Draw(g.T, "max"))
	case 4:
		return complete(w, g.lease(), g.payload("result"))
	case 5:
		return fail(w, g.lease(), textGen.Draw(g.T, "error"), rapid.Bool().Draw(g.T, "permanent"), durationGen.Draw(g.T, "delay"))
	case 6:
		return release(w, g.lease())
	case 7:
		return registerWorker(w, rapid.SliceOfN(textGen, 0, 3).Draw(g.T, "types")...)
	default:
		op := registerBroker(textGen.Draw(g.T, "node"), textGen.Draw(g.T, "address"), rapid.Uint64().Draw(g.T, "epoch"))
		s := op.GetRegisterBroker().Settings
		s.MaxAttempts = rapid.Int32().Draw(g.T, "settings.maxAttempts")
		s.LeaseMs = durationGen.Draw(g.T, "settings.leaseMs")
		s.WorkerTimeoutMs = durationGen.Draw(g.T, "settings.workerTimeoutMs")
		s.RetainCompletedCount = durationGen.Draw(g.T, "settings.retainCompletedCount")
		return op
	}
}

// rich is a state that has something of everything.
func rich(t testing.TB) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	two := int32(2)
	zero := int32(0)
	apply(t, m, 1, 1_706_000_000_000, registerBroker("n1", "10.0.0.1:8080", 7), registerWorker("w1", "email", "sms"))
	apply(t, m, 1, 1_706_000_000_010,
		enqueue(
			&fsmpb.NewJob{Id: "j1", Type: "email", Payload: []byte(`{"to": "a@example.test"}`), MaxAttempts: &two},
			&fsmpb.NewJob{Id: "j2"},
			&fsmpb.NewJob{Id: "j3", Type: "sms", Payload: []byte("null"), MaxAttempts: &zero, Priority: -1},
			&fsmpb.NewJob{Id: "j4", Payload: []byte("4"), LeaseMs: 60_000},
			&fsmpb.NewJob{Id: "j5", Payload: []byte("5")},
			&fsmpb.NewJob{Id: "j6", Payload: []byte("\x00 no JSON")},
			&fsmpb.NewJob{Id: "j7", RunAtMs: 1_706_000_100_000},
		))
	jobs := apply(t, m, 2, 1_706_000_000_020, claim("w1", "r1", 2), claim(fsm.Anonymous, "", 1), claim("w2", "", 2))
	l := func(r, i int) *fsmpb.Lease {
		return &fsmpb.Lease{JobId: jobs[r].Jobs[i].ID, Token: jobs[r].Jobs[i].Token}
	}
	apply(t, m, 2, 1_706_000_000_030,
		complete("w1", l(0, 1), []byte("[1, 2]")),
		fail("w2", l(2, 0), "disk\nfull", true, 0),
		fail("w2", l(2, 1), "try later", false, 5000))
	return m
}
