package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// clientQueue makes completions the way a real client does, and then those of the
// fake.
type clientQueue struct {
	*fakeQueue
	client *client.Client
}

func (q clientQueue) CompleteBatch(ctx context.Context, worker string, jobs []client.Completion) ([]client.Beat, error) {
	if _, err := q.client.CompleteBatch(ctx, worker, jobs); err != nil {
		return nil, err
	}
	return q.fakeQueue.CompleteBatch(ctx, worker, jobs)
}

func (q clientQueue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, err := q.CompleteBatch(ctx, next.Worker, jobs)
	return beats, nil, err
}

// accepting answers every completion with yes, and says nothing of itself.
type accepting struct{}

func (accepting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return nil, errors.New("no answer")
	}
	defer r.Body.Close()
	var in v1.CompleteBatch
	if err := jsonv2.UnmarshalRead(r.Body, &in); err != nil {
		return nil, err
	}
	out := v1.ReportedBatch{Results: make([]v1.ReportedItem, len(in.Jobs))}
	for i, j := range in.Jobs {
		out.Results[i] = v1.ReportedItem{JobID: j.JobID, Status: v1.ItemOK}
	}
	body, err := jsonv2.Marshal(out)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

// A result that is JSON, but lies too deep for a request around it, cannot even be
// sent. It fails its own job, and holds up no other.
func TestAResultThatCannotBeSentFailsItsOwnJob(t *testing.T) {
	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:1"}, Transport: accepting{}})
	check(t, err)
	defer c.Close()
	q := newFake(30 * time.Second)
	q.add("deep", 1)
	q.add("plain", 20)
	b := newBench(t, q, Config{Concurrency: 21})
	b.worker.queue = clientQueue{q, c}
	b.worker.Handle("plain", takes(time.Millisecond))
	b.worker.Handle("deep", func(context.Context, Job) (json.RawMessage, error) {
		return json.RawMessage(strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999)), nil
	})
	b.start()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); sleep.For(t.Context(), time.Millisecond) {
		if q.count("completed")+q.count("dead") == 21 {
			break
		}
	}
	b.stop()
	if n := q.count("completed"); n != 20 {
		t.Errorf("%d of 20 others are completed", n)
	}
	if j := q.job(1); j.status != "dead" || !j.failure.Permanent || j.attempts != 1 {
		t.Errorf("%s after %d attempts: %.100s", j.status, j.attempts, j.failure.Error)
	}
	if !t.Failed() {
		b.mustFinish()
	}
}

// strayed answers the first completions as a proxy does in front of the nodes, or as a node does that cannot check
// the token.
type strayed struct {
	accepting
	status int
	body   string
	left   atomic.Int32
}

func (s *strayed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || s.left.Add(-1) < 0 {
		return s.accepting.RoundTrip(r)
	}
	defer r.Body.Close()
	return &http.Response{
		StatusCode: s.status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

// runStrayed runs one job of a worker whose reports s carries, until they have ended.
func runStrayed(t *testing.T, s *strayed, lease time.Duration) (fakeJob, []Finished) {
	t.Helper()
	c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:1"}, Transport: s, RetryFor: -1})
	check(t, err)
	defer c.Close()
	q := newFake(lease)
	q.add("a", 1)
	ended := make(chan Finished, 8)
	b := newBench(t, q, Config{Concurrency: 1})
	b.worker.cfg.Finished = func(f Finished) { ended <- f }
	b.worker.queue = clientQueue{q, c}
	b.worker.Handle("a", func(_ context.Context, job Job) (json.RawMessage, error) {
		job.Log("done")
		return json.RawMessage("1"), nil
	})
	b.start()
	var all []Finished
	select {
	case f := <-ended:
		all = append(all, f)
	case <-time.After(20 * time.Second):
		t.Error("the report does not end")
	}
	b.stop()
	<-b.ended
	return q.job(1), all
}

// An answer that does not come from a node refuses no result, whatever its status; and a token that a node does not
// accept for a moment makes no success a failure.
func TestAStrayAnswerCostsNoResult(t *testing.T) {
	t.Parallel()
	const denied = `{"_tag":"unauthorized","title":"A valid token is needed"}`
	for _, status := range []int{400, 401, 403, 404, 405, 413, 421, 429, 451, 501, 502} {
		body := []string{"<html>nothing here</html>"}
		if status == 401 || status == 403 {
			body = append(body, denied)
		}
		for _, body := range body {
			t.Run(fmt.Sprint(status, body), func(t *testing.T) {
				t.Parallel()
				s := &strayed{status: status, body: body}
				s.left.Store(2)
				if j, _ := runStrayed(t, s, 30*time.Second); j.status != "completed" || j.result != "1" {
					t.Errorf("%s: %s", j.status, j.failure.Error)
				}
			})
		}
	}
}

// A success that nodes deny for longer than the lease stays unreported: the next attempt decides.
func TestADeniedResultIsNoFailure(t *testing.T) {
	s := &strayed{status: 403, body: `{"_tag":"forbidden","title":"The token may not do this"}`}
	s.left.Store(1 << 30)
	j, ended := runStrayed(t, s, time.Second)
	if j.failure.Error != "" || len(ended) != 1 || ended[0].Outcome != Unreported {
		t.Errorf("%s: %s, %+v", j.status, j.failure.Error, ended)
	}
}
