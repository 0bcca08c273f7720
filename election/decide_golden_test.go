package election_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// A raft leader decides by Decide where an original broker calls tryElect. What the
// original's outcomes are for a candidate without a history:
//
//	original        document        Decide           then
//	elected         none            Create           Acquire makes the document
//	elected         some            Adopt            with its state adopted: TakeOver, Acquire
//	other_leader    some            Wait             for the other one
//	already_leader  some            Wait             for itself: see below
//	conflict        none or some    as for elected   Acquire fails with ErrConflict
//	error           unreadable      (Read fails)     nothing is written
//	error, write    some            as for elected   Acquire fails
//
// It is not one to one in two places:
//
//   - already_leader. The original knows itself by its address. An address proves
//     nothing to us: behind it may be another process by now, whose writes are on
//     their way. A leader that is still the registered one has its cluster in the
//     header and takes over at once (TestDecide); one that has lost even that waits
//     like everybody else.
//   - checkLeadership has no counterpart: every write of the Fence checks it.
//
// Where the document is odd, Acquire writes what the original left out: a
// completedTotal, and a list of jobs.

// goldenRecords are the original's cases as the project keeps them.
const goldenRecords = "../compat/osqueue/testdata/transcripts/broker_election.json"

// createConflict is the recorded fault of a document that another candidate creates
// in between.
const createConflict = "createConflict"

// goldenCandidates have no history. The second has just been bootstrapped.
var goldenCandidates = map[string]election.Candidate{
	"no cluster":    {},
	"fresh cluster": {Cluster: "A", LSN: fsm.LSN{Term: 3, Index: 5}, Applied: fsm.LSN{Term: 3, Index: 5}},
}

func TestDecideGolden(t *testing.T) {
	data, err := os.ReadFile(goldenRecords)
	if err != nil {
		t.Fatal(err)
	}
	var cases []recorded
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	outcomes := make(map[string]int)
	for i := range cases {
		c := &cases[i]
		if c.Request.Op == "checkLeadership" {
			outcomes[c.Request.Op]++
			continue
		}
		for name, me := range goldenCandidates {
			me.Node, me.Address = "n1", c.Request.Address
			t.Run(c.Name+"/"+name, func(t *testing.T) { playGolden(t, c, me) })
		}
		outcomes[outcome(t, c)]++
	}
	for _, o := range []string{"elected", "already_leader", "other_leader", "conflict", "error", "checkLeadership"} {
		if outcomes[o] == 0 {
			t.Errorf("no case ends as %s", o)
		}
	}
}

func outcome(t *testing.T, c *recorded) string {
	t.Helper()
	want := c.want(t)
	if want["error"] != nil {
		return "error"
	}
	return want["status"].(string)
}

// playGolden has one candidate do what Decide tells it.
func playGolden(t *testing.T, c *recorded, me election.Candidate) {
	e := newEnv(t)
	if text, there := c.text(); there {
		e.seed(text)
	}
	if fault := c.Request.Fault; fault != "" && fault != createConflict {
		e.Inject(faultRules[fault])
	}
	before := e.stored()
	o, err := election.Read(short(t), e, key)
	if err != nil {
		if outcome(t, c) != "error" {
			t.Fatalf("read: %v, recorded is %v", err, c.want(t))
		}
		checkUntouched(t, e, before)
		return
	}
	d := election.Decide(o, me, goldenSilence(c, o))
	switch want := outcome(t, c); want {
	case "already_leader":
		wantDecision(t, d, election.Wait, c.Request.Address)
	case "other_leader":
		wantDecision(t, d, election.Wait, c.want(t)["leader"].(string))
	case "elected", "conflict", "error":
		acquireGolden(t, e, c, o, d, me)
		return
	default:
		t.Fatalf("outcome %s", want)
	}
	checkUntouched(t, e, before)
}

// goldenSilence returns the silence that a candidate measures if it has seen the document
// since its heartbeat.
func goldenSilence(c *recorded, o election.Observed) election.Silence {
	s := election.Silence{Timeout: time.Duration(c.Request.TimeoutMs) * time.Millisecond, Now: time.UnixMilli(c.Request.Now)}
	if o.Doc != nil && c.Request.Now-o.Doc.BrokerHeartbeat > c.Request.TimeoutMs {
		s.For = max(s.Timeout, election.LegacyTimeout)
	}
	return s
}

// acquireGolden goes the way to the first write.
func acquireGolden(t *testing.T, e *env, c *recorded, o election.Observed, d election.Decision, me election.Candidate) {
	t.Helper()
	if c.Request.Fault == createConflict {
		// The fence believes no conflict without a document that explains it.
		e.seed(`{"broker":"10.0.0.9:8080","brokerHeartbeat":1700000100000,"jobs":[],"completedTotal":0}`)
	}
	before := e.stored()
	m := fsm.New()
	if o.Doc == nil {
		wantDecision(t, d, election.Create, "")
	} else {
		wantDecision(t, d, election.Adopt, "")
		var err error
		if m, err = o.Doc.Legacy(); err != nil {
			t.Fatal(err)
		}
		me.Adopted = o.Version
		me.Populated = m.Counts() != fsm.Counts{}
		wantDecision(t, election.Decide(o, me, goldenSilence(c, o)), election.TakeOver, "")
	}
	_, err := election.Acquire(short(t), e, key, o, me, e.content(m.View()), c.Request.Now)
	switch want := outcome(t, c); {
	case want == "elected" && err != nil:
		t.Fatalf("acquire: %v", err)
	case want == "elected":
		checkTaken(t, e.stored(), c)
		return
	case want == "conflict" && !errors.Is(err, election.ErrConflict), err == nil:
		t.Errorf("acquire: %v, recorded is %v", err, c.want(t))
	}
	checkUntouched(t, e, before)
}

func wantDecision(t *testing.T, d election.Decision, action election.Action, leader string) {
	t.Helper()
	if d.Action != action || d.Leader != leader {
		t.Fatalf("%s of %q because %q, want %s of %q", d.Action, d.Leader, d.Reason, action, leader)
	}
}

func checkUntouched(t *testing.T, e *env, before storage.Object) {
	t.Helper()
	if after := e.stored(); after.Version != before.Version {
		t.Errorf("the document was written: %s", after.Data)
	}
}

// checkTaken compares what the original sees of the document: its own members, of
// the document and of the jobs.
func checkTaken(t *testing.T, after storage.Object, c *recorded) {
	t.Helper()
	got, want := originalMembers(t, after.Data), originalMembers(t, c.Response.Document)
	for name, zero := range map[string]any{"completedTotal": 0.0, "jobs": []any{}} {
		if _, ok := want[name]; !ok {
			want[name] = zero
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("document %v\nwant %v", got, want)
	}
}

func originalMembers(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	doc := keep(all, "broker", "brokerHeartbeat", "jobs", "completedTotal")
	if jobs, ok := doc["jobs"].([]any); ok {
		for i, j := range jobs {
			jobs[i] = keep(j.(map[string]any), "id", "status", "payload", "type", "createdAt", "attempts", "maxAttempts", "workerId", "heartbeat")
		}
	}
	return doc
}

func keep(all map[string]any, names ...string) map[string]any {
	kept := make(map[string]any)
	for _, name := range names {
		if v, ok := all[name]; ok {
			kept[name] = v
		}
	}
	return kept
}

// recorded is one case of the original's election.
type recorded struct {
	Name    string
	Request struct {
		Op, Address    string
		Now, TimeoutMs int64
		Document       json.RawMessage
		DocumentText   *string
		Fault          string
	}
	Response struct {
		Result   json.RawMessage
		Written  bool
		Document json.RawMessage
	}
}

func (c *recorded) text() (string, bool) {
	switch {
	case c.Request.DocumentText != nil:
		return *c.Request.DocumentText, true
	case c.Request.Document == nil || string(c.Request.Document) == "null":
		return "", false
	default:
		return string(c.Request.Document), true
	}
}

// faultRules are the recorded faults in terms of the bucket.
var faultRules = map[string]fault.Rule{
	"createConflict": {Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfAbsent}},
	"writeConflict":  {Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfMatch}},
	"readError":      {Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}},
	"writeError":     {Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfMatch}},
}

// want is the recorded result; of errors only that there is one.
func (c *recorded) want(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(c.Response.Result, &m); err != nil {
		t.Fatal(err)
	}
	if m["error"] != nil {
		return map[string]any{"error": true}
	}
	return m
}
