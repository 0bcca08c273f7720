package client

import (
	"errors"
	"testing"

	v1 "osqueue/client/api/v1"
)

// A write that is answered with success, but with a wrong number of results, may
// have taken place.
func TestAnswersOfTheWrongLength(t *testing.T) {
	c := newCluster(t)
	cl := c.client(nil)
	ctx := bounded(t)
	c.answers[v1.PathJobsBatch] = `{"jobIds":["a"],"lsn":"1-1"}`
	for _, action := range []string{"cancel", "retry", "delete"} {
		c.script("POST /v1/jobs/"+action, `{"count":1,"nextCursor":"x","lsn":"1-1","results":[{"jobId":"a","status":"ok"}]}`)
	}
	jobs, ids := []NewJob{{ID: "a"}, {ID: "b"}}, []string{"a", "b"}
	watch := &Watch{c: cl, jobs: map[string]*watched{}}
	for name, call := range map[string]func() error{
		"enqueue batch":     func() error { _, err := cl.EnqueueBatch(ctx, jobs); return err },
		"watch's enqueue":   func() error { _, err := watch.Enqueue(ctx, jobs); return err },
		"cancel many":       func() error { _, err := cl.CancelMany(ctx, ids); return err },
		"retry many":        func() error { _, err := cl.RetryMany(ctx, ids); return err },
		"delete many":       func() error { _, err := cl.DeleteMany(ctx, ids); return err },
		"the cursor stands": func() error { _, err := cl.DeleteWhere(ctx, Filter{All: true}); return err },
	} {
		var e *Error
		if err := call(); !errors.As(err, &e) || e.Committed != CommittedUnknown || e.Invalid() || e.Refused() {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if len(watch.jobs) != 0 {
		t.Errorf("%d jobs are watched that nobody knows of", len(watch.jobs))
	}
}
