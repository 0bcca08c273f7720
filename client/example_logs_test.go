package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// A reader gets the log of a job while the job runs. Here the example is the worker, too; a worker
// of package worker sends what its handler writes with Job.Log by itself.
func ExampleClient_FollowLogs() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.Enqueue(ctx, client.NewJob{ID: "long", Type: "film"})
	check(err)
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{"film"}})
	check(err)
	go func() {
		wanted, err := c.SendLogs(ctx, "w1", nil, 30*time.Second) // waits for a reader
		check(err)
		for _, w := range wanted {
			part := client.LogPart{Lease: client.Lease{JobID: w.JobID, Token: w.Token}, Text: "scene 1\nscene 2\n"}
			_, err = c.SendLogs(ctx, "w1", []client.LogPart{part}, 0)
			check(err)
		}
		check(c.Complete(ctx, jobs[0].Lease(), json.RawMessage(`{"minutes":90}`)))
	}()
	for chunk, err := range c.FollowLogs(ctx, "long") {
		check(err)
		if chunk.Lost > 0 {
			fmt.Printf("%d bytes are missing here\n", chunk.Lost)
		}
		fmt.Print(chunk.Text)
	}
	// Output:
	// scene 1
	// scene 2
}

// A hook sends events to a URL. Its secret, which the receiver needs to verify deliveries with
// package webhook, is in the first answer only.
func ExampleClient_PutHook() {
	ctx, c, stop := exampleClient()
	defer stop()
	put, err := c.PutHook(ctx, "on-call", v1.NewHook{
		URL: "https://hooks.example.com/osqueue", On: []string{"job.dead", "queue.stuck"}, Types: []string{"mail*"},
		OldestAgeMs: (5 * time.Minute).Milliseconds(), Paused: true,
	})
	check(err)
	hooks, err := c.Hooks(ctx)
	check(err)
	for _, h := range hooks {
		fmt.Println(h.Name, h.On, h.Types, h.Paused, h.Delivered)
	}
	fmt.Println(strings.HasPrefix(put.Secret, "whsec_"))
	check(c.DeleteHook(ctx, "on-call"))
	_, err = c.Hook(ctx, "on-call")
	fmt.Println(client.IsNotFound(err))
	// Output:
	// on-call [job.dead queue.stuck] [mail*] true 0
	// true
	// true
}

// CountJobs counts the jobs that a list would have. A search finds a text in ids, types, tags,
// errors and payloads.
func ExampleClient_CountJobs() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.EnqueueBatch(ctx, []client.NewJob{
		{ID: "m1", Type: "mail", Payload: json.RawMessage(`{"to":"ann@example.com"}`)},
		{ID: "m2", Type: "mail", Payload: json.RawMessage(`{"to":"bob@example.com"}`)},
		{ID: "m3", Type: "mail", Payload: json.RawMessage(`{"to":"ann@example.com"}`)},
	})
	check(err)
	find := client.ListOptions{Type: "mail", Search: "ANN@", Newest: true}
	n, err := c.CountJobs(ctx, find)
	check(err)
	fmt.Println(n)
	for job, err := range c.Jobs(ctx, find) {
		check(err)
		fmt.Println(job.ID, string(job.Payload))
	}
	// Output:
	// 2
	// m3 {"to":"ann@example.com"}
	// m1 {"to":"ann@example.com"}
}
