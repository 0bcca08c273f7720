package core

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// opaque draws JSON with the freedoms that a payload has; nil is absent.
var opaque = rapid.SampledFrom([][]byte{
	nil, []byte("null"), []byte(`{ "a": 1.0, "a" :[ ] }`), []byte(`"\ud83d\/"`), []byte("0"), []byte("\"ü\u2028\""),
})

var names = rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{`"\`, "\x00\x1f", "<é🚀>", fsm.Anonymous}))

func drawJob(t *rapid.T) *fsm.Job {
	small, times := rapid.Int32Range(0, 9), rapid.Int64Range(0, 1<<45)
	j := &fsm.Job{
		Seq:  1,
		ID:   rapid.String().Draw(t, "id"),
		Type: names.Draw(t, "type"),
		Exec: &fsm.Execution{
			Result: opaque.Draw(t, "result"), LastError: names.Draw(t, "error"),
			Worker: names.Draw(t, "worker"), ClaimedAt: times.Draw(t, "claimed"),
			Heartbeat: times.Draw(t, "heartbeat"), FinishedAt: times.Draw(t, "finished"),
			LeaseMs: times.Draw(t, "lease"), HeldMs: times.Draw(t, "held"),
			Token: rapid.Uint64().Draw(t, "token"),
		},

		Status:      rapid.SampledFrom([]fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired}).Draw(t, "status"),
		Priority:    rapid.Int32().Draw(t, "priority"),
		Attempts:    small.Draw(t, "attempts"),
		MaxAttempts: rapid.Int32Range(-1, 5).Draw(t, "max"),
		CreatedAt:   times.Draw(t, "created"),
		RunAt:       times.Draw(t, "run"),

		Opt: drawOptions(t),
		Det: drawDetails(t),
	}
	j.SetPayload(opaque.Draw(t, "payload"))
	return j
}

var texts = rapid.SliceOfN(names, 0, 3)

// drawOptions draws the options of a producer; nil means none.
func drawOptions(t *rapid.T) *fsm.Options {
	if rapid.Bool().Draw(t, "no options") {
		return nil
	}
	times := rapid.Int64Range(0, 9)
	return &fsm.Options{
		Backoff: backoff.Backoff{
			Kind:   rapid.SampledFrom([]backoff.Kind{backoff.Unset, backoff.None, backoff.Exponential}).Draw(t, "backoff"),
			BaseMs: times.Draw(t, "base"), CapMs: times.Draw(t, "cap"), Jitter: rapid.Uint8Range(0, 2).Draw(t, "jitter"),
		},
		TimeoutMs: times.Draw(t, "timeout"), Group: names.Draw(t, "group"), Tags: texts.Draw(t, "tags"),
		Unique: fsm.Unique{Key: names.Draw(t, "key"), Scope: fsm.UniquePeriod, PeriodMs: times.Draw(t, "period")},
		After:  texts.Draw(t, "after"), AfterFailure: rapid.SampledFrom([]fsm.AfterFailure{fsm.AfterBlock, fsm.AfterRun, fsm.AfterOnly}).Draw(t, "failure"),
		AfterBatches: texts.Draw(t, "after batches"), Step: names.Draw(t, "step"),
		Limits: texts.Draw(t, "limits"), Sequence: names.Draw(t, "sequence"),
		Batch: names.Draw(t, "batch"), Cron: names.Draw(t, "cron"), StartBefore: times.Draw(t, "start before"), RetainMs: times.Draw(t, "retain"),
		OnError: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *fsmpb.OnError {
			return &fsmpb.OnError{Class: names.Draw(t, "class"), Dead: rapid.Bool().Draw(t, "dead"), DelayMs: times.Draw(t, "retry after")}
		}), 0, 2).Draw(t, "rules"),
	}
}

func drawDetails(t *rapid.T) *fsm.Details {
	if rapid.Bool().Draw(t, "no details") {
		return nil
	}
	times := rapid.Int64Range(0, 9)
	d := &fsm.Details{
		Progress:   fsm.Progress{Percent: rapid.Uint8Range(0, 100).Draw(t, "percent"), Message: names.Draw(t, "message")},
		ProgressAt: times.Draw(t, "progress at"), Waits: texts.Draw(t, "waits"), CancelAt: times.Draw(t, "cancel"), Revision: uint64(times.Draw(t, "revision")), InLine: rapid.Bool().Draw(t, "in line"), TimeoutMs: times.Draw(t, "limit"),
		Log: names.Draw(t, "log"), Awaits: names.Draw(t, "awaits"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "attempts before") {
		d.History = append(d.History, fsm.Attempt{
			Number: 1, StartedAt: times.Draw(t, "started"), EndedAt: times.Draw(t, "ended"), Worker: names.Draw(t, "who"),
			Error: names.Draw(t, "why"), Class: names.Draw(t, "of"), End: rapid.SampledFrom([]fsm.End{fsm.EndFail, fsm.EndLease, fsm.EndTimeout}).Draw(t, "end"),
		})
	}
	return d
}

// listOf is nil for an empty list: it is not shown.
func listOf(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return values
}

// wireOptions adds the options of the producer.
func wireOptions(out *v1.Job, o *fsm.Options) {
	if o.Backoff.Kind != backoff.Unset {
		out.Backoff = &v1.Backoff{Kind: o.Backoff.Kind.String(), BaseMs: o.Backoff.BaseMs, CapMs: o.Backoff.CapMs, Jitter: int64(o.Backoff.Jitter)}
	}
	out.Group, out.Tags, out.BatchID, out.Cron, out.StartBefore = o.Group, listOf(o.Tags), o.Batch, o.Cron, o.StartBefore
	out.RetainMs, out.Limits, out.Sequence = o.RetainMs, listOf(o.Limits), o.Sequence
	for _, r := range o.OnError {
		action := map[bool]string{true: "dead", false: "retry"}[r.Dead]
		out.OnError = append(out.OnError, v1.OnError{Class: r.Class, Action: action, DelayMs: r.DelayMs})
	}
	if o.Unique.Key != "" {
		out.UniqueKey, out.UniqueScope, out.UniqueMs = o.Unique.Key, o.Unique.Scope.String(), o.Unique.PeriodMs
	}
	out.After, out.AfterNames, out.AfterBatches, out.Step = listOf(o.After), listOf(o.AfterNames), listOf(o.AfterBatches), o.Step
	if len(o.After)+len(o.AfterBatches) > 0 {
		out.AfterFailure = o.AfterFailure.String()
	}
}

func wireDetails(out *v1.Job, d *fsm.Details) {
	out.WaitsFor, out.CancelAt, out.Log, out.Revision, out.InLine = listOf(d.Waits), d.CancelAt, d.Log, int64(d.Revision), d.InLine
	if d.ProgressAt != 0 {
		out.Progress = &v1.Progress{Percent: d.Progress.Percent, Message: d.Progress.Message, At: d.ProgressAt}
	}
	for i := range d.History {
		a := &d.History[i]
		one := v1.Attempt{Number: a.Number, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Error: a.Error, Class: a.Class, End: a.End.String()}
		if a.Worker != fsm.Anonymous {
			one.WorkerID = &a.Worker
		}
		out.History = append(out.History, one)
	}
}

// wireJob is AppendJob said in terms of the wire type.
func wireJob(j *fsm.Job) v1.Job {
	out := v1.Job{
		ID: j.ID, Status: j.Status.String(), Payload: j.Payload(), Type: j.Type,
		CreatedAt: j.CreatedAt, Attempts: j.Attempts, MaxAttempts: max(j.MaxAttempts, 0), Heartbeat: j.Execution().Heartbeat,
		Priority: j.Priority, RunAt: j.RunAt, ClaimedAt: j.Execution().ClaimedAt, FinishedAt: j.Execution().FinishedAt,
		LeaseMs: j.Execution().LeaseMs, Token: j.Execution().Token, Result: j.Execution().Result, LastError: j.Execution().LastError,
	}
	wireOptions(&out, j.Options())
	wireDetails(&out, j.Details())
	out.TimeoutMs = j.Options().TimeoutMs
	if j.Status == fsm.Scheduled {
		out.Awaits = j.Details().Awaits
	}
	if j.Status == fsm.InProgress {
		out.LeaseMs, out.TimeoutMs = j.Execution().HeldMs, j.Details().TimeoutMs
	}
	if j.Execution().Worker != fsm.Anonymous && (j.Execution().Worker != "" || j.Status == fsm.InProgress) {
		out.WorkerID = new(j.Execution().Worker)
	}
	return out
}

func TestJobsAreWrittenAsTheWireTypeSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := drawJob(rt)
		body := AppendJob(nil, j)
		got, want := strictly[v1.Job](t, body), wireJob(j)
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s\nread %+v\nwant %+v", body, got, want)
		}
		if n := membersOf(body); n["maxAttempts"] != 1 || n["heartbeat"] != 1 || n["createdAt"] != 1 || n["attempts"] != 1 {
			rt.Fatalf("a member that is always there is not: %s", body)
		}
	})
}

func TestClaimedJobsAreWrittenAsTheWireTypeSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := drawJob(rt)
		lsn := fsm.LSN{Term: rapid.Uint64().Draw(rt, "term"), Index: 1}
		at := Moment{Now: rapid.Int64().Draw(rt, "now"), LeasesFrom: rapid.Int64Min(0).Draw(rt, "from")}
		body := claimedBody(j, at, lsn)
		want := v1.ClaimedJob{
			JobID: j.ID, Type: j.Type, Payload: j.Payload(), Priority: j.Priority, Attempts: j.Attempts,
			Token: j.Execution().Token, LeaseMs: j.Execution().HeldMs, LeaseAgeMs: at.LeaseAge(j), CreatedAt: j.CreatedAt, LSN: lsn.String(), LastError: j.Execution().LastError,
			TimeoutMs: j.Details().TimeoutMs, Group: j.Options().Group, Tags: listOf(j.Options().Tags), Limits: listOf(j.Options().Limits),
			BatchID: j.Options().Batch, Cron: j.Options().Cron, Step: j.Options().Step,
		}
		for _, id := range j.Options().After {
			want.Parents = append(want.Parents, v1.Parent{Name: id, JobID: id})
		}
		if j.MaxAttempts >= 0 {
			want.MaxAttempts = &j.MaxAttempts
		}
		if got := strictly[v1.ClaimedJob](t, body); !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s\nread %+v\nwant %+v", body, got, want)
		}
	})
}

// claimedBody returns the JSON of a claimed job.
func claimedBody(j *fsm.Job, at Moment, lsn fsm.LSN) []byte {
	out := Claimed([]*fsm.Job{j}, at, func(string) *fsm.Job { return nil })
	out[0].LSN = lsn.String()
	body, _ := out[0].AppendJSON(nil)
	return body
}

// A job that has everything shows every field of the wire type.
func TestNoMemberIsForgotten(t *testing.T) {
	j := &fsm.Job{
		Seq: 1, ID: "01a1fe7e-df69-8e8f-8989-a164e3cc47c5", Type: "t",
		Exec: &fsm.Execution{
			Result: []byte("2"), LastError: "e", Worker: "w", ClaimedAt: 8, Heartbeat: 9, FinishedAt: 10,
			LeaseMs: 11, HeldMs: 12, Token: 13,
		},
		Status:   fsm.InProgress,
		Priority: 3, Attempts: 4, MaxAttempts: 5, CreatedAt: 6, RunAt: 7,

		Opt: &fsm.Options{
			Backoff: backoff.Backoff{Kind: backoff.Fixed, BaseMs: 1}, Group: "g", Tags: []string{"t"}, Limits: []string{"l"}, Sequence: "s",
			Headers: []*fsmpb.Header{{Name: "h", Value: "v"}},
			Unique:  fsm.Unique{Key: "k", Scope: fsm.UniquePeriod, PeriodMs: 1}, After: []string{"a"}, AfterNames: []string{"n"}, AfterBatches: []string{"b"}, Step: "s", Batch: "b", Cron: "c", StartBefore: 9, RetainMs: 8, OnError: []*fsmpb.OnError{{Class: "smtp"}},
		},
		Det: &fsm.Details{
			History: []fsm.Attempt{{Worker: "w", Error: "e", End: fsm.EndFail}}, Progress: fsm.Progress{Percent: 1, Message: "m"}, ProgressAt: 1,
			Waits: []string{"a"}, CancelAt: 1, TimeoutMs: 1, Log: "l", Revision: 1, InLine: true,
			Steps: []*fsmpb.Step{{Name: "s"}}, Signals: []*fsmpb.Signal{{Name: "s"}}, Kept: 2,
		},
	}
	j.SetPayload([]byte("1"))
	lsn, at := fsm.LSN{Term: 1, Index: 2}, Moment{Now: j.Execution().Heartbeat + 1}
	for _, tc := range []struct {
		of   any
		body []byte
	}{
		{v1.Job{}, append(AppendSteps(AppendJobMembers(nil, j), j.Det), '}')},
		{v1.ClaimedJob{}, claimedBody(j, at, lsn)},
	} {
		shown := membersOf(tc.body)
		typ := reflect.TypeOf(tc.of)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if slices.Contains([]string{"waited", "waitsForLimit", "progressHistory", "actions", "confirm", "awaits", "artefacts"}, name) { // only if a client waited, for one job, for a last attempt, of a suspended job, and from another table
				shown[name] = 1
			}
			if shown[name] != 1 {
				t.Errorf("%s: member %s is there %d times in %s", typ, name, shown[name], tc.body)
			}
		}
		if len(shown) != typ.NumField() {
			t.Errorf("%s has other members: %s", typ, tc.body)
		}
	}
}

func strictly[T any](t testing.TB, body []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(body, &v, Lenient, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// membersOf counts the fields of an object.
func membersOf(body []byte) map[string]int {
	dec := jsontext.NewDecoder(strings.NewReader(string(body)), Lenient)
	_, _ = dec.ReadToken()
	out := make(map[string]int)
	for dec.PeekKind() == jsontext.KindString {
		name, _ := dec.ReadToken()
		out[name.String()]++
		if dec.SkipValue() != nil {
			break
		}
	}
	return out
}
