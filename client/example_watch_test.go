package client_test

import (
	"encoding/json"
	"fmt"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// A schedule enqueues a job at its times, and whenever it is triggered.
func ExampleClient_PutCron() {
	ctx, c, stop := exampleClient()
	defer stop()
	put, err := c.PutCron(ctx, "report", client.NewCron{
		Spec: "0 6 * * 1-5", TimeZone: "Europe/Berlin", Overlap: v1.OverlapSkip,
		Job: client.NewJob{Type: "report", Payload: json.RawMessage(`{"kind":"daily"}`)},
	})
	check(err)
	check(c.PauseCron(ctx, "report"))
	got, err := c.TriggerCron(ctx, "report")
	check(err)
	job, err := c.Job(ctx, got.JobID)
	check(err)
	resumed, err := c.ResumeCron(ctx, "report")
	check(err)
	fmt.Println(put.NextAt > 0, put.NextAt == resumed.NextAt)
	fmt.Println(job.Type, job.Cron, string(job.Payload))
	for cron, err := range c.Crons(ctx) {
		check(err)
		fmt.Println(cron.Name, cron.Spec, cron.LastJobID == got.JobID)
	}
	check(c.DeleteCron(ctx, "report"))
	_, err = c.Cron(ctx, "report")
	fmt.Println(client.IsNotFound(err))
	// Output:
	// true true
	// report report {"kind":"daily"}
	// report 0 6 * * 1-5 true
	// true
}

// Worker shows a registered worker and its running jobs.
func ExampleClient_Worker() {
	ctx, c, stop := exampleClient()
	defer stop()
	check(c.RegisterWorker(ctx, client.WorkerInfo{Name: "w1", Types: []string{"mail"}, Version: "1.2"}))
	_, err := c.Enqueue(ctx, client.NewJob{ID: "j", Type: "mail"})
	check(err)
	_, err = c.Claim(ctx, client.ClaimOptions{Worker: "w1", Types: []string{"mail"}})
	check(err)
	workers, err := c.Workers(ctx)
	check(err)
	w, err := c.Worker(ctx, "w1")
	check(err)
	fmt.Println(len(workers), w.Types, w.Version, w.Running, w.JobIDs)
	check(c.RemoveWorker(ctx, "w1")) // its job goes back at once
	job, err := c.Job(ctx, "j")
	check(err)
	fmt.Println(job.Status)
	// Output:
	// 1 [mail] 1.2 1 [j]
	// unclaimed
}

// The stream of events outlives the nodes that send it. Remember the id of the
// last event to go on from there another day.
func ExampleClient_Events() {
	ctx, c, stop := exampleClient()
	defer stop()
	_, err := c.Enqueue(ctx, client.NewJob{ID: "before", Type: "mail"})
	check(err)
	_, err = c.Enqueue(ctx, client.NewJob{ID: "j", Type: "mail", Priority: 1})
	check(err)
	completeOne(ctx, c, "mail", `"sent"`)
	// From the first event that is held; "" would be from now on.
	for ev, err := range c.Events(ctx, client.EventOptions{Type: "mail", Kinds: []string{"job."}, After: "0-0.0"}) {
		check(err)
		if ev.Kind == v1.EventGap {
			fmt.Println("events are missing: look at the state of things")
			continue
		}
		fmt.Println(ev.Kind, ev.JobID, ev.Status)
		if ev.Kind == v1.EventCompleted {
			break
		}
	}
	// Output:
	// job.enqueued before unclaimed
	// job.enqueued j unclaimed
	// job.claimed j in_progress
	// job.completed j completed
}
