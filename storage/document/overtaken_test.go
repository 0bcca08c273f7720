package document_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// oldBroker is a legacy broker that works on a document, by its contract: it knows its own
// fields and keeps the rest.
type oldBroker struct {
	*rapid.T
	doc map[string]any
	now int64
	ids int
}

func startOldBroker(t *rapid.T, data []byte) *oldBroker {
	b := &oldBroker{T: t, doc: parseAny(t, data)}
	b.now = b.number(b.doc, "brokerHeartbeat") + 20_000
	b.beat()
	return b
}

func parseAny(t tester, data []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return doc
}

func (b *oldBroker) text() []byte {
	data, err := json.Marshal(b.doc)
	if err != nil {
		b.Fatalf("%v", err)
	}
	return data
}

func (b *oldBroker) beat() {
	b.doc["broker"], b.doc["brokerHeartbeat"] = "192.0.2.9:8080", b.now
}

func (b *oldBroker) number(o map[string]any, name string) int64 {
	switch n := o[name].(type) {
	case nil:
		return 0
	case int64:
		return n
	default:
		i, err := n.(json.Number).Int64()
		if err != nil {
			b.Fatalf("%s is %v", name, n)
		}
		return i
	}
}

func (b *oldBroker) jobs() []any { return b.doc["jobs"].([]any) }

func (b *oldBroker) pick(status string) map[string]any {
	for _, j := range b.jobs() {
		if j.(map[string]any)["status"] == status {
			return j.(map[string]any)
		}
	}
	return nil
}

func (b *oldBroker) submit() {
	b.ids++
	b.doc["jobs"] = append(b.jobs(), map[string]any{
		"id": fmt.Sprintf("old-%d", b.ids), "status": "unclaimed", "payload": b.ids, "createdAt": b.now, "attempts": int64(0),
	})
}

func (b *oldBroker) claim() {
	if j := b.pick("unclaimed"); j != nil {
		j["status"], j["workerId"], j["heartbeat"] = "in_progress", "old-worker", b.now
		j["attempts"] = b.number(j, "attempts") + 1
	}
}

func (b *oldBroker) complete() {
	done := b.pick("in_progress")
	var rest []any
	for _, j := range b.jobs() {
		if done == nil || j.(map[string]any)["id"] != done["id"] {
			rest = append(rest, j)
		}
	}
	if done != nil {
		b.doc["completedTotal"] = b.number(b.doc, "completedTotal") + 1
	}
	b.doc["jobs"] = append([]any{}, rest...)
}

func (b *oldBroker) expire() {
	var rest []any
	for _, e := range b.jobs() {
		j := e.(map[string]any)
		limit := int64(3)
		if j["maxAttempts"] != nil {
			limit = b.number(j, "maxAttempts")
		}
		if j["status"] == "in_progress" && b.now-b.number(j, "heartbeat") > 30_000 {
			if b.number(j, "attempts") >= limit {
				continue
			}
			j["status"] = "unclaimed"
			delete(j, "workerId")
			delete(j, "heartbeat")
		}
		rest = append(rest, j)
	}
	b.doc["jobs"] = append([]any{}, rest...)
}

// byHand adds an unknown field to the document or to one of its jobs, or removes it.
func (b *oldBroker) byHand() {
	o := b.doc
	if jobs := b.jobs(); len(jobs) > 0 && rapid.Bool().Draw(b.T, "into a job") {
		o = rapid.SampledFrom(jobs).Draw(b.T, "job").(map[string]any)
	}
	if o["byHand"] != nil {
		delete(o, "byHand")
		return
	}
	o["byHand"] = rapid.SampledFrom([]any{"x", true, map[string]any{"a": []any{}}}).Draw(b.T, "value")
}

// leaderTerm runs the legacy broker for some time.
func (b *oldBroker) leaderTerm() {
	for range rapid.IntRange(0, 30).Draw(b.T, "steps") {
		b.now += rapid.SampledFrom([]int64{0, 1, 3000, 31_000}).Draw(b.T, "pass")
		b.expire()
		switch rapid.IntRange(0, 4).Draw(b.T, "step") {
		case 0:
			b.submit()
		case 1:
			b.claim()
		case 2:
			b.complete()
		case 3:
			b.byHand()
		}
		b.beat()
	}
}

// TestOvertaken lets a legacy broker work on a document of this program and takes it back:
// its changes to jobs count, the fields that it does not know are unchanged, and no lease
// of one broker can be mistaken for a lease of the other.
func TestOvertaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := randomMachine(t)
		old := startOldBroker(t, document.Encode(document.Inline(before.View()), header, "a:1", before.Meta().Now))
		old.leaderTerm()
		data := old.text()
		doc, m := machine(t, data)
		if !doc.Overtaken || doc.Lineage() != header.Lineage || doc.BrokerAddress() != "192.0.2.9:8080" {
			t.Fatalf("overtaken %v, lineage %q, broker %q", doc.Overtaken, doc.Lineage(), doc.BrokerAddress())
		}
		checkJobs(t, old, before, m)
		if got, _ := json.Marshal(parseAny(t, data)["byHand"]); m.Meta().Extra == "" && string(got) != "null" ||
			m.Meta().Extra != "" && string(got) != string(byHandIn(t, m.Meta().Extra)) ||
			members(t, m.Meta().Extra) != members(t, before.Meta().Extra) {
			t.Fatalf("of the document is left %s, it had %s and by hand %s", m.Meta().Extra, before.Meta().Extra, got)
		}
		checkHidden(t, before, m)
		checkTokens(t, before, m)
		checkBeside(t, before.View(), m.View())
		checkBatches(t, before, m)
		checkTurns(t, before.View(), m.View())
		after, err := document.Decode(document.Encode(document.Inline(m.View()), header, "a:1", old.now+1))
		if err != nil || after.Overtaken {
			t.Fatalf("taken back: overtaken %v, %v", after.Overtaken, err)
		}
		goOn(t, m)
	})
}

// byHandIn returns the value that a person has written into a text of unknown fields.
func byHandIn(t tester, extra string) []byte {
	data, _ := json.Marshal(parseAny(t, []byte(extra))["byHand"])
	return data
}

// goOn lets a restored machine work.
func goOn(t *rapid.T, m *fsm.Machine) {
	g := generator{T: t, m: m, now: m.Meta().Now, ids: 1_000_000}
	g.live(5)
	if _, back := machine(t, document.Encode(document.Inline(m.View()), header, "a:1", 5)); back.View().Hash() != m.View().Hash() {
		t.Fatalf("the restored machine went on into a state that does not come back")
	}
}

// cancelledNow reports whether a job in the legacy broker's list was put back although it
// was to be cancelled.
func cancelledNow(job any) bool {
	o := job.(map[string]any)
	return o["status"] == "unclaimed" && o["cancelAt"] != nil
}

// begun reports whether j is available or running although the legacy broker did not know
// it: its dependencies have ended, or it is a batch's callback.
func begun(before, after *fsm.Machine, j *fsm.Job) bool {
	if was := before.Job(j.ID); was != nil {
		return was.Status == fsm.Blocked && len(j.Details().Waits) == 0
	}
	called := false
	after.View().Batches("", func(b *fsm.JobBatch) bool {
		called = called || b.Called && !before.View().Batch(b.ID).Called && b.Callback.Id == j.ID
		return !called
	})
	return called
}

// checkJobs compares the available and running jobs with the legacy broker's list.
func checkJobs(t *rapid.T, old *oldBroker, before, m *fsm.Machine) {
	var want, got []any
	ids := make(map[string]bool)
	for _, j := range old.jobs() {
		ids[j.(map[string]any)["id"].(string)] = true
		if !cancelledNow(j) {
			want = append(want, j)
		}
	}
	// Compare in the form that the legacy broker reads.
	for _, j := range parseAny(t, document.Encode(document.Inline(m.View()), header, "", 0))["jobs"].([]any) {
		if ids[j.(map[string]any)["id"].(string)] {
			got = append(got, j)
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d jobs came back of %d", len(got), len(want))
	}
	for i := range want {
		w, g := known(want[i]), known(got[i])
		if !bytes.Equal(w, g) {
			t.Fatalf("job %d came back as\n%s\nnot\n%s", i, g, w)
		}
	}
	if total := old.number(old.doc, "completedTotal"); m.Meta().CompletedTotal != uint64(total) {
		t.Fatalf("completed %d, want %d", m.Meta().CompletedTotal, total)
	}
	if m.Meta().Now < old.now {
		t.Fatalf("the clock is at %d, before %d", m.Meta().Now, old.now)
	}
	m.View().Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		checkKept(t, before.Job(j.ID), j)
		if written, _ := json.Marshal(j.ID); !ids[replaced(written)] && !begun(before, m, j) {
			t.Fatalf("nobody knows where job %+v comes from", j)
		}
		return true
	})
}

// replaced returns the text of a JSON string.
func replaced(quoted []byte) (s string) {
	_ = json.Unmarshal(quoted, &s)
	return s
}

// checkKept checks that an available or running job keeps its options, its history, the
// cancellation request and the unknown fields, and no other field that the legacy broker
// does not know.
func checkKept(t *rapid.T, was, is *fsm.Job) {
	if was == nil || was.Status == fsm.Blocked {
		return
	}
	want := fsm.Details{History: was.Details().History, CancelAt: was.Details().CancelAt, Extra: members(t, was.Details().Extra)}
	got := *is.Details()
	got.Extra = members(t, got.Extra)
	if fmt.Sprintf("%+v", *was.Options()) != fmt.Sprintf("%+v", *is.Options()) || fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", got) {
		t.Fatalf("job %s has %+v\nand %+v,\nhad %+v\nand %+v", is.ID, is.Options(), is.Details(), was.Options(), was.Details())
	}
}

// known returns the job with the fields that both systems know, by name.
func known(job any) []byte {
	o := maps.Clone(job.(map[string]any))
	maps.DeleteFunc(o, func(name string, v any) bool {
		switch name {
		case "id", "status", "payload", "payloadBase64", "createdAt", "attempts", "maxAttempts", "workerId", "heartbeat", "byHand":
			return false
		case "type":
			return v == ""
		}
		return true
	})
	data, _ := json.Marshal(o)
	return data
}

// checkHidden compares the jobs that the legacy broker does not see.
func checkHidden(t *rapid.T, before, after *fsm.Machine) {
	for _, s := range []fsm.Status{fsm.Scheduled, fsm.Completed, fsm.Dead, fsm.Cancelled} {
		before.View().Jobs(s, 0, func(was *fsm.Job) bool {
			if is := after.Job(was.ID); is == nil || public(t, is) != public(t, was) {
				t.Fatalf("%s job\n%s\nwas\n%s", s, public(t, is), public(t, was))
			}
			return true
		})
		after.View().Jobs(s, 0, func(is *fsm.Job) bool {
			was := before.Job(is.ID)
			switch {
			case was != nil && was.Status == s:
			case s == fsm.Scheduled && begun(before, after, is) && is.RunAt > after.Meta().Now:
			case s == fsm.Cancelled && is.Details().CancelAt != 0 && is.Execution().FinishedAt == after.Meta().Now:
			default:
				t.Fatalf("nobody knows why job %+v is %s; it was %+v", is, s, was)
			}
			return true
		})
	}
	before.View().Jobs(fsm.Blocked, 0, func(was *fsm.Job) bool {
		var left []string
		for _, id := range was.Details().Waits {
			if after.Job(id) != nil {
				left = append(left, id)
			}
		}
		is := after.Job(was.ID)
		if !slices.Equal(is.Details().Waits, left) || (is.Status == fsm.Blocked) != (len(left) > 0) || is.Seq != was.Seq {
			t.Fatalf("blocked job %s is %+v %+v, want it to wait for %q", was.ID, is, is.Details(), left)
		}
		return true
	})
}

// rewritten returns a payload in the form that the legacy broker gives it: parsed and
// written again.
func rewritten(payload []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var v any
	if !json.Valid(payload) || dec.Decode(&v) != nil {
		return payload
	}
	again, _ := json.Marshal(v)
	return again
}

// members returns the unknown fields of a text without the field that byHand wrote, as the
// legacy broker writes them: by name, and written again.
func members(t tester, extra string) string {
	if extra == "" {
		return "{}"
	}
	o := parseAny(t, []byte(extra))
	delete(o, "byHand")
	data, _ := json.Marshal(o)
	return string(data)
}

// public returns the job without the values that a machine derives.
func public(t tester, j *fsm.Job) string {
	if j == nil {
		return "gone"
	}
	d := *j.Details()
	c := fsm.Job{
		Seq: j.Seq, ID: j.ID, Type: j.Type,
		Status: j.Status, AttemptEnd: j.AttemptEnd, Priority: j.Priority, Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
		CreatedAt: j.CreatedAt, RunAt: j.RunAt,
	}
	c.SetPayload(rewritten(j.Payload()))
	e := *j.Execution()
	return fmt.Sprintf("%+v %+v %+v %+v", c, fsm.Execution{
		Result: rewritten(e.Result), LastError: e.LastError, Worker: e.Worker, ClaimedAt: e.ClaimedAt, Heartbeat: e.Heartbeat,
		FinishedAt: e.FinishedAt, LeaseMs: e.LeaseMs, HeldMs: e.HeldMs, Token: e.Token,
	}, *j.Options(), fsm.Details{
		History: d.History, Progress: d.Progress, ProgressAt: d.ProgressAt, Waits: d.Waits, CancelAt: d.CancelAt, TimeoutMs: d.TimeoutMs,
		Extra: members(t, d.Extra), Log: d.Log,
	})
}

// checkBeside compares the records that the legacy broker does not change.
func checkBeside(t *rapid.T, before, after *fsm.View) {
	was := parseAny(t, document.Encode(document.Inline(before), header, "", 0))
	is := parseAny(t, document.Encode(document.Inline(after), header, "", 0))
	for _, name := range []string{"queues", "crons", "requests"} {
		w, _ := json.Marshal(was[name])
		i, _ := json.Marshal(is[name])
		if !bytes.Equal(w, i) {
			t.Fatalf("%s are\n%s\nwere\n%s", name, i, w)
		}
	}
	seqs := make(map[string]uint64)
	for s := fsm.Scheduled; s <= fsm.Blocked; s++ {
		after.Jobs(s, 0, func(j *fsm.Job) bool { seqs[j.ID] = j.Seq; return true })
	}
	var want, got []fsm.Hold
	before.Holds(func(h *fsm.Hold) bool {
		w := *h
		if seq, ok := seqs[h.JobID]; ok {
			w.Seq = seq
		}
		want = append(want, w)
		return true
	})
	after.Holds(func(h *fsm.Hold) bool { got = append(got, *h); return true })
	if !slices.Equal(want, got) {
		t.Fatalf("holds %+v, want %+v", got, want)
	}
}

// checkBatches checks that batches count the jobs in the document, and missing jobs as
// completed.
func checkBatches(t *rapid.T, before, after *fsm.Machine) {
	there, cancelled := make(map[string]uint64), make(map[string]uint64)
	for s := fsm.Scheduled; s <= fsm.Blocked; s++ {
		after.View().Jobs(s, 0, func(j *fsm.Job) bool {
			switch s {
			case fsm.Completed, fsm.Dead:
			case fsm.Cancelled:
				if before.Job(j.ID).Status != s {
					cancelled[j.Options().Batch]++
				}
			default:
				there[j.Options().Batch]++
			}
			return true
		})
	}
	before.View().Batches("", func(was *fsm.JobBatch) bool {
		want := *was
		want.Cancelled += cancelled[was.ID]
		want.Completed += want.Pending() - there[was.ID]
		if want.Pending() == 0 && want.Total > 0 && want.EndedAt == 0 {
			want.EndedAt = after.Meta().Now
			want.Called = want.Called || want.Callback != nil && (want.CallbackOn == fsm.CallbackEnded || want.Completed == want.Total)
		}
		is := *after.View().Batch(was.ID)
		want.Callback, is.Callback = nil, nil
		if is != want {
			t.Fatalf("batch is %+v\nwant %+v\n was %+v", is, want, was)
		}
		if is.Called && !was.Called && was.Callback.Id != "" && after.Job(was.Callback.Id) == nil {
			t.Fatalf("the callback of batch %q is not there", was.ID)
		}
		return true
	})
}

// checkTurns checks that groups with available jobs keep their turns, and that all groups
// with available jobs have one if there are several.
func checkTurns(t *rapid.T, before, after *fsm.View) {
	type group struct{ jobType, name string }
	waiting, types := make(map[group]bool), make(map[string]int)
	after.Jobs(fsm.Unclaimed, 0, func(j *fsm.Job) bool {
		if g := (group{j.Type, j.Options().Group}); !waiting[g] {
			waiting[g] = true
			types[g.jobType]++
		}
		return true
	})
	turns := make(map[group]uint64)
	before.Turns(func(turn *fsm.Turn) bool { turns[group{turn.Type, turn.Group}] = turn.Turn; return true })
	after.Turns(func(turn *fsm.Turn) bool {
		g := group{turn.Type, turn.Group}
		was, had := turns[g]
		if had && turn.Turn != was || !had && turn.Turn <= before.Meta().LastTurn || !waiting[g] || turn.Turn > after.Meta().LastTurn {
			t.Fatalf("turn %+v, was %d; it waits: %v", turn, was, waiting[g])
		}
		delete(waiting, g)
		return true
	})
	for g := range waiting {
		if types[g.jobType] > 1 {
			t.Fatalf("group %+v has no turn", g)
		}
	}
}

func checkTokens(t *rapid.T, before, after *fsm.Machine) {
	if after.Meta().Token < before.Meta().Token {
		t.Fatalf("tokens go back from %d to %d", before.Meta().Token, after.Meta().Token)
	}
	v := after.View()
	v.Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		if j.Execution().Token != 0 || j.Status == fsm.InProgress && (j.Execution().HeldMs != after.Meta().Settings.LeaseMs || j.Execution().ClaimedAt != j.Execution().Heartbeat) {
			t.Fatalf("job %+v", j)
		}
		return true
	})
	if v.WorkerCount() != 0 {
		t.Fatalf("%d workers are still registered", v.WorkerCount())
	}
}
