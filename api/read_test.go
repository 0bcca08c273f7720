package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"osqueue/api/core"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/past"
)

// fakePast returns an error for every state.
type fakePast struct{ err error }

func (f fakePast) At(context.Context, past.Target) (*past.State, error) { return nil, f.err }
func (f fakePast) Spans(context.Context) ([]past.Span, error)           { return nil, f.err }

// pastErrors are the errors of a rebuild and their answers.
var pastErrors = []struct {
	err    error
	status int
	tag    string
}{
	{past.ErrBusy, 503, v1.TagRebuilding},
	{fmt.Errorf("x: %w", past.ErrNotKept), 404, v1.TagNotKept},
	{past.ErrTooLarge, 507, v1.TagStateTooLarge},
	{past.ErrOff, 501, v1.TagPastOff},
	{errors.New("connection refused"), 502, v1.TagBucket},
}

// Each error of a rebuild has an answer that says what to do.
func TestPastErrors(t *testing.T) {
	t.Parallel()
	for _, c := range pastErrors {
		g := newRig(t, func(cfg *core.Config) { cfg.Past = fakePast{c.err} })
		refused(t, g.do("GET", "/v1/jobs?at=3-1", ""), c.status, c.tag)
		refused(t, g.do("GET", v1.PathPast, ""), c.status, c.tag)
	}
}

// The SDK reads an earlier state with the context of a moment, by LSN and by time.
func TestPastByTheClient(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","type":"mail"}`))
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"b","type":"mail","after":["a"]}`))
	lsn := g.node.View().LSN().String()
	g.flush()
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"c","type":"mail","after":["b"]}`))
	c := newClient(t, g)
	byLSN := must[client.Moment](t)(client.ParseLSN(" " + lsn))
	for _, m := range []client.Moment{byLSN, {Time: time.UnixMilli(startMs)}} {
		ctx := client.At(t.Context(), m)
		if graph := must[v1.Graph](t)(c.JobGraph(ctx, "b", 0)); len(graph.Jobs) != 2 {
			t.Errorf("at %s the graph has %+v, want a and b", m, graph.Jobs)
		}
		if n := must[uint64](t)(c.CountJobs(ctx, client.ListOptions{})); n != 2 {
			t.Errorf("at %s there are %d jobs, want 2", m, n)
		}
		if _, err := c.Job(ctx, "c"); !client.IsNotFound(err) {
			t.Errorf("at %s job c: %v, want that it is not found", m, err)
		}
		var refused *client.Error
		if _, err := c.Hooks(ctx); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
			t.Errorf("hooks at %s: %v, want a refusal, because hooks have no past", m, err)
		}
	}
	if graph := must[v1.Graph](t)(c.JobGraph(t.Context(), "b", 0)); len(graph.Jobs) != 3 {
		t.Errorf("now the graph has %+v, want a, b and c", graph.Jobs)
	}
	for _, bad := range []string{"", "x", "1", "0-0", "1-2-3", "-1-2"} {
		if m, err := client.ParseLSN(bad); err == nil {
			t.Errorf("%q is the LSN %s", bad, m)
		}
	}
}
