package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// finish claims and completes n jobs, one by one.
func (g *rig) finish(n int) {
	g.t.Helper()
	for range n {
		j := g.claim1()
		ok[v1.Reported](g.t, g.do("POST", "/v1/jobs/"+j.JobID+"/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	}
}

func TestBatch(t *testing.T) {
	g := newRig(t)
	a := g.do("POST", "/v1/batches", `{"jobs":[{"id":"a","type":"t"},{"after":["a"]}],"callback":{"type":"done","payload":7},"callbackOn":"completed"}`)
	out := ok[v1.BatchCreated](t, a)
	if len(out.BatchID) != 36 || len(out.CallbackID) != 36 || len(out.JobIDs) != 2 || out.JobIDs[0] != "a" ||
		out.LSN != a.header.Get(v1.HeaderLSN) || out.Duplicates != nil {
		t.Fatalf("got %s", a.body)
	}
	path := "/v1/batches/" + out.BatchID
	want := v1.BatchInfo{
		ID: out.BatchID, CreatedAt: startMs, Total: 2, Pending: 2, CallbackID: out.CallbackID, CallbackOn: v1.CallbackCompleted,
	}
	if got := ok[v1.BatchInfo](t, g.do("GET", path, "")); got != want {
		t.Fatalf("got %+v", got)
	}
	if j := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", "")); j.BatchID != out.BatchID {
		t.Fatalf("job %+v", j)
	}
	// An open batch takes more.
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"more","batchId":"`+out.BatchID+`"}`))
	g.node.tick(time.Second)
	g.finish(3)
	want.Total, want.Pending, want.Completed, want.EndedAt, want.Called = 3, 0, 3, startMs+1000, true
	if got := ok[v1.BatchInfo](t, g.do("GET", path, "")); got != want {
		t.Fatalf("got %+v", got)
	}
	if j := g.claim1(); j.JobID != out.CallbackID || j.Type != "done" || string(j.Payload) != "7" {
		t.Fatalf("claimed %+v", j)
	}
	refused(t, g.do("POST", "/v1/jobs", `{"batchId":"`+out.BatchID+`"}`), http.StatusConflict, v1.TagNoSuchBatch)
	p := refused(t, g.do("GET", "/v1/batches/nope", ""), http.StatusNotFound, v1.TagNotFound)
	if !strings.Contains(p.Title, "batch") || !strings.Contains(p.Detail, "batch") {
		t.Fatalf("problem %+v", p)
	}
}

// A batch that is sent again, because the answer was lost, is the same batch.
func TestBatchAgain(t *testing.T) {
	g := newRig(t)
	const body = `{"id":"b","jobs":[{"id":"a"},{"id":"c"}],"callback":{"type":"done"}}`
	first := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", body))
	again := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", body))
	if again.CallbackID != first.CallbackID || fmt.Sprint(again.Duplicates) != "[a c]" || again.BatchID != "b" {
		t.Fatalf("%+v, then %+v", first, again)
	}
	if info := ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/b", "")); info.Total != 2 {
		t.Fatalf("got %+v", info)
	}
	p := refused(t, g.do("POST", "/v1/batches", `{"id":"b","jobs":[{"id":"x"}],"callback":{"type":"other"}}`), http.StatusConflict, v1.TagIDTaken)
	if p.Index != nil || !strings.Contains(p.Detail, "another batch") {
		t.Fatalf("problem %+v", p)
	}
	p = refused(t, g.do("POST", "/v1/batches", `{"id":"n","jobs":[{"id":"x"},{"id":"a","type":"t"}]}`), http.StatusConflict, v1.TagIDTaken)
	if p.Index == nil || *p.Index != 1 || g.node.View().Batch("n") != nil {
		t.Fatalf("problem %+v", p)
	}
}

func TestEmptyBatch(t *testing.T) {
	g := newRig(t)
	a := g.do("POST", "/v1/batches", `{"id":"b"}`)
	sameJSON(t, a.body, `{"batchId":"b","jobIds":[],"lsn":"3-2"}`)
	if info := ok[v1.BatchInfo](t, g.do("GET", "/v1/batches/b", "")); info.EndedAt != 0 || info.CallbackOn != "" {
		t.Fatalf("got %+v", info)
	}
}

// With an idempotency key the same request gets the same answer, though the
// server has made all of its ids; and long after, a new batch.
func TestBatchWithKey(t *testing.T) {
	g := newRig(t)
	const body = `{"jobs":[{}],"callback":{"type":"done"}}`
	send := func() v1.BatchCreated {
		t.Helper()
		return ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", body, v1.HeaderIdempotencyKey, "k"))
	}
	first := send()
	if again := send(); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Fatalf("%+v, then %+v", first, again)
	}
	for n := range 3 {
		g.node.tick(25 * time.Hour)
		next := send()
		if next.BatchID == first.BatchID || next.CallbackID == first.CallbackID || next.JobIDs[0] == first.JobIDs[0] {
			t.Fatalf("day %d: %+v, then %+v", n, first, next)
		}
		if again := send(); fmt.Sprint(again) != fmt.Sprint(next) {
			t.Fatalf("day %d: %+v, then %+v", n, next, again)
		}
	}
	// What is not known any more is not said, rather than wrongly.
	short := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"s","jobs":[{}],"callback":{}}`, v1.HeaderIdempotencyKey, "s"))
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Epoch: 2, Settings: &fsmpb.Settings{LeaseMs: 1000, RetainCompletedMs: 1, RequestMs: 1 << 40, RequestCount: 9},
	}}})
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Ids: short.JobIDs}}})
	g.node.tick(time.Second)
	again := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"s","jobs":[{}],"callback":{}}`, v1.HeaderIdempotencyKey, "s"))
	if again.BatchID != "s" || again.CallbackID != "" || fmt.Sprint(again.JobIDs) != fmt.Sprint(short.JobIDs) {
		t.Fatalf("%+v, then %+v", short, again)
	}
	other := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", body, v1.HeaderIdempotencyKey, "other"))
	if other.BatchID == first.BatchID {
		t.Fatal("another key got the same id")
	}
}

func TestBatchCallbackMembers(t *testing.T) {
	g := newRig(t)
	for body, member := range map[string]string{
		`{"callback":{"batchId":"x"}}`:           "batchId",
		`{"callback":{"uniqueKey":"x"}}`:         "uniqueKey",
		`{"callback":{"after":["x"]}}`:           "after",
		`{"callback":{"afterFailure":"run"}}`:    "afterFailure",
		`{"callback":{"delayMs":5}}`:             "delayMs",
		`{"callback":{"priority":1,"id":"a b"}}`: "id",
	} {
		p := refused(t, g.do("POST", "/v1/batches", body), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.HasPrefix(p.Detail, "callback: "+member+" ") || fmt.Sprint(p.Members) != "[/callback/"+member+"]" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	out := ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"b","jobs":[{"batchId":"b"}],"callback":{"id":"done","runAt":1700000009000}}`))
	if out.CallbackID != "done" {
		t.Fatalf("got %+v", out)
	}
	g.finish(1)
	if j := g.node.Job("done"); j == nil || j.Status != fsm.Scheduled || j.RunAt != startMs+9000 {
		t.Fatalf("callback %+v", j)
	}
	p := refused(t, g.do("POST", "/v1/batches", `{"id":"c","jobs":[{},{"batchId":"b"}]}`), http.StatusBadRequest, v1.TagBadRequest)
	if p.Index == nil || *p.Index != 1 || fmt.Sprint(p.Members) != "[/jobs/1/batchId]" {
		t.Fatalf("problem %+v", p)
	}
}

func TestBatchList(t *testing.T) {
	g := newRig(t)
	if out := ok[v1.BatchList](t, g.do("GET", "/v1/batches", "")); out.Batches == nil || len(out.Batches) != 0 || out.LSN != "3-1" {
		t.Fatalf("got %+v", out)
	}
	for _, id := range []string{"b", "a", "d", "c", "e"} {
		ok[v1.BatchCreated](t, g.do("POST", "/v1/batches", `{"id":"`+id+`"}`))
	}
	var seen []string
	query, pages := "?limit=2", 0
	for ; pages < 9; pages++ {
		out := ok[v1.BatchList](t, g.do("GET", "/v1/batches"+query, ""))
		for _, b := range out.Batches {
			seen = append(seen, b.ID)
		}
		if out.NextCursor == "" {
			break
		}
		query = "?limit=2&cursor=" + out.NextCursor
	}
	if fmt.Sprint(seen) != "[a b c d e]" || pages != 2 {
		t.Fatalf("%d pages: %v", pages+1, seen)
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?cursor=x", "?cursor=" + "AQU"} {
		p := refused(t, g.do("GET", "/v1/batches"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.HasPrefix(p.Detail, query[1:6]) {
			t.Errorf("%s: %q", query, p.Detail)
		}
	}
}
