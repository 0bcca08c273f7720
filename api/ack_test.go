package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// committed checks that the answer to a write has the given level.
func committed(t testing.TB, a answer, level string) {
	t.Helper()
	if a.status != http.StatusOK && a.status != http.StatusNoContent {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	if got := a.header.Get(v1.HeaderCommitted); got != level || a.header.Get(v1.HeaderLSN) == "" {
		t.Errorf("answered %s: committed %q at %q, want %q", a.body, got, a.header.Get(v1.HeaderLSN), level)
	}
}

// sendAcked sends a write of keyedWrites that is to be in the bucket.
func (g *rig) sendAcked(ctx context.Context, route, query string) <-chan answer {
	g.t.Helper()
	w := keyedWrites[route]
	method, _, _ := strings.Cut(route, " ")
	body := strings.ReplaceAll(w.body, "TOKEN", fmt.Sprint(1<<32+2))
	r := request(method, w.path+"?"+query, body, "Prefer", v1.PreferStrict).WithContext(ctx)
	out := make(chan answer, 1)
	go func() { out <- g.send(r) }()
	return out
}

// Every write says how safe it is, and waits for the bucket when asked to.
func TestEveryWriteKnowsAcks(t *testing.T) {
	for name := range keyedWrites {
		t.Run(name, func(t *testing.T) {
			g := newKeyedRig(t)
			committed(t, g.sendKeyed(name, "k"), v1.AckQuorum)
			g = newKeyedRig(t)
			waiting := g.sendAcked(t.Context(), name, "ack=object&ackWaitMs=60000")
			eventually(t, "the write waits for the bucket", g.flushing(1))
			select {
			case a := <-waiting:
				t.Fatalf("answered %d %s before the flush", a.status, a.body)
			default:
			}
			g.node.flush()
			committed(t, <-waiting, v1.AckObject)
		})
	}
}

// A wait that ends in vain returns the same answer; only the header for durability differs.
func TestObjectAcksInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quorum, object := newRig(t), newRig(t, func(c *core.Config) { c.Ack, c.Timeouts.Object = v1.AckObject, 20*time.Second })
		for _, tc := range []struct {
			g      *rig
			query  string
			prefer string
			took   time.Duration
		}{
			{quorum, "", "", 0},
			{quorum, "", "wait=7", 0},
			{quorum, "?ack=quorum&ackWaitMs=50", "", 0},
			{quorum, "?ackWaitMs=50", "", 0},
			{quorum, "?ack=object", "", 10 * time.Second},
			{quorum, "?ack=object&ackWaitMs=50", "wait=7", 50 * time.Millisecond},
			{quorum, "?ack=object&ackWaitMs=0", "", 0},
			{quorum, "?ack=object&ackWaitMs=999999999", "", time.Minute},
			{quorum, "?ack=object", "handling=strict, wait=7", 7 * time.Second},
			{quorum, "?ack=object", `wait="0"; x=y`, 0},
			{quorum, "?ack=object", "wait=4000000000", 10 * time.Second},
			{quorum, "?ack=object", "wait=100", time.Minute},
			{quorum, "?ack=object", "wait=soon", 10 * time.Second},
			{object, "", "", 20 * time.Second},
			{object, "", "wait=4", 4 * time.Second},
			{object, "?ackWaitMs=50", "", 50 * time.Millisecond},
			{object, "?ack=quorum", "", 0},
		} {
			start := time.Now()
			a := tc.g.do("POST", "/v1/jobs"+tc.query, `{}`, "Prefer", tc.prefer)
			ok[v1.Enqueued](t, a)
			committed(t, a, v1.AckQuorum)
			if took := time.Since(start); took != tc.took {
				t.Errorf("%s, Prefer %q: it took %s, want %s", tc.query, tc.prefer, took, tc.took)
			}
		}
		count := string(object.do("GET", "/metrics", "").body)
		if !strings.Contains(count, `osqueue_object_acks_total{committed="quorum"} 3`) {
			t.Error(count)
		}
	})
}

// A client that goes away takes its wait along.
func TestObjectAckEndsWithItsConnection(t *testing.T) {
	s := newServed(t)
	conn := s.dial()
	post(conn, "/v1/jobs?ack=object&ackWaitMs=60000", `{"id":"a"}`)
	eventually(t, "the write waits for the bucket", s.flushing(1))
	_ = conn.Close()
	eventually(t, "the wait has ended", s.flushing(0))
	if s.node.Job("a") == nil {
		t.Error("the write did not take place")
	}
}

// The wait outlives the timeout of the answer.
func TestObjectAckOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	s := newServed(t, func(c *core.Config) { c.Timeouts.Body, c.Timeouts.Answer = time.Second, time.Second })
	conn := s.dial()
	post(conn, "/v1/jobs?ack=object&ackWaitMs=1200", `{"id":"a"}`)
	committed(t, s.read(conn), v1.AckQuorum)
}
