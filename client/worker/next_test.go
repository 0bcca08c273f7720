package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// fakeTogether is a fakeQueue that completes and claims in one call.
type fakeTogether struct {
	*fakeQueue
	old bool // it refuses such calls
}

func (q fakeTogether) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	if q.old {
		_, _ = q.enter("together")
		return nil, nil, &client.Error{Op: "test", Status: http.StatusBadRequest, Tag: v1.TagUnknownMember, Committed: client.CommittedNo}
	}
	before, after := q.enter("together")
	if before != nil {
		return nil, nil, before
	}
	beats, err := q.CompleteBatch(ctx, next.Worker, jobs)
	if err != nil {
		return nil, nil, err
	}
	claimed, _ := q.take(next)
	if after != nil {
		return nil, nil, after
	}
	return beats, claimed, nil
}

// drain runs a worker until all jobs are completed.
func drain(t *testing.T, q Queue, fake *fakeQueue, concurrency int) {
	t.Helper()
	w, err := New(q, Config{Name: "w", Concurrency: concurrency, PollWait: 50 * time.Millisecond})
	check(t, err)
	w.Handle("t", func(context.Context, Job) (json.RawMessage, error) { return nil, nil })
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for fake.unfinished() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	for _, j := range fake.jobs {
		if j.status != "completed" || j.accepted != 1 || j.attempts != 1 {
			t.Errorf("job %s is %s after %d attempts, completed %d times", j.id, j.status, j.attempts, j.accepted)
		}
	}
}

func (q *fakeQueue) unfinished() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.status != "completed" {
			n++
		}
	}
	return n
}

func TestAWorkerClaimsWithItsReports(t *testing.T) {
	const jobs = 60
	for _, slots := range []int{1, 8} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			q := fakeTogether{fakeQueue: newFake(time.Minute)}
			q.add("t", jobs)
			drain(t, q, q.fakeQueue, slots)
			if together, alone := q.calls["together"], q.calls["claim"]; together == 0 || alone > together+5 {
				t.Fatalf("%d claims with reports, %d alone", together, alone)
			}
		})
	}
}

// An answer that is lost costs no job: the report is repeated, and the claim by itself.
func TestLostAnswersToReportsThatClaim(t *testing.T) {
	q := fakeTogether{fakeQueue: newFake(time.Minute)}
	n := 0
	q.fault = func(op string) (before, after error) {
		if op != "together" {
			return nil, nil
		}
		switch n++; n % 4 {
		case 1:
			return nil, lostAnswer()
		case 3:
			return unreachable(), nil
		}
		return nil, nil
	}
	q.add("t", 12)
	drain(t, q, q.fakeQueue, 3)
}
