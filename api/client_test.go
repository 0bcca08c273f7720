package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// newClient returns the SDK before the server of g.
func newClient(t *testing.T, g *rig) *client.Client {
	t.Helper()
	srv := httptest.NewServer(g.s)
	c, err := client.New(client.Config{Servers: []string{srv.Listener.Addr().String()}, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// must is for calls that must succeed.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The SDK sends everything strictly, so this holds its requests, and its
// reading of answers, against the server: once at the leader, once through a
// follower.
func TestTheClientUnderstands(t *testing.T) {
	p := newPair(t)
	t.Run("leader", func(t *testing.T) { converse(t, newClient(t, newRig(t))) })
	t.Run("follower", func(t *testing.T) { converse(t, newClient(t, p.follower)) })
}

func converse(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	limit := int32(2)
	in := client.NewJob{ID: "a/1", Type: "t", Payload: []byte(`{ "x": 1.0 }`), Priority: 3, MaxAttempts: &limit, Lease: time.Minute}
	if out := must[client.Enqueued](t)(c.Enqueue(ctx, in)); out.JobID != "a/1" || out.LSN == "" || out.Duplicate {
		t.Fatalf("enqueued %+v", out)
	}
	if out := must[client.Enqueued](t)(c.Enqueue(ctx, in)); !out.Duplicate {
		t.Fatalf("enqueued again %+v", out)
	}
	batch := must[client.BatchEnqueued](t)(c.EnqueueBatch(ctx, []client.NewJob{{ID: "b", Type: "t"}, in, {ID: "c", Delay: time.Hour}}))
	if fmt.Sprint(batch.JobIDs, batch.Duplicates) != "[b a/1 c] [a/1]" {
		t.Fatalf("enqueued %+v", batch)
	}
	if err := c.RegisterWorker(ctx, client.WorkerInfo{Name: "w/1", Types: []string{"t"}, Version: "1"}); err != nil {
		t.Fatal(err)
	}
	workOff(ctx, t, c)
	look(ctx, t, c)
	if err := c.RemoveWorker(ctx, "w/1"); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveWorker(ctx, "w/1"); !client.IsNotFound(err) {
		t.Fatalf("removed again: %v", err)
	}
}

// workOff claims and reports in every way.
func workOff(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	claim := client.ClaimOptions{Worker: "w/1", Types: []string{"t"}, Max: 5, RequestID: "r"}
	jobs := must[[]client.ClaimedJob](t)(c.Claim(ctx, claim))
	if len(jobs) != 2 || jobs[0].ID != "a/1" || string(jobs[0].Payload) != `{ "x": 1.0 }` || jobs[0].Length != time.Minute || jobs[1].ID != "b" {
		t.Fatalf("claimed %+v", jobs)
	}
	if again := must[[]client.ClaimedJob](t)(c.Claim(ctx, claim)); len(again) != 2 || again[0].Token != jobs[0].Token {
		t.Fatalf("claimed again %+v", again)
	}
	a, b := jobs[0].Lease(), jobs[1].Lease()
	lost := b
	lost.Token--
	if out := must[[]client.Beat](t)(c.Heartbeat(ctx, "w/1", []client.Lease{a, lost})); out[0].Tag != "" || out[1].Tag != v1.TagStaleToken {
		t.Fatalf("beats %+v", out)
	}
	for _, err := range []error{c.Release(ctx, a), c.Release(ctx, a)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Complete(ctx, a, nil); !client.IsLeaseLost(err) {
		t.Fatalf("completed after its release: %v", err)
	}
	a = must[[]client.ClaimedJob](t)(c.Claim(ctx, client.ClaimOptions{Worker: "w/1"}))[0].Lease()
	if err := c.Fail(ctx, a, client.Failure{Error: "no", Permanent: true}); err != nil {
		t.Fatal(err)
	}
	done := []client.Completion{{Lease: b, Result: []byte(`[1]`)}, {Lease: lost}}
	if out := must[[]client.Beat](t)(c.CompleteBatch(ctx, "w/1", done)); out[0].Tag != "" || out[1].Tag != v1.TagStaleToken {
		t.Fatalf("completed %+v", out)
	}
	if err := c.Complete(ctx, b, []byte(`[1]`)); err != nil {
		t.Fatalf("completed again: %v", err)
	}
	wait := client.ClaimOptions{Worker: "w/1", Wait: 20 * time.Millisecond}
	if jobs := must[[]client.ClaimedJob](t)(c.Claim(ctx, wait)); len(jobs) != 0 {
		t.Fatalf("claimed %+v", jobs)
	}
}

// look reads in every way.
func look(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	if j := must[v1.Job](t)(c.Job(ctx, "a/1")); j.Status != v1.StatusDead || j.LastError != "no" || *j.WorkerID != "w/1" {
		t.Fatalf("job %+v", j)
	}
	if _, err := c.Job(ctx, "nope"); !client.IsNotFound(err) {
		t.Fatalf("job: %v", err)
	}
	var seen []string
	for j, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, j.ID+" "+j.Status)
	}
	if fmt.Sprint(seen) != "[a/1 dead b completed c scheduled]" {
		t.Fatalf("listed %v", seen)
	}
	if s := must[v1.Stats](t)(c.StatsByType(ctx)); s.CompletedTotal != 1 || s.DeadTotal != 1 || s.Workers != 1 || s.Types["t"].Dead != 1 {
		t.Fatalf("stats %+v", s)
	}
	if ws := must[[]v1.Worker](t)(c.Workers(ctx)); len(ws) != 1 || ws[0].Name != "w/1" {
		t.Fatalf("workers %+v", ws)
	}
	if s := must[v1.Status](t)(c.Status(ctx)); s.NodeID != "n1" || s.State != v1.StateLeader {
		t.Fatalf("status %+v", s)
	}
	if _, err := c.State(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(ctx, c.Servers()[0]); err != nil {
		t.Fatal(err)
	}
}
