package queue

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

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// batchesInFlight bounds the batches that are sent and not answered.
const batchesInFlight = 4

// sender enqueues jobs, and reports their ends. client.Watch is one.
type sender interface {
	Enqueue(ctx context.Context, jobs []client.NewJob) (client.BatchEnqueued, error)
	// Add adds jobs that exist already.
	Add(ids ...string)
	// Next waits for the next job to end.
	Next(ctx context.Context) (v1.Job, error)
}

// enqueuer is a sender for a command that does not wait: a job has ended when it is enqueued.
type enqueuer struct {
	ctx  context.Context // of the command
	c    *client.Client
	done chan string
}

// Enqueue implements sender. Add gets the ids that are not those of the jobs.
func (e *enqueuer) Enqueue(ctx context.Context, jobs []client.NewJob) (client.BatchEnqueued, error) {
	got, err := e.c.EnqueueBatch(ctx, jobs)
	for i, id := range got.JobIDs {
		if err == nil && id == jobs[i].ID {
			e.Add(id)
		}
	}
	return got, err
}

// Add implements sender.
func (e *enqueuer) Add(ids ...string) {
	for _, id := range ids {
		select {
		case e.done <- id:
		case <-e.ctx.Done():
			return
		}
	}
}

// Next implements sender.
func (e *enqueuer) Next(ctx context.Context) (v1.Job, error) {
	select {
	case id := <-e.done:
		return v1.Job{ID: id}, nil
	case <-ctx.Done():
		return v1.Job{}, context.Cause(ctx)
	}
}

// pipelineConfig configures how jobs are sent and awaited.
type pipelineConfig struct {
	g         *view.Globals
	c         *client.Client
	to        sender
	progress  *view.Progress
	window    int64              // the maximal number of jobs that are sent and not delivered
	keepOrder bool               // deliver jobs in the order of the lines
	waitFor   time.Duration      // the time limit of one job from its sending on; 0: no limit
	keyOf     func(batch) string // the idempotency key of a whole batch; nil: batches may be cut
	whole     bool               // batches are full, if the input has more lines
	failed    func(v1.Job) bool
	each      func(endedLine) error // receives each ended job; its error ends the pipeline
}

// endedLine is an ended job and the number of its line.
type endedLine struct {
	line  int // from 1
	input string
	job   v1.Job
}

// pipeline sends batches of jobs and delivers each job when it has ended. After an error
// it sends no more, but waits for the jobs that were sent. One goroutine sends; the
// caller of run delivers.
type pipeline struct {
	pipelineConfig
	space *semaphore.Weighted

	mu         sync.Mutex
	open       map[string][]*openLine // sent or being sent, by id
	oldest     []*openLine            // in the order of sending; some have ended
	held       map[int]*openLine      // ended, and waiting for delivery in order
	recorded   int                    // the number of lines that were sent
	next       int                    // the next line to deliver, if delivery is in order
	duplicates int
	unsure     int       // the number of jobs that may exist: the answer to their request was lost
	answered   time.Time // when the last batch was answered
	allRead    bool      // whether all lines are read and sent
	fault      error     // the first error of reading or sending
	stopped    bool      // whether run has returned
	noMore     context.CancelFunc
	allEnded   context.CancelCauseFunc
}

// openLine is a line whose job was sent.
type openLine struct {
	endedLine
	id      string // its key in open
	seq     int    // from 0, without gaps
	since   time.Time
	settled bool // the job has ended, or was not sent
}

// errAllEnded ends the wait; it is no failure.
var errAllEnded = errors.New("all jobs have ended")

func newPipeline(cfg pipelineConfig) *pipeline {
	return &pipeline{
		pipelineConfig: cfg, space: semaphore.NewWeighted(cfg.window),
		open: make(map[string][]*openLine), held: make(map[int]*openLine),
	}
}

// run sends the lines in batches of at most most bytes, and delivers jobs until all have ended. If the
// source of lines is blocked when ctx ends, run does not wait for it. Output to a closed pipe is an
// error meanwhile.
func (f *pipeline) run(ctx context.Context, lines *lineReader, most int) error {
	restore := closedPipe()
	defer restore()
	defer f.progress.Close()
	ended, allEnded := context.WithCancelCause(ctx)
	defer allEnded(nil)
	reading, noMore := context.WithCancel(ended)
	defer noMore()
	f.allEnded, f.noMore = allEnded, noMore
	go f.sendAll(ended, reading, batches(ended, lines.all(), most, f.whole))
	err := f.deliver(ended)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if err == nil && f.fault != nil {
		err = view.SilentError{} // the error has been printed
	}
	return err
}

// waiting returns the number of jobs that were sent and may not have ended.
func (f *pipeline) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.unsure
	for _, list := range f.open {
		n += len(list)
	}
	return n
}

// outcome returns the error of a command, for that of run. again is the flag with which the command can be given again,
// and how describes how to wait for the jobs that continue.
func (f *pipeline) outcome(ctx context.Context, err error, again, how string) error {
	switch sent := f.progress.Figures().Sent; {
	case !errors.As(err, new(view.SilentError)) || again == "":
		return leaving(ctx, err, f.waiting(), how)
	case sent > 0:
		return errors.New("not all lines were sent; correct the cause, and continue with the same command and " + again)
	}
	return err
}

// known returns the number of jobs that existed before.
func (f *pipeline) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.duplicates
}

// lastAnswered returns the time at which the last batch was enqueued.
func (f *pipeline) lastAnswered() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answered
}

// sendAll sends batches until the end of the input or an error.
func (f *pipeline) sendAll(ctx, reading context.Context, all iter.Seq2[batch, error]) {
	var requests errgroup.Group
	requests.SetLimit(batchesInFlight)
	for b, err := range all {
		if err != nil {
			f.fail(err)
			break
		}
		if !f.sendParts(ctx, reading, &requests, b) {
			break
		}
	}
	_ = requests.Wait() // errors are reported as they happen
	f.mu.Lock()
	f.allRead = true
	f.mu.Unlock()
	f.checkEnd()
}

// sendParts sends a batch, in parts if the window has space for a part only. It returns
// false when sending must end.
func (f *pipeline) sendParts(ctx, reading context.Context, requests *errgroup.Group, b batch) bool {
	for len(b.jobs) > 0 {
		n := f.takeSpace(reading, len(b.jobs))
		if n == 0 {
			return false
		}
		var part batch
		part, b = b.cut(n)
		keyed := ctx
		if f.keyOf != nil {
			keyed = withKey(ctx, f.keyOf(part))
		}
		part.jobs = client.WithIDs(keyed, part.jobs)
		lines := f.record(part)
		requests.Go(func() error {
			f.send(keyed, part, lines)
			return nil
		})
	}
	return reading.Err() == nil
}

// windowShare is the fraction of the window that a request waits for. Without it, each
// job that ends would lead to a request with one job.
const windowShare = 16

// A window has space for a batch that must not be split: takeSpace would not return otherwise.
const _ = uint(submitWindow - client.MaxBatchJobs)

// takeSpace waits until the window has space for some jobs, or for all if the batch must
// not be split. It returns their number, or 0 when reading has ended.
func (f *pipeline) takeSpace(reading context.Context, jobs int) (n int) {
	n = jobs
	if f.keyOf == nil {
		n = min(jobs, max(1, int(f.window/windowShare)))
	}
	if f.space.Acquire(reading, int64(n)) != nil {
		return 0
	}
	for n < jobs && f.space.TryAcquire(1) {
		n++
	}
	return n
}

// record adds the jobs before they are sent, because they may end before the answer
// arrives.
func (f *pipeline) record(b batch) []*openLine {
	now := time.Now()
	lines := make([]*openLine, len(b.jobs))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b.jobs {
		p := &openLine{endedLine: endedLine{line: b.lines[i], input: b.inputs[i]}, id: b.jobs[i].ID, seq: f.recorded, since: now}
		f.recorded++
		f.open[p.id] = append(f.open[p.id], p)
		lines[i] = p
	}
	f.oldest = append(f.oldest, lines...)
	f.progress.Update(func(t *view.Figures) { t.Sent += len(lines) })
	return lines
}

func (f *pipeline) send(ctx context.Context, b batch, lines []*openLine) {
	got, err := f.to.Enqueue(ctx, b.jobs)
	if err != nil {
		f.drop(lines, mayBeEnqueued(err))
		if ctx.Err() == nil {
			f.fail(b.notEnqueued(err))
		}
		return
	}
	f.to.Add(f.noteAnswer(lines, got)...)
}

// noteAnswer marks the lines whose unique keys other jobs hold, and returns the ids of
// these jobs.
func (f *pipeline) noteAnswer(lines []*openLine, got client.BatchEnqueued) (holders []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = time.Now()
	f.duplicates += len(got.Duplicates)
	for i, id := range got.JobIDs {
		if p := lines[i]; id != p.id && !p.settled {
			f.remove(p)
			p.id = id
			f.open[id] = append(f.open[id], p)
			holders = append(holders, id)
		}
	}
	return holders
}

// drop removes lines that were not sent, or whose jobs may exist.
func (f *pipeline) drop(lines []*openLine, mayExist bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dropped := 0
	for _, p := range lines {
		if !p.settled {
			f.remove(p)
			p.settled = true
			dropped++
		}
	}
	f.space.Release(int64(dropped))
	if mayExist {
		f.unsure += dropped
		return
	}
	f.progress.Update(func(t *view.Figures) { t.Sent -= dropped })
}

// remove removes a line from open. The caller holds the lock.
func (f *pipeline) remove(p *openLine) {
	rest := slices.DeleteFunc(f.open[p.id], func(other *openLine) bool { return other == p })
	if len(rest) == 0 {
		delete(f.open, p.id)
		return
	}
	f.open[p.id] = rest
}

// fail records an error and ends the reading. It does nothing after run has returned.
func (f *pipeline) fail(err error) {
	f.mu.Lock()
	first := f.fault == nil && !f.stopped
	if first {
		f.fault = err
	}
	f.mu.Unlock()
	if first {
		f.noMore()
		_ = f.progress.Around(func() error { // at once, although the command waits for the jobs that were sent
			f.g.PrintError(err)
			return nil
		})
	}
}

// checkEnd ends the wait if all lines are sent and have ended.
func (f *pipeline) checkEnd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.allRead && len(f.open) == 0 {
		f.allEnded(errAllEnded)
	}
}

// deliver delivers ended jobs until all have ended.
func (f *pipeline) deliver(ctx context.Context) error {
	for {
		job, err := f.nextEnd(ctx)
		switch {
		case errors.Is(err, errAllEnded):
			return f.deliverAll(f.rest())
		case err != nil:
			return err
		}
		if err := f.deliverAll(f.jobEnded(job)); err != nil {
			return err
		}
		f.checkEnd()
	}
}

// nextEnd waits for the next job to end, at most until the time limit of the oldest one.
func (f *pipeline) nextEnd(ctx context.Context) (v1.Job, error) {
	for f.waitFor > 0 {
		since, late := f.oldestOpen()
		short, cancel := context.WithDeadlineCause(ctx, since.Add(f.waitFor), client.ErrNotFinished)
		job, err := f.to.Next(short)
		cancel()
		if !errors.Is(err, client.ErrNotFinished) {
			return job, err
		}
		if late == "" {
			continue
		}
		// If the reader of the output is slow, the job may have ended in time, but its
		// end was not delivered.
		if job, fault := f.c.Job(ctx, late); fault != nil && !errors.As(fault, new(*client.SealError)) || !client.Finished(job.Status) {
			return job, fmt.Errorf("job %s is enqueued, but: %w", late, err)
		}
		break
	}
	return f.to.Next(ctx)
}

// oldestOpen returns the job that was sent first. If there is none, since is now.
func (f *pipeline) oldestOpen() (since time.Time, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.oldest) > 0 && f.oldest[0].settled {
		f.oldest = f.oldest[1:]
	}
	if len(f.oldest) == 0 {
		return time.Now(), ""
	}
	return f.oldest[0].since, f.oldest[0].id
}

// jobEnded records that a job has ended, and returns the lines to deliver now.
func (f *pipeline) jobEnded(job v1.Job) (out []*openLine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.open[job.ID]
	delete(f.open, job.ID)
	for _, p := range lines {
		p.job, p.settled = job, true
		f.held[p.seq] = p
	}
	f.progress.Update(func(t *view.Figures) {
		t.Ended += len(lines)
		if f.failed(job) {
			t.Failed += len(lines)
		}
	})
	if !f.keepOrder {
		for _, p := range lines {
			delete(f.held, p.seq)
		}
		return lines
	}
	for p := f.held[f.next]; p != nil; p = f.held[f.next] {
		delete(f.held, f.next)
		out = append(out, p)
		f.next++
	}
	return out
}

// rest returns the lines that wait for a line that was never sent, when all jobs have
// ended.
func (f *pipeline) rest() (out []*openLine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for seq := f.next; seq < f.recorded && len(f.held) > 0; seq++ {
		if p := f.held[seq]; p != nil {
			delete(f.held, seq)
			out = append(out, p)
		}
	}
	return out
}

func (f *pipeline) deliverAll(lines []*openLine) error {
	for _, p := range lines {
		if err := f.progress.Around(func() error { return f.each(p.endedLine) }); err != nil {
			return err
		}
		f.space.Release(1)
	}
	return nil
}
