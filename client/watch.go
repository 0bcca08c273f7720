package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	v1 "osqueue/api/v1"
)

// Watch waits for the ends of many jobs at once: over one stream of events, and
// with one read for each job that has ended. Make it with Client.Watch. It is
// safe for concurrent use.
//
// What it knows of a job comes from the read: an event only says when to read.
// The stream begins at a position that was read before the first job was added,
// so that nothing falls between; when events are missing, all jobs that are
// watched are read again.
type Watch struct {
	c       *Client
	jobType string // "": any

	ctx    context.Context // ends with Close, or with what broke it as its cause
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup
	ended  chan v1.Job
	wake   chan struct{} // has something if readers have to look at the queue

	mu    sync.Mutex
	jobs  map[string]*watched
	queue []string // ids to be read; each is in jobs, and here once
}

// watched is a job that has not been handed out.
type watched struct {
	calls   int    // of Enqueue that are under way and name it
	wanted  bool   // one of them was answered, or it was added: it stays until it has ended
	known   bool   // it is enqueued: that there is no such job means it is gone
	waiting bool   // for its turn to be read
	reading bool   // just now
	again   bool   // it is worth another read after that
	status  string // of the last event about it
	fault   string // its error
}

// watchReads is how many reads of one Watch run at once.
const watchReads = 8

// endKinds are the events after which a job is worth a read.
var endKinds = []string{v1.EventCompleted, v1.EventDead, v1.EventCancelled, v1.EventRemoved}

// errWatchClosed is the cause of a Watch that was closed.
var errWatchClosed = errors.New("the watch is closed")

// Watch begins to watch for the ends of jobs, all of one type, or of any if
// jobType is "". It goes on until Close, or until no node could be reached for
// Config.RetryFor, or ctx ends.
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

// Close ends the watch. The jobs go on.
func (w *Watch) Close() {
	w.cancel(errWatchClosed)
	w.tasks.Wait()
}

// Enqueue is Client.EnqueueBatch, and watches the jobs, also those that were there
// already. It does not watch a job that holds the unique key of one of them: Add
// it, if its end is wanted, too.
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

// Add watches jobs that are there already, and may have ended.
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

// Next returns the next job that has ended, each once for each time that it was
// added. The order is that of their ends, more or less. A job that was removed
// before it could be read has no more than its id, and the status and error of
// its last event; Status is "" if there was none.
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

// expect watches jobs that are about to be enqueued: they can end before the
// answer is here. It returns what it has of each.
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

// forget takes back what a call that failed has expected.
func (w *Watch) forget(jobs []NewJob, expected []*watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, j := range expected {
		w.drop(jobs[i].ID, j)
	}
}

// drop ends a call's interest in a job. Others may watch it, too. The caller holds
// the lock.
func (w *Watch) drop(id string, j *watched) {
	if j.calls--; j.calls == 0 && !j.wanted && w.jobs[id] == j {
		delete(w.jobs, id)
	}
}

// confirm notes what has become of jobs that were expected. What was there before
// may have ended before; so may all of it, if this was the answer to an earlier
// call.
func (w *Watch) confirm(jobs []NewJob, expected []*watched, got BatchEnqueued, replay bool) {
	old := make(map[string]bool, len(got.Duplicates))
	for _, id := range got.Duplicates {
		old[id] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range got.JobIDs {
		if id != jobs[i].ID {
			w.drop(jobs[i].ID, expected[i]) // it was not added: another one holds its key
			continue
		}
		j := expected[i]
		j.calls--
		if w.jobs[id] != j {
			continue // it has ended since the call began, and was handed out
		}
		missed := !j.known && j.again
		j.wanted, j.known = true, true
		if replay || old[id] || missed {
			w.push(id, j)
		}
	}
}

// push has a job read. The caller holds the lock.
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
	default: // as many readers are about to look as there are
	}
}

// take returns the next job to read; false: the watch has ended.
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

// read reads jobs and hands out those that have ended, until the watch ends.
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

// hand gives a job to Next; false: the watch has ended.
func (w *Watch) hand(job v1.Job) bool {
	select {
	case w.ended <- job:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// settle decides whether a job that was read is over.
func (w *Watch) settle(id string, job v1.Job, gone bool) (v1.Job, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	switch {
	case j == nil || !j.reading:
		return job, false // it was forgotten meanwhile
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

// follow reads events, from behind a position on, until the watch ends. Where
// some are missing it begins anew, from a position that was read before the jobs
// are: the stream alone would go on from some later one.
func (w *Watch) follow(at string) {
	pauses := newAsks()
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
		if !sleep(w.ctx, pauses.NextBackOff()) {
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

// readAll has all jobs read.
func (w *Watch) readAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, j := range w.jobs {
		if !j.known {
			j.again = true // when it is
			continue
		}
		w.push(id, j)
	}
}

// position is the id of an event before all that happens from now on.
func (c *Client) position(ctx context.Context) (string, error) {
	if _, err := send[v1.Stats](ctx, c, call{op: "watch", method: http.MethodGet, path: v1.PathStats}); err != nil {
		return "", err
	}
	if at := c.lsn.String(); at != "" {
		return at + ".0", nil
	}
	return "0-0.0", nil // a node that does not say: all that it holds
}

// jobOfLeader returns a job as the leader has it, whatever Config.Reads says: a
// node that is behind would not know yet that it has ended.
func (c *Client) jobOfLeader(ctx context.Context, id string) (v1.Job, error) {
	const op = "get job"
	path, err := jobPath(id, "")
	if err != nil {
		return v1.Job{}, local(op, err)
	}
	return send[v1.Job](ctx, c, call{op: op, method: http.MethodGet, path: path, lasting: true})
}
