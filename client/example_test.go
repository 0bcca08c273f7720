package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// exampleClient returns a client of the nodes that OSQUEUE_EXAMPLE_SERVERS names. A program
// writes the nodes of its cluster in their place.
func exampleClient() (ctx context.Context, c *client.Client, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c, err := client.New(client.Config{Servers: strings.Split(os.Getenv("OSQUEUE_EXAMPLE_SERVERS"), ",")})
	check(err)
	return ctx, c, func() {
		cancel()
		c.Close()
	}
}

// check keeps the examples short. A program does better than that.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// completeOne does the work of a worker: package worker has a real one.
func completeOne(ctx context.Context, c *client.Client, jobType, result string) {
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{jobType}, Wait: 10 * time.Second})
	check(err)
	for _, job := range jobs {
		err := c.Complete(ctx, job.Lease(), json.RawMessage(result))
		if ctx.Err() == nil { // who waits for the job may be faster than this answer
			check(err)
		}
	}
}

// Enqueue a job and wait for its result; tell a job that is surely not there
// from one that may be.
func Example() {
	ctx, c, stop := exampleClient()
	defer stop()
	job := client.NewJob{ID: client.NewID(), Type: "wc", Payload: json.RawMessage(`"three little words"`)}
	got, err := c.Enqueue(ctx, job)
	var failed *client.Error
	if errors.As(err, &failed) && failed.Committed == client.CommittedUnknown {
		fmt.Println("enqueue the same job again later; its id makes that safe")
		return
	}
	check(err)
	go completeOne(ctx, c, "wc", "3")
	done, err := c.WaitJob(ctx, got.JobID, time.Minute)
	fmt.Println(done.Status, string(done.Result), err)
	// Output: completed 3 <nil>
}

// A second job with the same unique key is not added; the answer names the one
// that holds the key.
func ExampleClient_Enqueue_unique() {
	ctx, c, stop := exampleClient()
	defer stop()
	first, err := c.Enqueue(ctx, client.NewJob{ID: "first", Type: "report", Unique: client.Unique{Key: "monday"}})
	check(err)
	second, err := c.Enqueue(ctx, client.NewJob{ID: "second", Type: "report", Unique: client.Unique{Key: "monday"}})
	check(err)
	fmt.Println(first.JobID, first.Duplicate)
	fmt.Println(second.JobID, second.Duplicate, second.Holder)
	// Output:
	// first false
	// first true first
}

// How a job is tried again, how long it may run, whom it belongs to.
func ExampleClient_Enqueue_options() {
	ctx, c, stop := exampleClient()
	defer stop()
	attempts := int32(5)
	_, err := c.Enqueue(ctx, client.NewJob{
		ID: "j", Type: "mail", Priority: 10, Delay: time.Hour, MaxAttempts: &attempts,
		Backoff: &client.Backoff{Kind: v1.BackoffExponential, Base: time.Second, Cap: time.Minute, Jitter: 20},
		Timeout: 30 * time.Second, Group: "customer-7", Tags: []string{"newsletter"},
	})
	check(err)
	job, err := c.Job(ctx, "j")
	check(err)
	fmt.Println(job.Status, job.Priority, job.MaxAttempts, job.Backoff.Kind, job.TimeoutMs, job.Group, job.Tags)
	// Output: scheduled 10 5 exponential 30000 customer-7 [newsletter]
}

// A job that waits for two others. All three are added, or none.
func ExampleClient_EnqueueBatch() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.EnqueueBatch(ctx, []client.NewJob{
		{ID: "left", Type: "half"},
		{ID: "right", Type: "half"},
		{ID: "join", Type: "whole", After: []string{"left", "right"}, AfterFailure: v1.AfterCancel},
	})
	check(err)
	for range 2 {
		job, err := c.Job(ctx, "join")
		check(err)
		fmt.Println(job.Status, job.WaitsFor)
		completeOne(ctx, c, "half", "1")
	}
	job, err := c.Job(ctx, "join")
	check(err)
	fmt.Println(job.Status)
	// Output:
	// blocked [left right]
	// blocked [right]
	// unclaimed
}

// When all jobs of a batch have ended, its callback is enqueued.
func ExampleClient_CreateBatch() {
	ctx, c, stop := exampleClient()
	defer stop()
	made, err := c.CreateBatch(ctx, client.NewBatch{
		ID:       "import",
		Jobs:     []client.NewJob{{Type: "row"}, {Type: "row"}},
		Callback: &client.NewJob{ID: "import-done", Type: "notify"},
	})
	check(err)
	completeOne(ctx, c, "row", "1")
	half, err := c.Batch(ctx, made.BatchID)
	check(err)
	completeOne(ctx, c, "row", "2")
	whole, err := c.Batch(ctx, made.BatchID)
	check(err)
	callback, err := c.Job(ctx, made.CallbackID)
	check(err)
	fmt.Println(half.Completed, "of", half.Total, half.Called)
	fmt.Println(whole.Completed, "of", whole.Total, whole.Called)
	fmt.Println(callback.ID, callback.Status)
	for b, err := range c.Batches(ctx) {
		check(err)
		fmt.Println(b.ID, "pending", b.Pending)
	}
	// Output:
	// 1 of 2 false
	// 2 of 2 true
	// import-done unclaimed
	// import pending 0
}

// With an idempotency key, a write takes effect once, also if a restarted process
// repeats it.
func ExampleWithIdempotencyKey() {
	ctx, c, stop := exampleClient()
	defer stop()
	order := client.WithIdempotencyKey(ctx, "order-1842")
	first, err := c.Enqueue(order, client.NewJob{Type: "invoice"})
	check(err)
	again, err := c.Enqueue(order, client.NewJob{Type: "invoice"})
	check(err)
	_, err = c.Enqueue(order, client.NewJob{Type: "reminder"})
	fmt.Println(first.JobID == again.JobID, client.HasTag(err, v1.TagRequestConflict))
	// Output: true true
}

// Jobs requests a page of the list when the loop needs it.
func ExampleClient_Jobs() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.EnqueueBatch(ctx, []client.NewJob{
		{ID: "a", Type: "mail", Tags: []string{"urgent"}},
		{ID: "b", Type: "mail"},
		{ID: "c", Type: "fax", Tags: []string{"urgent"}},
	})
	check(err)
	for job, err := range c.Jobs(ctx, client.ListOptions{Tag: "urgent", PageSize: 1}) {
		check(err)
		fmt.Println(job.ID, job.Type, job.Status)
	}
	// Output:
	// a mail unclaimed
	// c fax unclaimed
}

// Jobs can be cancelled, retried and deleted one by one, many at once, or by
// what they have in common.
func ExampleClient_CancelWhere() {
	ctx, c, stop := exampleClient()
	defer stop()
	for i := range 5 {
		_, err := c.Enqueue(ctx, client.NewJob{ID: fmt.Sprint("j", i), Type: "mail"})
		check(err)
	}
	one, err := c.Cancel(ctx, "j0")
	check(err)
	many, err := c.CancelMany(ctx, []string{"j0", "j1", "unknown"})
	check(err)
	n, err := c.CancelWhere(ctx, client.Filter{Type: "mail"})
	check(err)
	deleted, err := c.DeleteWhere(ctx, client.Filter{Statuses: []string{v1.StatusCancelled}})
	check(err)
	fmt.Println(one.Status)
	for _, change := range many {
		fmt.Printf("%s duplicate=%v %q\n", change.JobID, change.Duplicate, change.Tag)
	}
	fmt.Println(n, deleted)
	// Output:
	// cancelled
	// j0 duplicate=true ""
	// j1 duplicate=false ""
	// unknown duplicate=false "not_found"
	// 3 5
}

// A job that is dead gets all its attempts again.
func ExampleClient_Retry() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.Enqueue(ctx, client.NewJob{ID: "j", Type: "mail"})
	check(err)
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w1"})
	check(err)
	check(c.Fail(ctx, jobs[0].Lease(), client.Failure{Error: "no such address", Permanent: true}))
	dead, err := c.WaitJob(ctx, "j", 0)
	fmt.Println(err)
	fmt.Println(dead.Status, dead.LastError, len(dead.History))
	retried, err := c.Retry(ctx, "j")
	check(err)
	fmt.Println(retried.Status)
	// Output:
	// job j is dead: no such address
	// dead no such address 1
	// unclaimed
}

// Claim, tell how far it has come, hear of a cancellation, and fail. Package
// worker does all that around a function.
func ExampleClient_Claim() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.Enqueue(ctx, client.NewJob{ID: "j", Type: "film", Group: "customer-7"})
	check(err)
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{"film"}, Wait: time.Second})
	check(err)
	lease := jobs[0].Lease()
	lease.Progress = &client.Progress{Percent: 40, Message: "reel 2 of 5"}
	before, err := c.Heartbeat(ctx, "w1", []client.Lease{lease})
	check(err)
	job, err := c.Job(ctx, "j")
	check(err)
	_, err = c.Cancel(ctx, "j")
	check(err)
	beats, err := c.Heartbeat(ctx, "w1", []client.Lease{lease})
	check(err)
	check(c.Fail(ctx, lease, client.Failure{Error: "cancelled"}))
	ended, err := c.Job(ctx, "j")
	check(err)
	fmt.Println(jobs[0].Group, job.Progress.Percent, job.Progress.Message)
	fmt.Println(before[0].Cancel, beats[0].Cancel)
	fmt.Println(ended.Status, ended.LastError)
	// Output:
	// customer-7 40 reel 2 of 5
	// false true
	// cancelled cancelled
}

// The settings of a type hold for all of its jobs; a patch changes those that
// it names.
func ExampleClient_SetQueue() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.SetQueue(ctx, "mail", client.QueuePatch{
		MaxRunning:    client.SetTo(int64(10)),
		RatePerSecond: client.SetTo(2.5),
		MaxJobs:       client.SetTo(int64(1)),
	})
	check(err)
	q, err := c.SetQueue(ctx, "mail", client.QueuePatch{MaxRunning: client.Default[int64](), Paused: client.SetTo(true)})
	check(err)
	fmt.Println(q.Settings.MaxRunning, q.Settings.RatePerSecond, q.Settings.Paused)
	q, err = c.ResumeQueue(ctx, "mail")
	check(err)
	fmt.Println(q.Settings.Paused)
	_, err = c.Enqueue(ctx, client.NewJob{Type: "mail"})
	check(err)
	_, err = c.Enqueue(ctx, client.NewJob{Type: "mail"})
	fmt.Println("over quota:", client.IsOverQuota(err))
	check(c.RemoveQueue(ctx, "mail"))
	for q, err := range c.Queues(ctx, v1.SortType) {
		check(err)
		fmt.Println(q.Type, q.Unclaimed, q.Settings == v1.QueueSettings{})
	}
	// Output:
	// 0 2.5 true
	// false
	// over quota: true
	// mail 1 true
}
