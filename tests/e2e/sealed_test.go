package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/seal"
	"osqueue/client/worker"
)

// sealedClient returns a client of the same servers with a key ring.
func sealedClient(t *testing.T, servers []string, ring string, only bool) *client.Client {
	t.Helper()
	keys, err := seal.OpenRing(ring)
	check(t, err)
	c, err := client.New(client.Config{Servers: servers, Cipher: keys, SealedOnly: only})
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

func newRing(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := seal.Create(path, "test"); err != nil {
		t.Fatal(err)
	}
	return path
}

// runWorker runs handlers until the test ends.
func runWorker(t *testing.T, c *client.Client, handlers map[string]worker.HandlerFunc) {
	t.Helper()
	w, err := worker.New(c, worker.Config{Concurrency: 4})
	check(t, err)
	for name, fn := range handlers {
		w.Handle(name, fn)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

const secret = "hush-hush"

func echo(ctx context.Context, job worker.Job) (json.RawMessage, error) {
	job.Log("log " + secret)
	return job.Payload, job.ProgressNow(ctx, 50, "progress "+secret)
}

// raw returns all that a client without keys sees of a job.
func raw(ctx context.Context, t *testing.T, c *client.Client, id string) string {
	t.Helper()
	job, err := c.Job(ctx, id)
	check(t, err)
	text, err := json.Marshal(job)
	check(t, err)
	return string(text)
}

// Every way of a payload to a worker and of its result back is encrypted.
func TestSealedJobs(t *testing.T) {
	_, plain := start(t, 1)
	ctx := bounded(t)
	c := sealedClient(t, plain.Servers(), newRing(t), true)
	runWorker(t, c, map[string]worker.HandlerFunc{
		"echo": echo,
		"fail": func(context.Context, worker.Job) (json.RawMessage, error) {
			return nil, worker.Permanent(errors.New("failed with " + secret + strings.Repeat("é", 6000)))
		},
		"short": func(context.Context, worker.Job) (json.RawMessage, error) {
			return nil, worker.Permanent(errors.New("failed with " + secret))
		},
	})
	payload := json.RawMessage(` {"a" : "` + secret + `"}`)
	job := client.NewJob{Type: "echo", Payload: payload, Tags: []string{"t"}}

	var ids []string
	one, err := c.Enqueue(ctx, job)
	check(t, err)
	many, err := c.EnqueueBatch(ctx, []client.NewJob{job, {Type: "echo", Payload: payload, After: []string{one.JobID}}})
	check(t, err)
	callback := client.NewJob{ID: "callback", Type: "echo", Payload: payload}
	if _, err := c.CreateBatch(ctx, client.NewBatch{Jobs: []client.NewJob{{ID: "first", Type: "echo", Payload: payload}}, Callback: &callback}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutCron(ctx, "nightly", client.NewCron{Spec: "@yearly", Job: job}); err != nil {
		t.Fatal(err)
	}
	fired, err := c.TriggerCron(ctx, "nightly")
	check(t, err)
	ids = append(append(ids, one.JobID, "first", "callback", fired.JobID), many.JobIDs...)
	for _, id := range ids {
		if id == "callback" {
			waitFor(ctx, t, func() bool { _, err := plain.Job(ctx, id); return err == nil })
		}
		got, err := c.WaitJob(ctx, id, 0)
		if err != nil || string(got.Result) != string(payload) || string(got.Payload) != string(payload) || got.Log != "log "+secret ||
			got.Progress == nil || got.Progress.Message != "progress "+secret {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
		if seen := raw(ctx, t, plain, id); strings.Contains(seen, secret) || !strings.Contains(seen, `"echo"`) {
			t.Errorf("%s: without keys one sees %s", id, seen)
		}
	}
	cron, err := plain.Cron(ctx, "nightly")
	if err != nil || !client.IsSealed(cron.Job.Payload) {
		t.Errorf("the schedule: %s, %v", cron.Job.Payload, err)
	}

	bad, err := c.Enqueue(ctx, client.NewJob{Type: "fail", Payload: payload})
	check(t, err)
	_, err = c.WaitJob(ctx, bad.JobID, 0)
	var dead *client.JobError
	if !errors.As(err, &dead) || !strings.HasPrefix(dead.Job.LastError, "failed with "+secret+"é") || !strings.HasSuffix(dead.Job.LastError, "é…") {
		t.Errorf("%.100v", err)
	}
	if seen := raw(ctx, t, plain, bad.JobID); strings.Contains(seen, secret) {
		t.Errorf("without keys one sees %s", seen)
	}
	n := 0
	for j, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}}) {
		if n++; err != nil || string(j.Payload) != string(payload) {
			t.Errorf("%s: %s, %v", j.ID, j.Payload, err)
		}
	}
	if n != len(ids)+1 {
		t.Errorf("%d jobs", n)
	}
	// Events cut long texts, so that their ciphertexts stay.
	short, err := c.Enqueue(ctx, client.NewJob{Type: "short", Payload: payload})
	check(t, err)
	for ev, err := range c.Events(ctx, client.EventOptions{Kinds: []string{v1.EventDead}, JobID: short.JobID, After: "0-0.0"}) {
		if err != nil || ev.Error != "failed with "+secret {
			t.Errorf("%+v, %v", ev, err)
		}
		break
	}
}

func waitFor(ctx context.Context, t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A caller that repeats a call under its idempotency key sends other bytes, and gets the
// first answer.
func TestSealedCallsAreRepeated(t *testing.T) {
	_, plain := start(t, 1)
	ctx := client.WithIdempotencyKey(bounded(t), "order-7")
	ring := newRing(t)
	job := client.NewJob{Type: "echo", Payload: json.RawMessage(`"` + secret + `"`)}
	first, err := sealedClient(t, plain.Servers(), ring, false).Enqueue(ctx, job)
	check(t, err)
	c := sealedClient(t, plain.Servers(), ring, false)
	if again, err := c.Enqueue(ctx, job); err != nil || again.JobID != first.JobID || again.LSN != first.LSN {
		t.Errorf("%+v, then %+v, %v", first, again, err)
	}
	job.Priority = 3
	if _, err := c.Enqueue(ctx, job); !client.HasTag(err, v1.TagRequestConflict) {
		t.Errorf("another job under the same key: %v", err)
	}
}

// A job that a worker cannot decrypt is not run: if another worker may, it is retried;
// if it was changed or moved, it is dead at once. Everybody can read why.
func TestSealedJobsThatCannotBeRead(t *testing.T) {
	_, plain := start(t, 1)
	ctx := bounded(t)
	ring := newRing(t)
	c := sealedClient(t, plain.Servers(), ring, true)
	runWorker(t, c, map[string]worker.HandlerFunc{"echo": echo, "other": echo})
	good, err := c.Enqueue(ctx, client.NewJob{Type: "hold", Payload: json.RawMessage(`"` + secret + `"`)})
	check(t, err)
	stored, err := plain.Job(ctx, good.JobID)
	check(t, err)
	foreign, err := sealedClient(t, plain.Servers(), newRing(t), false).Enqueue(ctx, client.NewJob{Type: "echo", Payload: json.RawMessage(`1`)})
	check(t, err)
	enqueue := func(jobType string, payload string) string {
		got, err := plain.Enqueue(ctx, client.NewJob{Type: jobType, Payload: json.RawMessage(payload)})
		check(t, err)
		return got.JobID
	}
	text := string(stored.Payload)
	for name, id := range map[string]string{
		"moved to another job":  enqueue("echo", text),
		"moved to another type": enqueue("other", text),
		"cut":                   enqueue("echo", text[:len(text)-10]+`"}`),
		"changed":               enqueue("echo", strings.Replace(text, `"to":"job"`, `"to":"cron"`, 1)),
		"not encrypted":         enqueue("echo", `"plain"`),
	} {
		_, err := plain.WaitJob(ctx, id, 0)
		var dead *client.JobError
		if !errors.As(err, &dead) || dead.Job.Attempts != 1 || !strings.Contains(dead.Job.LastError, "cannot be read: it ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, id := range map[string]string{"another key": foreign.JobID, "a later version": enqueue("echo", `{"osqueue.sealed":2}`)} {
		var job v1.Job
		waitFor(ctx, t, func() bool {
			job, err = plain.Job(ctx, id)
			return err != nil || job.Status == v1.StatusScheduled
		})
		if err != nil || job.Attempts != 1 || !strings.Contains(job.LastError, "cannot be read") {
			t.Errorf("%s: %+v, %v", name, job, err)
		}
	}
	if _, err := c.Job(ctx, foreign.JobID); !errors.Is(err, client.ErrNoKey) {
		t.Errorf("reading it: %v", err)
	}
}

// A worker without keys does not run an encrypted job.
func TestSealedJobsNeedKeys(t *testing.T) {
	_, plain := start(t, 1)
	ctx := bounded(t)
	runWorker(t, plain, map[string]worker.HandlerFunc{"echo": func(context.Context, worker.Job) (json.RawMessage, error) {
		t.Error("the handler ran")
		return nil, nil
	}})
	job, err := sealedClient(t, plain.Servers(), newRing(t), false).Enqueue(ctx, client.NewJob{Type: "echo", Payload: json.RawMessage(`1`)})
	check(t, err)
	var seen v1.Job
	waitFor(ctx, t, func() bool {
		seen, err = plain.Job(ctx, job.JobID)
		return err != nil || seen.Status == v1.StatusScheduled
	})
	if err != nil || !strings.Contains(seen.LastError, "this client has no keys") {
		t.Errorf("%+v, %v", seen, err)
	}
}
