package document_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
)

// detailed has documents of this program that a legacy broker has taken over, with valid
// and invalid details.
var detailed = []string{
	`{"broker":"b","brokerHeartbeat":90,"jobs":[
		{"id":"back","status":"unclaimed","createdAt":10,"attempts":1,"seq":1,"cancelAt":40,"batchId":"b1","group":"g1",
			"progress":{"percent":50,"at":30},"attemptTimeoutMs":5,"history":[{"number":1,"startedAt":20,"endedAt":30,"end":"failed"}]},
		{"id":"runs","status":"in_progress","createdAt":10,"attempts":1,"seq":2,"heartbeat":60,"cancelAt":40,"batchId":"b1",
			"progress":{"percent":50,"at":30},"attemptTimeoutMs":5,"uniqueKey":"k","uniqueScope":"period","uniqueMs":"9007199254740993"},
		{"id":"waits","status":"unclaimed","createdAt":10,"attempts":0,"seq":4,"group":"g2"},
		{"id":"new","status":"unclaimed","createdAt":80,"attempts":0}],"completedTotal":3,
	"osqueue":{"format":1,"address":"a","heartbeat":5,"state":{"now":70,"lastSeq":20,"lastTurn":4,"cancelledTotal":2}},
	"scheduled":[],"finished":[],"dead":[{"id":"dead","status":"dead","createdAt":10,"attempts":1,"seq":13,"finishedAt":50,"batchId":"b3"}],
	"blocked":[
		{"id":"free","status":"blocked","createdAt":10,"attempts":0,"seq":5,"after":["gone"],"waitsFor":["gone"]},
		{"id":"later","status":"blocked","createdAt":10,"attempts":0,"seq":6,"runAt":500,"after":["gone"],"waitsFor":["gone"]},
		{"id":"still","status":"blocked","createdAt":10,"attempts":0,"seq":7,"after":["gone","runs"],"waitsFor":["gone","runs"],"batchId":"b4"}],
	"turns":[{"group":"g1","turn":2},{"group":"g2","turn":4}],
	"batches":[
		{"id":"b1","createdAt":10,"total":5,"completed":1,"callback":{"id":"no"}},
		{"id":"b2","createdAt":10,"total":2,"completed":1,"callbackOn":"completed","callback":{"id":"called","type":"t","group":"g3","batchId":"b1",
			"after":["x"],"uniqueKey":"u","uniqueScope":"active","tags":["z"],"maxAttempts":7}},
		{"id":"b3","createdAt":10,"total":2,"dead":1,"callbackOn":"completed","callback":{"id":"not"}},
		{"id":"b4","createdAt":10,"total":1,"completed":1,"endedAt":60},
		{"id":"b5","createdAt":10,"total":1,"callback":{"id":"waits"}},
		{"id":"b6","createdAt":10}],
	"holds":[{"key":"k","seq":2,"job":"runs","until":1000},{"key":"l","seq":3,"job":"gone","until":1000}],
	"queues":[{"type":"t","paused":true,"levelAt":60}],"crons":[{"name":"c","spec":"@daily","nextAt":80,"job":{}}],
	"requests":[{"key":"q","at":60,"items":[{"job":"gone","token":5}]}],"workers":[{"name":"w"}],
	"claims":[{"worker":"w","requestId":"r","leases":[{"job":"runs","token":5}]}]}`,
	`{"broker":"b","jobs":[
		{"id":"a","status":"unclaimed","backoff":5,"timeoutMs":"x","group":5,"tags":"x","uniqueKey":null,"uniqueScope":"never","uniqueMs":1e99,
			"after":[1,"\ufffd"],"afterBase64":["MQ==","/w=="],"afterFailure":7,"batchId":{},"cron":[],"waitsFor":["x"],"attemptTimeoutMs":[],
			"cancelAt":0,"progress":[1],"history":"long"},
		{"id":"b","status":"in_progress","backoff":{"kind":"fixed","baseMs":"7","jitter":1e9,"capMs":{}},"tags":[],"tagsBase64":["/w=="],
			"cancelAt":1e99,"history":[5,{"number":-1,"startedAt":-5,"endedAt":1e300,"workerId":null,"error":7,"end":"odd"},null]}],
	"osqueue":{"format":1,"address":"a","heartbeat":5,"state":{"now":70}}}`,
}

// TestOvertakenDetails reads documents in which a legacy broker has completed, put back and
// run jobs that other jobs depend on.
func TestOvertakenDetails(t *testing.T) {
	_, m := machine(t, []byte(detailed[0]))
	back, runs := m.Job("back"), m.Job("runs")
	if back.Status != fsm.Cancelled || back.Execution().FinishedAt != 90 || back.Details().CancelAt != 40 || len(back.Details().History) != 1 ||
		back.Details().Progress.Percent != 0 || back.Details().TimeoutMs != 0 || m.Meta().CancelledTotal != 3 {
		t.Errorf("the job that was put back is %+v %+v; cancelled %d", back, back.Details(), m.Meta().CancelledTotal)
	}
	if d := runs.Details(); runs.Status != fsm.InProgress || d.CancelAt != 40 || d.ProgressAt != 0 || d.TimeoutMs != 0 ||
		runs.Options().Unique != (fsm.Unique{Key: "k", Scope: fsm.UniquePeriod, PeriodMs: 1<<53 + 1}) {
		t.Errorf("the job that runs is %+v %+v %+v", runs, runs.Options(), d)
	}
	for id, want := range map[string]string{
		"free": "unclaimed []", "later": "scheduled []", "still": "blocked [runs]", "waits": "unclaimed []", "new": "unclaimed []",
		"called": "unclaimed []", "no": "gone", "not": "gone",
	} {
		got := "gone"
		if j := m.Job(id); j != nil {
			got = fmt.Sprint(j.Status, " ", j.Details().Waits)
		}
		if got != want {
			t.Errorf("job %q is %s, want %s", id, got, want)
		}
	}
	if got := order(m); got != "runs waits free new called" {
		t.Errorf("order %q", got)
	}
	c := m.Job("called")
	if o := c.Options(); o.Batch != "" || o.Unique.Key != "" || o.After != nil || o.Group != "g3" || !slices.Equal(o.Tags, []string{"z"}) ||
		c.CreatedAt != 90 || c.MaxAttempts != 7 || c.Seq != m.Meta().LastSeq {
		t.Errorf("the callback is %+v %+v", c, c.Options())
	}
	v := m.View()
	for id, want := range map[string]fsm.JobBatch{
		"b1": {Total: 5, Completed: 3, Cancelled: 1},
		"b2": {Total: 2, Completed: 2, EndedAt: 90, Called: true, CallbackOn: fsm.CallbackCompleted},
		"b3": {Total: 2, Completed: 1, Dead: 1, EndedAt: 90, CallbackOn: fsm.CallbackCompleted},
		"b4": {Total: 2, Completed: 1}, // a person has put the job back
		"b5": {Total: 1, Completed: 1, EndedAt: 90, Called: true},
		"b6": {},
	} {
		got := *v.Batch(id)
		want.ID, want.CreatedAt, want.Callback = id, 10, got.Callback
		if got != want {
			t.Errorf("batch %+v, want %+v", got, want)
		}
	}
	var turns []string
	v.Turns(func(turn *fsm.Turn) bool {
		turns = append(turns, fmt.Sprintf("%s/%s/%d", turn.Type, turn.Group, turn.Turn))
		return true
	})
	if got := strings.Join(turns, " "); got != "//5 /g2/4" {
		t.Errorf("turns %q", got)
	}
	var holds []string
	v.Holds(func(h *fsm.Hold) bool {
		holds = append(holds, fmt.Sprint(h.Key, h.Seq == 2 || h.Seq == 3))
		return true
	})
	if !slices.Equal(holds, []string{"ktrue", "ltrue"}) || !v.Queue("t").Paused || v.Cron("c").NextAt != 80 || v.WorkerCount() != 0 {
		t.Errorf("holds %q, queue %+v, schedule %+v, %d workers", holds, v.Queue("t"), v.Cron("c"), v.WorkerCount())
	}
	v.Requests(func(r *fsm.RequestRecord) bool {
		if r.Key != "q" || len(r.Items) != 1 {
			t.Errorf("request %+v", r)
		}
		return true
	})
}

// TestOddDetails checks that details of a wrong type do not lose the job, and that the
// valid ones next to them count.
func TestOddDetails(t *testing.T) {
	_, m := machine(t, []byte(detailed[1]))
	want := fsm.Options{Group: "5", Unique: fsm.Unique{PeriodMs: 1<<63 - 1<<10}, After: []string{"1", "\xff"}, Batch: "{}", Cron: "[]"}
	if j := m.Job("a"); j.Det != nil || !reflect.DeepEqual(*j.Options(), want) {
		t.Errorf("a is %+v, %+v, %+v", j, j.Options(), j.Details())
	}
	b := m.Job("b")
	if o := b.Options(); o.Backoff != (fsm.Backoff{Kind: fsm.BackoffFixed, BaseMs: 7, Jitter: 255}) || o.Tags != nil {
		t.Errorf("b has %+v", o)
	}
	attempts := []fsm.Attempt{{Worker: fsm.Anonymous, Error: "7", EndedAt: 70}}
	if d := b.Details(); d.CancelAt != 70 || !slices.Equal(d.History, attempts) {
		t.Errorf("b has %+v", d)
	}
}

// TestBlockedInAnOriginal checks that a legacy document has no records other than jobs, and
// that a job in a list of this package waits for the jobs in the document.
func TestBlockedInAnOriginal(t *testing.T) {
	_, m := machine(t, []byte(`{"jobs":[{"id":"a","status":"unclaimed","group":"g","waitsFor":["a"],"cancelAt":5},7],
		"blocked":[{"id":"b","status":"blocked","waitsFor":["a","gone"],"batchId":"b1","group":"g"},{"id":"c","status":"blocked","waitsFor":"a"},{"id":"d"}],
		"queues":5,"turns":[{"turn":"x"}],"crons":[{"name":"c"},{"name":"c"}],"batches":[{"id":"b1"}],"holds":{},"requests":[1]}`))
	v := m.View()
	if a := m.Job("a"); a.Status != fsm.Unclaimed || a.Opt != nil || a.Det != nil {
		t.Errorf("a is %+v", a)
	}
	if b := m.Job("b"); b.Status != fsm.Blocked || !slices.Equal(b.Details().Waits, []string{"a"}) || b.Options().Group != "g" {
		t.Errorf("b is %+v", b)
	}
	if c, d := m.Job("c"), m.Job("d"); c.Status != fsm.Unclaimed || d.Status != fsm.Dead {
		t.Errorf("c is %+v, d is %+v", c, d)
	}
	if v.Batch("b1") != nil || v.CronCount() != 0 || v.Queue("") != nil {
		t.Error("lists that only we write mean something")
	}
}

// TestHoldsFollowEditedOrder checks that a unique-key reservation follows its job to the
// position that an edited order gives it. The machine identifies the owner by the position.
func TestHoldsFollowEditedOrder(t *testing.T) {
	_, m := machine(t, []byte(`{"osqueue":{"format":1,"state":{"lastSeq":5}},"jobs":[
		{"id":"b","status":"unclaimed","seq":5},
		{"id":"a","status":"unclaimed","seq":4,"uniqueKey":"k","uniqueScope":"period","uniqueMs":100}],
		"holds":[{"key":"k","seq":4,"job":"a","until":100},{"key":"l","seq":3,"job":"gone","until":100}]}`))
	var seqs []uint64
	m.View().Holds(func(h *fsm.Hold) bool { seqs = append(seqs, h.Seq); return true })
	if a := m.Job("a"); a.Seq != 7 || !slices.Equal(seqs, []uint64{7, 3}) {
		t.Errorf("a is at %d, the holds at %d", a.Seq, seqs)
	}
}
