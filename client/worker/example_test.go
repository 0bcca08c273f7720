package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
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

// running runs a worker until stop is called.
func running(ctx context.Context, w *worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		check(<-ended)
	}
}

// A worker with one function. Its JSON payload and result are Go values; one
// error is final, the other worth another attempt at once.
func Example() {
	ctx, c, stop := exampleClient()
	defer stop()
	w, err := worker.New(c, worker.Config{Concurrency: 4, PollWait: time.Second})
	check(err)
	w.Handle("wc", worker.JSON(func(_ context.Context, job worker.Job, text string) (int, error) {
		switch {
		case text == "":
			return 0, worker.Permanent(errors.New("nothing to count"))
		case job.Attempt == 1:
			return 0, worker.RetryAfter(0, errors.New("miscounted"))
		}
		return len(strings.Fields(text)), nil
	}))
	end := running(ctx, w) // a program calls w.Run itself
	defer end()
	for _, text := range []string{`"three little words"`, `""`} {
		got, err := c.Enqueue(ctx, client.NewJob{Type: "wc", Payload: json.RawMessage(text)})
		check(err)
		job, err := c.WaitJob(ctx, got.JobID, time.Minute)
		fmt.Println(job.Status, job.Attempts, string(job.Result), job.LastError, errors.As(err, new(*client.JobError)))
	}
	// Output:
	// completed 2 3 miscounted false
	// dead 1  nothing to count true
}

// A handler reports its progress, and stops when the job is cancelled.
func ExampleJob_ProgressNow() {
	ctx, c, stop := exampleClient()
	defer stop()
	w, err := worker.New(c, worker.Config{PollWait: time.Second, Lease: time.Second})
	check(err)
	halfway := make(chan struct{})
	w.Handle("film", func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		if err := job.ProgressNow(ctx, 50, "half of the reels"); err != nil {
			return nil, err
		}
		close(halfway)
		<-ctx.Done()
		fmt.Println("asked to stop:", context.Cause(ctx))
		return nil, ctx.Err()
	})
	end := running(ctx, w)
	defer end()
	got, err := c.Enqueue(ctx, client.NewJob{ID: "a-film", Type: "film"})
	check(err)
	<-halfway
	job, err := c.Job(ctx, got.JobID)
	check(err)
	fmt.Println(job.Status, job.Progress.Percent, job.Progress.Message)
	_, err = c.Cancel(ctx, got.JobID)
	check(err)
	job, err = c.WaitJob(ctx, got.JobID, time.Minute)
	fmt.Println(job.Status, err)
	// Output:
	// in_progress 50 half of the reels
	// asked to stop: cancelled
	// cancelled job a-film is cancelled: cancelled
}

// An attempt that runs for too long has its context ended.
func ExampleErrTimeout() {
	ctx, c, stop := exampleClient()
	defer stop()
	w, err := worker.New(c, worker.Config{Concurrency: 1, PollWait: time.Second})
	check(err)
	w.Handle("slow", func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		if job.Attempt > 1 {
			return json.RawMessage(`"quicker this time"`), nil
		}
		<-ctx.Done()
		fmt.Println(errors.Is(context.Cause(ctx), worker.ErrTimeout))
		return nil, ctx.Err()
	})
	end := running(ctx, w)
	defer end()
	got, err := c.Enqueue(ctx, client.NewJob{Type: "slow", Timeout: 100 * time.Millisecond})
	check(err)
	job, err := c.WaitJob(ctx, got.JobID, time.Minute)
	check(err)
	fmt.Println(job.Status, job.Attempts, string(job.Result))
	// Output:
	// true
	// completed 2 "quicker this time"
}

// A test of a handler needs no cluster.
func ExampleTry() {
	count := worker.JSON(func(_ context.Context, job worker.Job, text string) (int, error) {
		job.Log("counting")
		if text == "" {
			return 0, worker.Permanent(errors.New("nothing to count"))
		}
		return len(strings.Fields(text)), nil
	})
	for _, payload := range []string{`"three little words"`, `""`} {
		got := worker.Try(context.Background(), count, client.ClaimedJob{Payload: json.RawMessage(payload)})
		fmt.Printf("%s %s %q %q\n", got.Outcome, got.Result, got.Log, got.Failure.Error)
	}
	// Output:
	// completed 3 "counting" ""
	// failed  "" "nothing to count: counting"
}
