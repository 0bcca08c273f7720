package queuefile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// oldBroker is a broker of the older generation at work on a document, as the
// contract describes it: it knows its own members and carries the rest along.
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

// reign is some time of the old broker in charge.
func (b *oldBroker) reign() {
	for range rapid.IntRange(0, 30).Draw(b.T, "steps") {
		b.now += rapid.SampledFrom([]int64{0, 1, 3000, 31_000}).Draw(b.T, "pass")
		b.expire()
		switch rapid.IntRange(0, 3).Draw(b.T, "step") {
		case 0:
			b.submit()
		case 1:
			b.claim()
		case 2:
			b.complete()
		}
		b.beat()
	}
}

// TestOvertaken lets an old broker work on a document of ours and takes it back:
// what it did to the jobs counts, what it could not see is as we left it, and no
// lease of either time can be mistaken for one of the other.
func TestOvertaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := randomMachine(t)
		old := startOldBroker(t, queuefile.Encode(before.View(), header, "a:1", before.Meta().Now))
		old.reign()
		data := old.text()
		doc, m := machine(t, data)
		if !doc.Overtaken || doc.Lineage() != header.Lineage || doc.BrokerAddress() != "192.0.2.9:8080" {
			t.Fatalf("overtaken %v, lineage %q, broker %q", doc.Overtaken, doc.Lineage(), doc.BrokerAddress())
		}
		checkJobs(t, old, m)
		checkHidden(t, before.View(), m.View())
		checkTokens(t, before, m)
		after, err := queuefile.Decode(queuefile.Encode(m.View(), header, "a:1", old.now+1))
		if err != nil || after.Overtaken {
			t.Fatalf("taken back: overtaken %v, %v", after.Overtaken, err)
		}
	})
}

// checkJobs compares the waiting and running jobs with the old broker's list.
func checkJobs(t *rapid.T, old *oldBroker, m *fsm.Machine) {
	// The form in which the old broker would see what we made of it.
	seen := parseAny(t, queuefile.Encode(m.View(), header, "", 0))
	want, got := old.jobs(), seen["jobs"].([]any)
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
}

// known is a job with the members that both generations know, by name.
func known(job any) []byte {
	o := maps.Clone(job.(map[string]any))
	maps.DeleteFunc(o, func(name string, v any) bool {
		switch name {
		case "id", "status", "payload", "payloadBase64", "createdAt", "attempts", "maxAttempts", "workerId", "heartbeat":
			return false
		case "type":
			return v == ""
		}
		return true
	})
	data, _ := json.Marshal(o)
	return data
}

// checkHidden compares the jobs that the old broker did not see.
func checkHidden(t *rapid.T, before, after *fsm.View) {
	for _, s := range []fsm.Status{fsm.Scheduled, fsm.Completed, fsm.Dead, fsm.Cancelled} {
		var was, is []fsm.Job
		before.Jobs(s, 0, func(j *fsm.Job) bool { was = append(was, public(j)); return true })
		after.Jobs(s, 0, func(j *fsm.Job) bool { is = append(is, public(j)); return true })
		if fmt.Sprint(was) != fmt.Sprint(is) {
			t.Fatalf("%s jobs\n%+v\nwere\n%+v", s, is, was)
		}
	}
}

// rewritten is a payload in the form that the old broker gives it: parsed, and
// written anew.
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

// public is the job without what a machine derives.
func public(j *fsm.Job) fsm.Job {
	return fsm.Job{
		Seq: j.Seq, ID: j.ID, Type: j.Type, Payload: rewritten(j.Payload), Result: rewritten(j.Result), LastError: j.LastError, Worker: j.Worker,
		Status: j.Status, AttemptEnd: j.AttemptEnd, Priority: j.Priority, Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
		CreatedAt: j.CreatedAt, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, Heartbeat: j.Heartbeat, FinishedAt: j.FinishedAt,
		LeaseMs: j.LeaseMs, HeldMs: j.HeldMs, Token: j.Token,
	}
}

func checkTokens(t *rapid.T, before, after *fsm.Machine) {
	if after.Meta().Token < before.Meta().Token {
		t.Fatalf("tokens go back from %d to %d", before.Meta().Token, after.Meta().Token)
	}
	v := after.View()
	v.Merged([]fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		if j.Token != 0 || j.Status == fsm.InProgress && (j.HeldMs != after.Meta().Settings.LeaseMs || j.ClaimedAt != j.Heartbeat) {
			t.Fatalf("job %+v", j)
		}
		return true
	})
	if v.WorkerCount() != 0 {
		t.Fatalf("%d workers are still registered", v.WorkerCount())
	}
}
