package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// flightConfig says how jobs are sent and waited for.
type flightConfig struct {
	c         *client.Client
	watch     *client.Watch
	progress  *progress
	window    int64              // how many jobs may be sent and not handed out
	keepOrder bool               // hand out in the order of the lines
	waitFor   time.Duration      // how long one job may take from its sending on; 0: no limit
	keyOf     func(batch) string // the idempotency key of a whole batch; nil: batches may be cut
	failed    func(v1.Job) bool
	tell      func(error)        // of a fault of reading or sending, at once
	each      func(landed) error // gets what has ended; its error ends the flight
}

// landed is a job that has ended, and the line that it is of.
type landed struct {
	line  int // from 1
	input string
	job   v1.Job
}

// flight sends batches of jobs and hands out each job when it has ended. After a
// fault no more is sent, but what was sent is waited for. A goroutine sends; the
// one that called run hands out.
type flight struct {
	flightConfig
	room *semaphore.Weighted

	mu         sync.Mutex
	open       map[string][]*passenger // sent, or being sent, by id
	oldest     []*passenger            // in the order of sending; with some that have landed
	held       map[int]*passenger      // landed, and to be handed out in order
	boarded    int                     // how many passengers there have been
	next       int                     // to be handed out, if they are in order
	duplicates int
	answered   time.Time // when the last of the batches was
	allRead    bool      // and sent
	fault      error     // the first one of reading and sending
	stopped    bool      // run has returned
	noMore     context.CancelFunc
	allEnded   context.CancelCauseFunc
}

// passenger is a line on its way.
type passenger struct {
	landed
	id    string // that it is in open under
	seq   int    // from 0, without gaps
	since time.Time
	down  bool // it has landed, or was not sent
}

// errAllEnded is no failure.
var errAllEnded = errors.New("all jobs have ended")

func newFlight(cfg flightConfig) *flight {
	return &flight{
		flightConfig: cfg, room: semaphore.NewWeighted(cfg.window),
		open: make(map[string][]*passenger), held: make(map[int]*passenger),
	}
}

// run sends the batches, and hands out jobs until all have ended. It does not
// wait for a source of batches that is blocked when ctx ends.
func (f *flight) run(ctx context.Context, batches iter.Seq2[batch, error]) error {
	ended, allEnded := context.WithCancelCause(ctx)
	defer allEnded(nil)
	reading, noMore := context.WithCancel(ended)
	defer noMore()
	f.allEnded, f.noMore = allEnded, noMore
	go f.sendAll(ended, reading, batches)
	err := f.handOut(ended)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if err == nil && f.fault != nil {
		err = silentError{} // it was told
	}
	return err
}

// waiting is how many jobs were sent and have not ended.
func (f *flight) waiting() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range f.open {
		n += len(list)
	}
	return n
}

// known is how many jobs were there already.
func (f *flight) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.duplicates
}

// lastAnswered is when the last of the batches was enqueued.
func (f *flight) lastAnswered() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answered
}

// sendAll sends until there is no more to read, or a fault.
func (f *flight) sendAll(ctx, reading context.Context, batches iter.Seq2[batch, error]) {
	var requests errgroup.Group
	requests.SetLimit(batchesInFlight)
	for b, err := range batches {
		if err != nil {
			f.fail(err)
			break
		}
		if !f.sendParts(ctx, reading, &requests, b) {
			break
		}
	}
	_ = requests.Wait() // faults are told as they happen
	f.mu.Lock()
	f.allRead = true
	f.mu.Unlock()
	f.checkEnd()
}

// sendParts sends a batch, in parts if there is room for parts only; false:
// there is to be no more.
func (f *flight) sendParts(ctx, reading context.Context, requests *errgroup.Group, b batch) bool {
	for len(b.jobs) > 0 {
		n := f.takeRoom(reading, len(b.jobs))
		if n == 0 {
			return false
		}
		part := b.head(n)
		b = b.tail(n)
		keyed := ctx
		if f.keyOf != nil {
			keyed = withKey(ctx, f.keyOf(part))
		}
		part.jobs = client.WithIDs(keyed, part.jobs)
		people := f.board(part)
		requests.Go(func() error {
			f.send(keyed, part, people)
			return nil
		})
	}
	return reading.Err() == nil
}

// roomShare of the window is what a request waits for: if each job that ends made
// room for one request, there would be one for each.
const roomShare = 16

// takeRoom waits for room for some jobs, or for all if a batch must not be cut, and
// says for how many it got it; 0: reading is over.
func (f *flight) takeRoom(reading context.Context, jobs int) (n int) {
	n = jobs
	if f.keyOf == nil {
		n = min(jobs, max(1, int(f.window/roomShare)))
	}
	if f.room.Acquire(reading, int64(n)) != nil {
		return 0
	}
	for n < jobs && f.room.TryAcquire(1) {
		n++
	}
	return n
}

// board notes the jobs: they may end before their answer is here.
func (f *flight) board(b batch) []*passenger {
	now := time.Now()
	people := make([]*passenger, len(b.jobs))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b.jobs {
		p := &passenger{landed: landed{line: b.lines[i]}, id: b.jobs[i].ID, seq: f.boarded, since: now}
		if b.inputs != nil {
			p.input = b.inputs[i]
		}
		f.boarded++
		f.open[p.id] = append(f.open[p.id], p)
		people[i] = p
	}
	f.oldest = append(f.oldest, people...)
	f.progress.update(func(t *tally) { t.sent += len(people) })
	return people
}

func (f *flight) send(ctx context.Context, b batch, people []*passenger) {
	got, err := f.watch.Enqueue(ctx, b.jobs)
	if err != nil {
		f.drop(people)
		if ctx.Err() == nil {
			f.fail(b.notEnqueued(err))
		}
		return
	}
	f.watch.Add(f.noteAnswer(people, got)...)
}

// noteAnswer notes which of the jobs stand for others, that hold their unique
// keys, and returns these.
func (f *flight) noteAnswer(people []*passenger, got client.BatchEnqueued) (holders []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = time.Now()
	f.duplicates += len(got.Duplicates)
	for i, id := range got.JobIDs {
		if p := people[i]; id != p.id && !p.down {
			f.remove(p)
			p.id = id
			f.open[id] = append(f.open[id], p)
			holders = append(holders, id)
		}
	}
	return holders
}

// drop forgets what was not sent.
func (f *flight) drop(people []*passenger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dropped := 0
	for _, p := range people {
		if !p.down {
			f.remove(p)
			p.down = true
			dropped++
		}
	}
	f.room.Release(int64(dropped))
	f.progress.update(func(t *tally) { t.sent -= dropped })
}

// remove takes one off the open ones. The caller holds the lock.
func (f *flight) remove(p *passenger) {
	rest := slices.DeleteFunc(f.open[p.id], func(other *passenger) bool { return other == p })
	if len(rest) == 0 {
		delete(f.open, p.id)
		return
	}
	f.open[p.id] = rest
}

// fail notes a fault: no more is read. A flight that has ended has no faults.
func (f *flight) fail(err error) {
	f.mu.Lock()
	first := f.fault == nil && !f.stopped
	if first {
		f.fault = err
	}
	f.mu.Unlock()
	if first {
		f.noMore()
		f.tell(err)
	}
}

// checkEnd ends the flight if all is read and has ended.
func (f *flight) checkEnd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.allRead && len(f.open) == 0 {
		f.allEnded(errAllEnded)
	}
}

// handOut hands out what ends, until all has.
func (f *flight) handOut(ctx context.Context) error {
	for {
		job, err := f.nextEnd(ctx)
		switch {
		case errors.Is(err, errAllEnded):
			return f.handAll(f.rest())
		case err != nil:
			return err
		}
		if err := f.handAll(f.land(job)); err != nil {
			return err
		}
		f.checkEnd()
	}
}

// nextEnd waits for the next job to end, but not longer than the oldest one may
// take.
func (f *flight) nextEnd(ctx context.Context) (v1.Job, error) {
	for f.waitFor > 0 {
		since, late := f.oldestOpen()
		short, cancel := context.WithDeadlineCause(ctx, since.Add(f.waitFor), client.ErrNotFinished)
		job, err := f.watch.Next(short)
		cancel()
		if !errors.Is(err, client.ErrNotFinished) {
			return job, err
		}
		if late == "" {
			continue
		}
		// Who reads the output may be so slow that the job's end waits here.
		if job, fault := f.c.Job(ctx, late); fault != nil || !client.Finished(job.Status) {
			return job, fmt.Errorf("job %s is enqueued, but: %w", late, err)
		}
		break
	}
	return f.watch.Next(ctx)
}

// oldestOpen is the job that was sent first; without one the time is now.
func (f *flight) oldestOpen() (since time.Time, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.oldest) > 0 && f.oldest[0].down {
		f.oldest = f.oldest[1:]
	}
	if len(f.oldest) == 0 {
		return time.Now(), ""
	}
	return f.oldest[0].since, f.oldest[0].id
}

// land notes that a job has ended, and returns what is to be handed out now.
func (f *flight) land(job v1.Job) (out []*passenger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	people := f.open[job.ID]
	delete(f.open, job.ID)
	for _, p := range people {
		p.job, p.down = job, true
		f.held[p.seq] = p
	}
	f.progress.update(func(t *tally) {
		t.ended += len(people)
		if f.failed(job) {
			t.failed += len(people)
		}
	})
	if !f.keepOrder {
		for _, p := range people {
			delete(f.held, p.seq)
		}
		return people
	}
	for p := f.held[f.next]; p != nil; p = f.held[f.next] {
		delete(f.held, f.next)
		out = append(out, p)
		f.next++
	}
	return out
}

// rest is what is held though all have ended: what was to come before was not
// sent.
func (f *flight) rest() (out []*passenger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for seq := f.next; seq < f.boarded && len(f.held) > 0; seq++ {
		if p := f.held[seq]; p != nil {
			delete(f.held, seq)
			out = append(out, p)
		}
	}
	return out
}

func (f *flight) handAll(people []*passenger) error {
	for _, p := range people {
		if err := f.progress.around(func() error { return f.each(p.landed) }); err != nil {
			return err
		}
		f.room.Release(1)
	}
	return nil
}
