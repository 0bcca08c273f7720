package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// script makes the fake answer writes to a route.
func (c *fakeCluster) script(route, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts[route] = func(int, []byte) string { return answer }
}

// body is the last body sent to a scripted route.
func (c *fakeCluster) body(route string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies[route]
}

func TestEncodeAllOptions(t *testing.T) {
	job := NewJob{
		ID: "j", Type: "t", Timeout: time.Minute, Group: "g", Tags: []string{"x", "y"}, After: []string{"a"},
		AfterFailure: v1.AfterRun, BatchID: "b",
		Backoff: &Backoff{Kind: v1.BackoffLinear, Base: time.Second, Cap: time.Minute, Jitter: 10},
		Unique:  Unique{Key: "k", Scope: v1.UniquePeriod, Period: time.Hour},
	}
	want := `{"id":"j","type":"t","backoff":{"kind":"linear","baseMs":1000,"capMs":60000,"jitter":10},` +
		`"timeoutMs":60000,"group":"g","tags":["x","y"],"uniqueKey":"k","uniqueScope":"period","uniqueMs":3600000,` +
		`"after":["a"],"afterFailure":"run","batchId":"b"}`
	if got, err := EncodeJob(job); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if n := EncodedSize(job); n < len(want) {
		t.Errorf("%d bytes were taken for %d", len(want), n)
	}
}

func TestHolderOfTheUniqueKey(t *testing.T) {
	c, cl := newPair(t)
	c.script("POST /v1/jobs", `{"jobId":"other","lsn":"1-2","duplicate":true}`)
	got, err := cl.Enqueue(bounded(t), NewJob{ID: "mine", Unique: Unique{Key: "k"}})
	if want := (Enqueued{JobID: "other", LSN: "1-2", Committed: AckQuorum, Duplicate: true, Holder: "other"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = cl.Enqueue(bounded(t), NewJob{ID: "other"})
	if err != nil || !got.Duplicate || got.Holder != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// keyedCalls are the writes that only a key makes repeatable.
func keyedCalls(t *testing.T, cl *Client) map[string]func() error {
	t.Helper()
	ctx := bounded(t)
	return map[string]func() error{
		"POST /v1/jobs/j/cancel":         func() error { _, err := cl.Cancel(ctx, "j"); return err },
		"POST /v1/jobs/j/retry":          func() error { _, err := cl.Retry(ctx, "j"); return err },
		"PATCH /v1/jobs/j":               func() error { _, err := cl.Edit(ctx, "j", Edit{Retry: true}); return err },
		"DELETE /v1/jobs/j":              func() error { _, err := cl.Delete(ctx, "j"); return err },
		"POST /v1/jobs/cancel":           func() error { _, err := cl.CancelMany(ctx, []string{"j"}); return err },
		"POST /v1/jobs/retry":            func() error { _, err := cl.RetryMany(ctx, []string{"j"}); return err },
		"POST /v1/jobs/delete":           func() error { _, err := cl.DeleteMany(ctx, []string{"j"}); return err },
		"PATCH /v1/queues/q":             func() error { _, err := cl.SetQueue(ctx, "q", QueuePatch{}); return err },
		"POST /v1/queues/q/pause":        func() error { _, err := cl.PauseQueue(ctx, "q", Pause{}); return err },
		"POST /v1/queues/q/resume":       func() error { _, err := cl.ResumeQueue(ctx, "q"); return err },
		"DELETE /v1/queues/q":            func() error { return cl.RemoveQueue(ctx, "q") },
		"POST /v1/jobs/j/throttle":       func() error { return cl.Throttle(ctx, Lease{JobID: "j"}, "k", time.Second) },
		"PUT /v1/limits/k":               func() error { return cl.SetLimit(ctx, "k", v1.LimitRule{MaxRunning: 1}) },
		"DELETE /v1/limits/k":            func() error { return cl.RemoveLimit(ctx, "k") },
		"POST /v1/limits/k/hold":         func() error { return cl.HoldLimit(ctx, "k", time.Second) },
		"PUT /v1/crons/c":                func() error { _, err := cl.PutCron(ctx, "c", NewCron{Spec: "@daily"}); return err },
		"POST /v1/crons/c/pause":         func() error { return cl.PauseCron(ctx, "c") },
		"POST /v1/crons/c/resume":        func() error { _, err := cl.ResumeCron(ctx, "c"); return err },
		"POST /v1/crons/c/trigger":       func() error { _, err := cl.TriggerCron(ctx, "c"); return err },
		"DELETE /v1/crons/c":             func() error { return cl.DeleteCron(ctx, "c") },
		"POST /v1/batches":               func() error { _, err := cl.CreateBatch(ctx, NewBatch{}); return err },
		"POST /v1/jobs/j/complete":       func() error { return cl.Complete(ctx, Lease{JobID: "j"}, nil) },
		"POST /v1/jobs/j/force-complete": func() error { return cl.ForceComplete(ctx, "j", nil) },
		"POST /v1/jobs/j/release":        func() error { return cl.Release(ctx, Lease{JobID: "j"}) },
		"POST /v1/jobs/complete":         func() error { _, err := cl.CompleteBatch(ctx, "w", make([]Completion, 1)); return err },
		"POST /v1/jobs/fail":             func() error { _, err := cl.FailBatch(ctx, "w", make([]FailedJob, 1)); return err },
		"POST /v1/jobs/release":          func() error { _, err := cl.ReleaseBatch(ctx, "w", make([]Lease, 1)); return err },
	}
}

// Each write takes effect once, although two answers are lost and the leader
// changes in between.
func TestKeyedWritesAreDoneOnce(t *testing.T) {
	c, cl := newPair(t)
	for route, call := range keyedCalls(t, cl) {
		t.Run(route, func(t *testing.T) {
			c.script(route, `{"lsn":"1-1","results":[{"jobId":"j","status":"ok"}]}`)
			faults := []fault{cutAfter, func(n *node, w http.ResponseWriter, r *http.Request, a func(http.ResponseWriter)) {
				half(n, w, r, a)
				c.elect((n.i + 1) % 3)
			}}
			c.setFault(func(_ *node, r *http.Request) fault {
				if r.URL.Path == v1.PathStatus || len(faults) == 0 {
					return nil
				}
				f := faults[0]
				faults = faults[1:]
				return f
			})
			check(t, call())
			if n := c.done(route); n != 1 {
				t.Errorf("done %d times", n)
			}
			if _, _, repeats := c.counts(); repeats != 2 {
				t.Errorf("%d repetitions were recognised", repeats)
			}
		})
	}
}

func TestOwnKeys(t *testing.T) {
	c, cl := newPair(t)
	mine := WithIdempotencyKey(bounded(t), "order-7")
	first, err := cl.Enqueue(mine, NewJob{Type: "a"})
	if err != nil || c.header(v1.HeaderIdempotencyKey) != "order-7" {
		t.Fatal(first, err)
	}
	again, err := cl.Enqueue(mine, NewJob{Type: "a"})
	if err != nil || again.JobID != first.JobID || c.header(v1.HeaderIdempotencyKey) != "order-7" {
		t.Errorf("%+v after %+v, %v", again, first, err)
	}
	if n, _, _ := c.counts(); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if _, err := cl.Enqueue(mine, NewJob{Type: "b"}); !HasTag(err, v1.TagRequestConflict) {
		t.Errorf("another write with the key: %v", err)
	}
	c.answers[v1.PathStats] = `{}`
	if _, err := cl.Stats(mine); err != nil || c.header(v1.HeaderIdempotencyKey) != "" {
		t.Errorf("a read had the key %q, %v", c.header(v1.HeaderIdempotencyKey), err)
	}
	before := len(c.requests())
	for _, bad := range []string{strings.Repeat("x", 257), "a b", "ä"} {
		_, err := cl.Cancel(WithIdempotencyKey(bounded(t), bad), "j")
		if e := failed(t, err); e.Committed != CommittedNo || e.Status != 0 {
			t.Errorf("%q: %+v", bad, e)
		}
	}
	if len(c.requests()) != before {
		t.Error("bad keys were sent")
	}
}

func TestChanges(t *testing.T) {
	c, cl := newPair(t)
	c.script("POST /v1/jobs/a%2Fb/cancel", `{"lsn":"1-1","status":"in_progress","cancel":true}`)
	got, err := cl.Cancel(bounded(t), "a/b")
	if want := (Change{JobID: "a/b", Stopping: true, Status: v1.StatusInProgress, LSN: "1-1", Committed: AckQuorum}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	c.script("POST /v1/jobs/retry", `{"count":1,"lsn":"1-1","results":[{"jobId":"a","status":"ok"},{"jobId":"b","status":"duplicate"},{"jobId":"c","status":"wrong_status"}]}`)
	many, err := cl.RetryMany(bounded(t), []string{"a", "b", "c"})
	want := []Change{
		{JobID: "a", LSN: "1-1", Committed: AckQuorum},
		{JobID: "b", Duplicate: true, LSN: "1-1", Committed: AckQuorum},
		{JobID: "c", Tag: v1.TagWrongStatus},
	}
	if err != nil || !slices.Equal(many, want) || c.body("POST /v1/jobs/retry") != `{"ids":["a","b","c"]}` {
		t.Errorf("%+v, %v, %s", many, err, c.body("POST /v1/jobs/retry"))
	}
	if _, err := cl.DeleteMany(bounded(t), nil); err != nil || c.done("POST /v1/jobs/delete") != 0 {
		t.Errorf("nothing to delete: %v", err)
	}
}

// More ids than one call holds go in several, each with a key of its own.
func TestManyChanges(t *testing.T) {
	c, cl := newPair(t)
	ids := make([]string, 2500)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	c.scripts["POST /v1/jobs/cancel"] = func(_ int, body []byte) string {
		n := strings.Count(string(body), ",") + 1
		return `{"lsn":"1-1","results":[` + strings.Repeat(`{"jobId":"x","status":"ok"},`, n-1) + `{"jobId":"y","status":"ok"}]}`
	}
	changes, err := cl.CancelMany(WithIdempotencyKey(bounded(t), "k"), ids)
	if err != nil || len(changes) != len(ids) || c.done("POST /v1/jobs/cancel") != 3 {
		t.Errorf("%d changes by %d calls, %v", len(changes), c.done("POST /v1/jobs/cancel"), err)
	}
	if got := c.header(v1.HeaderIdempotencyKey); got != "k.2" {
		t.Errorf("the last key was %q", got)
	}
}

func TestChangesByFilter(t *testing.T) {
	c, cl := newPair(t)
	const route = "POST /v1/jobs/delete"
	c.scripts[route] = func(n int, _ []byte) string {
		return []string{"", `{"count":2,"nextCursor":"x","lsn":"1-1"}`, `{"count":0,"nextCursor":"y","lsn":"1-1"}`, `{"count":3,"lsn":"1-1"}`}[n]
	}
	f := Filter{
		Statuses: []string{v1.StatusDead}, Type: "t", Tag: "x", Group: "g", BatchID: "b", Worker: "w",
		CreatedFrom: time.UnixMilli(5), CreatedBefore: time.UnixMilli(9),
	}
	n, err := cl.DeleteWhere(bounded(t), f)
	want := `{"filter":{"statuses":["dead"],"type":"t","tag":"x","group":"g","batchId":"b","workerId":"w","createdFrom":5,"createdBefore":9},"cursor":"y"}`
	if err != nil || n != 5 || c.body(route) != want {
		t.Errorf("%d, %v, %s", n, err, c.body(route))
	}
	if _, err := cl.CancelWhere(bounded(t), Filter{Limit: 3}); !errors.Is(err, errFilter) {
		t.Errorf("a filter that names nothing: %v", err)
	}
	c.scripts["POST /v1/jobs/cancel"] = func(int, []byte) string { return `{"count":2,"nextCursor":"x","lsn":"1-1"}` }
	if n, err := cl.CancelWhere(bounded(t), Filter{All: true}); !errors.Is(err, errCursor) || n != 4 {
		t.Errorf("a cursor that stands still: %d, %v", n, err)
	}
	c.scripts["POST /v1/jobs/retry"] = func(n int, _ []byte) string {
		return fmt.Sprintf(`{"count":2,"nextCursor":"x%d","lsn":"1-1"}`, n)
	}
	if n, err := cl.RetryWhere(bounded(t), Filter{All: true, Limit: 4}); err != nil || n != 4 ||
		c.body("POST /v1/jobs/retry") != `{"filter":{"all":true},"limit":2,"cursor":"x1"}` {
		t.Errorf("with a limit: %d, %v, %s", n, err, c.body("POST /v1/jobs/retry"))
	}
}

func TestQueuePatch(t *testing.T) {
	cases := map[string]QueuePatch{
		`{}`: {},
		`{"paused":false,"maxRunning":5,"leaseMs":null}`: {
			Paused: SetTo(false), MaxRunning: SetTo(int64(5)), Lease: Default[time.Duration](),
		},
		`{"ratePerSecond":0.5,"timeoutMs":1500,"maxAttempts":0,"backoff":{"kind":"fixed","baseMs":1000},"retainMs":null}`: {
			RatePerSecond: SetTo(0.5), Timeout: SetTo(1500 * time.Millisecond), MaxAttempts: SetTo(int64(0)),
			Backoff: SetTo(Backoff{Kind: v1.BackoffFixed, Base: time.Second}), RetainFor: Default[time.Duration](),
		},
		`{"maxRunningPerGroup":1,"burst":2,"agingMs":60000,"backoff":null,"retainCount":3,"retainDeadMs":1000,"retainDeadCount":9,"maxJobs":4,"maxBytes":5,"maxPayload":null}`: {
			MaxRunningPerGroup: SetTo(int64(1)), Burst: SetTo(int64(2)), Aging: SetTo(time.Minute), Backoff: Default[Backoff](), RetainCount: SetTo(int64(3)),
			RetainDeadFor: SetTo(time.Second), RetainDeadCount: SetTo(int64(9)),
			MaxJobs: SetTo(int64(4)), MaxBytes: SetTo(int64(5)), MaxPayload: Default[int64](),
		},
	}
	for want, patch := range cases {
		if got, err := encode(&patch); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		var back QueuePatch
		if err := json.Unmarshal([]byte(want), &back); err != nil || back != patch {
			t.Errorf("%s is read as %+v, %v", want, back, err)
		}
	}
	// What is on the wire and cannot be set from here has been forgotten.
	names := func(of reflect.Type) (list []string) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			list = append(list, name)
		}
		slices.Sort(list)
		return list
	}
	if got, want := names(reflect.TypeFor[QueuePatch]()), names(reflect.TypeFor[v1.QueueSettings]()); !slices.Equal(got, want) {
		t.Errorf("QueuePatch has %v, want %v", got, want)
	}
}

func TestCronsOnTheWire(t *testing.T) {
	c, cl := newPair(t)
	c.script("PUT /v1/crons/c", `{"nextAt":5,"lsn":"1-1"}`)
	put, err := cl.PutCron(bounded(t), "c", NewCron{
		Spec: "@daily", TimeZone: "Europe/Berlin", Overlap: v1.OverlapSkip, Missed: v1.MissedAll, Paused: true,
		Start: time.UnixMilli(7), End: time.UnixMilli(9), Jitter: time.Second, MaxFires: 3,
		Job: NewJob{Type: "t", Payload: json.RawMessage(`{ "a" : 1 }`)},
	})
	want := `{"spec":"@daily","timeZone":"Europe/Berlin","overlap":"skip","missed":"all","paused":true,"maxFires":3,"startAt":7,"endAt":9,"jitterMs":1000,"job":{"type":"t","payload":{ "a" : 1 }}}`
	if err != nil || put.NextAt != 5 || c.body("PUT /v1/crons/c") != want {
		t.Errorf("%+v, %v, %s", put, err, c.body("PUT /v1/crons/c"))
	}
	for _, bad := range []NewJob{{ID: "j"}, {RunAt: time.Now()}, {After: []string{"j"}}, {BatchID: "b"}} {
		if _, err := cl.PutCron(bounded(t), "c", NewCron{Spec: "@daily", Job: bad}); !errors.Is(err, errCronJob) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	c.script("POST /v1/crons/c/trigger", `{"jobId":"j","lsn":"1-1"}`)
	if got, err := cl.TriggerCron(bounded(t), "c"); err != nil || got.JobID != "j" || got.Holder != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBatchesOnTheWire(t *testing.T) {
	c, cl := newPair(t)
	c.script("POST /v1/batches", `{"batchId":"b","callbackId":"done","jobIds":["x"],"lsn":"1-1"}`)
	got, err := cl.CreateBatch(bounded(t), NewBatch{
		ID: "b", Jobs: []NewJob{{ID: "x", Type: "t"}}, Callback: &NewJob{ID: "done"}, CallbackOn: v1.CallbackCompleted,
	})
	want := `{"id":"b","callbackOn":"completed","jobs":[{"id":"x","type":"t"}],"callback":{"id":"done"}}`
	if err != nil || got.CallbackID != "done" || c.body("POST /v1/batches") != want {
		t.Errorf("%+v, %v, %s", got, err, c.body("POST /v1/batches"))
	}
	if _, err := cl.CreateBatch(bounded(t), NewBatch{Jobs: make([]NewJob, MaxBatchJobs+1)}); failed(t, err).Status != 0 {
		t.Errorf("too many jobs: %v", err)
	}
}

func TestProgressAndCancellation(t *testing.T) {
	c, cl := newPair(t)
	c.script("POST /v1/jobs/heartbeat", `{"results":[{"jobId":"j","status":"ok","cancel":true}],"lsn":"1-2"}`)
	beats, err := cl.Heartbeat(bounded(t), "w", []Lease{{JobID: "j", Token: 7, Progress: &Progress{Percent: 60, Message: "half"}}})
	want := `{"workerId":"w","jobs":[{"jobId":"j","token":7,"progress":{"percent":60,"message":"half"}}]}`
	if err != nil || !slices.Equal(beats, []Beat{{JobID: "j", Cancel: true}}) || c.body("POST /v1/jobs/heartbeat") != want {
		t.Errorf("%+v, %v, %s", beats, err, c.body("POST /v1/jobs/heartbeat"))
	}
	c.script("POST /v1/jobs/fail", `{"results":[{"jobId":"j","status":"ok"},{"jobId":"k","status":"timed_out"}],"lsn":"1-2"}`)
	beats, err = cl.FailBatch(bounded(t), "w", []FailedJob{
		{Lease{JobID: "j", Token: 7}, Failure{Error: "x", AtOnce: true}},
		{Lease{JobID: "k", Token: 8}, Failure{Permanent: true}},
	})
	want = `{"workerId":"w","jobs":[{"jobId":"j","token":7,"error":"x","delayMs":0},{"jobId":"k","token":8,"retryable":false}]}`
	if err != nil || !slices.Equal(beats, []Beat{{JobID: "j"}, {JobID: "k", Tag: v1.TagTimedOut}}) || c.body("POST /v1/jobs/fail") != want {
		t.Errorf("%+v, %v, %s", beats, err, c.body("POST /v1/jobs/fail"))
	}
	if !LostLease(v1.TagTimedOut) {
		t.Error("an attempt that has timed out goes on")
	}
}

// A quota that is used up is an answer: the caller decides what follows.
func TestQuotasAreNotWaitedFor(t *testing.T) {
	for tag, status := range map[string]int{
		v1.TagTooManyJobs: 429, v1.TagTooManyBytes: 507, v1.TagTooManyQueues: 507, v1.TagTooManyCrons: 507, v1.TagPayloadTooLarge: 413,
		v1.TagTooManyTokenJobs: 429, v1.TagTooManyTokenBytes: 429,
	} {
		c, cl := newPair(t)
		c.faultFor(v1.PathJobs, -1, refusing(status, tag, v1.CommittedNo, 0))
		_, err := cl.Enqueue(bounded(t), NewJob{})
		if e := failed(t, err); !e.Refused() || len(c.requests()) != 1 || IsOverQuota(err) != (status != 413) {
			t.Errorf("%s: %+v after %d requests", tag, e, len(c.requests()))
		}
	}
}

func TestNewReads(t *testing.T) {
	c, cl := newPair(t)
	ctx := bounded(t)
	c.answers["/v1/queues"] = `{"queues":[{"type":"a"}],"nextCursor":"x"}`
	c.answers["/v1/queues?cursor=x"] = `{"queues":[{"type":"b"}]}`
	c.answers["/v1/queues/a"] = `{"type":"a","blocked":2,"settings":{"maxRunning":3}}`
	c.answers["/v1/crons"] = `{"crons":[{"name":"c","spec":"@daily"}]}`
	c.answers["/v1/crons/c"] = `{"name":"c","spec":"@daily","fired":4}`
	c.answers["/v1/batches"] = `{"batches":[{"id":"b","total":2}]}`
	c.answers["/v1/batches/b"] = `{"id":"b","total":2,"pending":1}`
	c.answers["/v1/workers"] = `{"workers":[{"name":"v"}],"nextCursor":"v"}`
	c.answers["/v1/workers?cursor=v"] = `{"workers":[{"name":"w"}]}`
	c.answers["/v1/workers/w"] = `{"name":"w","jobIds":["j"]}`
	c.answers["/v1/queues?sort=oldestAt"] = `{"queues":[{"type":"z"}],"nextCursor":"y"}`
	c.answers["/v1/queues?cursor=y&sort=oldestAt"] = `{"queues":[{"type":"a"}]}`
	if list, err := collect(cl.Queues(ctx, v1.SortOldestAt)); err != nil || len(list) != 2 || list[0].Type != "z" {
		t.Errorf("%+v, %v", list, err)
	}
	types := ""
	for q, err := range cl.Queues(ctx, "") {
		check(t, err)
		types += q.Type
	}
	if q, err := cl.Queue(ctx, "a"); types != "ab" || err != nil || q.Blocked != 2 || q.Settings.MaxRunning != 3 {
		t.Errorf("%s, %+v, %v", types, q, err)
	}
	c.answers["/v1/queues/~"] = `{"type":"","blocked":1}`
	if q, err := cl.Queue(ctx, ""); err != nil || q.Blocked != 1 {
		t.Errorf("without type: %+v, %v", q, err)
	}
	crons, err := collect(cl.Crons(ctx))
	if cron, err2 := cl.Cron(ctx, "c"); errors.Join(err, err2) != nil || len(crons) != 1 || crons[0].Spec != "@daily" || cron.Fired != 4 {
		t.Errorf("%+v, %+v, %v, %v", crons, cron, err, err2)
	}
	batches, err := collect(cl.Batches(ctx))
	if b, err2 := cl.Batch(ctx, "b"); errors.Join(err, err2) != nil || len(batches) != 1 || batches[0].Total != 2 || b.Pending != 1 {
		t.Errorf("%+v, %+v, %v, %v", batches, b, err, err2)
	}
	workers, err := cl.Workers(ctx)
	if w, err2 := cl.Worker(ctx, "w"); errors.Join(err, err2) != nil || len(workers) != 2 || !slices.Equal(w.JobIDs, []string{"j"}) {
		t.Errorf("%+v, %+v, %v, %v", workers, w, err, err2)
	}
}

// The client stops reading a list whose cursor does not advance.
func TestCursorThatStandsStill(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/crons"] = `{"crons":[{"name":"c"}],"nextCursor":"x"}`
	if _, err := collect(cl.Crons(bounded(t))); !errors.Is(err, errCursor) {
		t.Errorf("got %v", err)
	}
}

func TestListFilters(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/jobs?batch=b&createdBefore=9&createdFrom=5&cron=c&group=g&tag=x&type=t&worker=w"] = `{"jobs":[{"id":"1"}]}`
	jobs, err := collect(cl.Jobs(bounded(t), ListOptions{
		Type: "t", Tag: "x", Group: "g", Worker: "w", BatchID: "b", Cron: "c",
		CreatedFrom: time.UnixMilli(5), CreatedBefore: time.UnixMilli(9),
	}))
	if err != nil || len(jobs) != 1 {
		t.Errorf("%+v, %v, %v", jobs, err, c.requests())
	}
}
