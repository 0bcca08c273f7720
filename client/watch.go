package client

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/sleep"
)

// Watch waits for the ends of many jobs at once. It uses one stream of events and
// one read for each job that has ended. Create it with Client.Watch. It is safe for
// concurrent use.
//
// An event only triggers a read; the state of a job always comes from the read. The
// stream begins at a position that was read before the first job was added, so that
// no end is missed. When events are missing, Watch reads all watched jobs again.
type Watch struct {
	c       *Client
	jobType string // "": any

	ctx    context.Context // ends with Close, or with the failure as its cause
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup
	ended  chan v1.Job
	wake   chan struct{} // has an item if readers must check the queue

	mu    sync.Mutex
	jobs  map[string]*watched
	queue []string // ids to read; each is in jobs, and at most once here
}

// watched is the state of a job that Next has not returned yet.
type watched struct {
	calls   int    // running calls of Enqueue that contain the job
	wanted  bool   // a call succeeded, or Add named the job: it stays until it has ended
	known   bool   // the job was enqueued, so "not found" means that it was removed
	waiting bool   // the job is in the queue
	reading bool   // a reader reads the job now
	again   bool   // the job must be read again afterwards
	status  string // status in the last event
	fault   string // error in the last event
}

// watchReads is the number of concurrent reads of one Watch.
const watchReads = 8

// endKinds are the events that trigger a read.
var endKinds = []string{v1.EventCompleted, v1.EventDead, v1.EventCancelled, v1.EventExpired, v1.EventRemoved}

// errWatchClosed is the cause of a Watch that was closed.
var errWatchClosed = errors.New("the watch is closed")

// Watch starts to watch jobs of one type, or of any type if jobType is "". The
// watch lasts until Close, until ctx ends, or until no node could be reached for
// Config.RetryFor. Call Close to release its goroutines.
func (c *Client) Watch(ctx context.Context, jobType string) (*Watch, error) {
	at, err := c.position(ctx)
	if err != nil {
		return nil, err
	}
	w := &Watch{
		c: c, jobType: jobType, jobs: make(map[string]*watched),
		ended: make(chan v1.Job), wake: make(chan struct{}, watchReads),
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.tasks.Go(func() { w.follow(at) })
	for range watchReads {
		w.tasks.Go(w.read)
	}
	return w, nil
}

// Close ends the watch and waits for its goroutines. The jobs are not affected.
func (w *Watch) Close() {
	w.cancel(errWatchClosed)
	w.tasks.Wait()
}

// Enqueue enqueues jobs like Client.EnqueueBatch and watches them, also those that
// existed before. If another job has reserved the unique key of a job, Enqueue does
// not watch that other job; call Add to watch it.
func (w *Watch) Enqueue(ctx context.Context, jobs []NewJob) (BatchEnqueued, error) {
	jobs = withIDs(jobs, newMaker(ctx))
	expected := w.expect(jobs)
	got, err := w.c.EnqueueBatch(ctx, jobs)
	if err != nil {
		w.forget(jobs, expected)
		return got, err
	}
	w.confirm(jobs, expected, got, keyOf(ctx) != "")
	return got, nil
}

// Add watches jobs that exist already and may have ended.
func (w *Watch) Add(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		j := w.jobs[id]
		if j == nil {
			j = new(watched)
			w.jobs[id] = j
		}
		j.wanted, j.known = true, true
		w.push(id, j)
	}
}

// Next returns the next job that has ended, roughly in the order of their ends.
// Every job is returned once each time it was added. If a job was removed before
// the Watch could read it, only the id is set, with the status and error of its
// last event; Status is "" if there was no event. Values that Config.Cipher cannot decrypt stay
// encrypted: see IsSealed. Next returns an error when ctx or the watch ends.
func (w *Watch) Next(ctx context.Context) (v1.Job, error) {
	select {
	case job := <-w.ended:
		return job, nil
	case <-ctx.Done():
		return v1.Job{}, context.Cause(ctx)
	case <-w.ctx.Done():
		return v1.Job{}, context.Cause(w.ctx)
	}
}

// expect watches jobs that are about to be enqueued, because they can end before
// the answer arrives. It returns their entries.
func (w *Watch) expect(jobs []NewJob) []*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	expected := make([]*watched, len(jobs))
	for i, job := range jobs {
		j := w.jobs[job.ID]
		if j == nil {
			j = new(watched)
			w.jobs[job.ID] = j
		}
		j.calls++
		expected[i] = j
	}
	return expected
}

// forget reverts expect after a failed call.
func (w *Watch) forget(jobs []NewJob, expected []*watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, j := range expected {
		w.drop(jobs[i].ID, j)
	}
}

// drop removes the interest of one call in a job. Other calls may still watch it.
// The caller holds the lock.
func (w *Watch) drop(id string, j *watched) {
	if j.calls--; j.calls == 0 && !j.wanted && w.jobs[id] == j {
		delete(w.jobs, id)
	}
}

// confirm records the result of a successful call. A job that existed before may
// have ended before, so confirm reads it; in a replay this applies to every job.
func (w *Watch) confirm(jobs []NewJob, expected []*watched, got BatchEnqueued, replay bool) {
	old := make(map[string]bool, len(got.Duplicates))
	for _, id := range got.Duplicates {
		old[id] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range got.JobIDs {
		if id != jobs[i].ID {
			w.drop(jobs[i].ID, expected[i]) // not added: another job has reserved its unique key
			continue
		}
		j := expected[i]
		j.calls--
		if w.jobs[id] != j {
			continue // the job ended during the call, and Next has returned it
		}
		missed := !j.known && j.again
		j.wanted, j.known = true, true
		if replay || old[id] || missed {
			w.push(id, j)
		}
	}
}

// push adds a job to the queue of reads. The caller holds the lock.
func (w *Watch) push(id string, j *watched) {
	if j.reading {
		j.again = true
	}
	if j.reading || j.waiting {
		return
	}
	j.waiting = true
	w.queue = append(w.queue, id)
	select {
	case w.wake <- struct{}{}:
	default: // as many wake-ups are pending as there are readers
	}
}

// take returns the next job to read. It returns false if the watch has ended.
func (w *Watch) take() (id string, ok bool) {
	for {
		if id, ok := w.pop(); ok {
			return id, true
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return "", false
		}
	}
}

func (w *Watch) pop() (id string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		id, w.queue = w.queue[0], w.queue[1:]
		if j := w.jobs[id]; j != nil && j.waiting {
			j.waiting, j.reading, j.again = false, true, false
			return id, true
		}
	}
	w.queue = nil
	return "", false
}

// read reads jobs and returns the ended ones through Next, until the watch ends.
func (w *Watch) read() {
	for {
		id, ok := w.take()
		if !ok {
			return
		}
		job, err := w.c.jobOfLeader(w.ctx, id)
		if err != nil && !IsNotFound(err) {
			w.cancel(err)
			return
		}
		if job, over := w.settle(id, job, err != nil); over && !w.hand(job) {
			return
		}
	}
}

// hand sends a job to Next. It returns false if the watch has ended.
func (w *Watch) hand(job v1.Job) bool {
	select {
	case w.ended <- job:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// settle decides whether a job that was read has ended.
func (w *Watch) settle(id string, job v1.Job, gone bool) (v1.Job, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	switch {
	case j == nil || !j.reading:
		return job, false // forgotten during the read
	case gone && j.known:
		delete(w.jobs, id)
		return v1.Job{ID: id, Type: w.jobType, Status: j.status, LastError: j.fault}, true
	case !gone && Finished(job.Status):
		delete(w.jobs, id)
		return job, true
	}
	j.reading = false
	if j.again {
		w.push(id, j)
	}
	return job, false
}

// follow reads events after the position at, until the watch ends. If events are
// missing, follow reads the current position first and then all jobs, and continues
// from that position: the stream alone would continue from a later one and miss
// ends.
func (w *Watch) follow(at string) {
	pauses := newPollPauses()
	for {
		began := time.Now()
		for ev, err := range w.c.Events(w.ctx, EventOptions{Kinds: endKinds, Type: w.jobType, After: at}) {
			if err != nil {
				w.cancel(err)
				return
			}
			if ev.Kind == v1.EventGap {
				break
			}
			w.note(ev)
		}
		if time.Since(began) > eventStable {
			pauses.Reset()
		}
		if !sleep.For(w.ctx, pauses.NextBackOff()) {
			return
		}
		var err error
		if at, err = w.c.position(w.ctx); err != nil {
			w.cancel(err)
			return
		}
		w.readAll()
	}
}

func (w *Watch) note(ev v1.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[ev.JobID]
	if j == nil {
		return
	}
	j.known = true
	if ev.Kind != v1.EventRemoved || j.status == "" {
		j.status, j.fault = ev.Status, ev.Error
	}
	w.push(ev.JobID, j)
}

// readAll reads all watched jobs again.
func (w *Watch) readAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, j := range w.jobs {
		if !j.known {
			j.again = true // read it when it is known
			continue
		}
		w.push(id, j)
	}
}

// position returns the id of an event before all later events.
func (c *Client) position(ctx context.Context) (string, error) {
	if _, err := send[v1.Stats](ctx, c.caller, call{op: "watch", path: v1.PathStats}); err != nil {
		return "", err
	}
	if at := c.lsn.String(); at != "" {
		return at + ".0", nil
	}
	return "0-0.0", nil // the node sends no LSN: start with the oldest event that it holds
}

// jobOfLeader reads a job from the leader, without regard to Config.Reads: a node
// that is behind may not know yet that the job has ended.
func (c *Client) jobOfLeader(ctx context.Context, id string) (v1.Job, error) {
	job, err := send[v1.Job](ctx, c.caller, call{op: "get job", prefix: v1.PathJobs, name: id, lasting: true})
	if err == nil {
		_ = c.openRead(ctx, &job) // what cannot be read stays encrypted, as Next says
	}
	return job, err
}
