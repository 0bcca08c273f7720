package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

const (
	// batchesInFlight bounds the batches that are sent and not answered.
	batchesInFlight = 4
	// submitWindow bounds the jobs that were sent and have not ended, unless a flag does.
	submitWindow = 100_000
)

// watcher reports the ends of jobs. client.Watch is one.
type watcher interface {
	// Add adds jobs that exist already.
	Add(ids ...string)
	// Next waits for the next job to end.
	Next(ctx context.Context) (v1.Job, error)
}

// pipeline sends the jobs of a source in batches, and delivers each job when it has ended. After an
// error it sends no more, but waits for the jobs that were sent. One goroutine sends and one waits
// for ends; the caller of run delivers. submit, map, run, drop and job wait are configurations of it.
type pipeline struct {
	g         *view.Globals
	c         *client.Client // for the questions about jobs that do not end; may be nil without watch
	enqueue   func(context.Context, []client.NewJob) (client.BatchEnqueued, error)
	watch     watcher // nil: a job has ended when it is enqueued
	progress  *view.Progress
	window    int64              // the maximal number of jobs that are sent and not delivered
	keepOrder bool               // deliver jobs in the order of the lines
	waitFor   time.Duration      // the time limit of one job from its sending on; 0: no limit
	keyOf     func(batch) string // the idempotency key of a whole batch; nil: batches may be cut
	whole     bool               // batches are full, if the input has more lines
	start     string             // how to start a worker if there is none, with %s for the type; "": no hint
	failed    func(v1.Job) bool  // nil: no job
	each      func(*line) error  // receives each ended job; its error ends the pipeline

	space *semaphore.Weighted
	ended chan endOfJob

	mu         sync.Mutex
	open       map[string][]*line // sent or being sent, by id
	sent       []*line            // in the order of sending, from the first one that is not over
	duplicates int
	unsure     int       // the number of jobs that may exist: the answer to their request was lost
	answered   time.Time // when the last batch was answered
	allRead    bool      // whether all lines are read and sent
	fault      error     // the first error of reading or sending
	noMore     context.CancelFunc
	allEnded   context.CancelCauseFunc
}

// endOfJob is an item of the watch.
type endOfJob struct {
	job v1.Job
	err error
}

// errAllEnded ends the wait; it is no failure.
var errAllEnded = errors.New("all jobs have ended")

// run sends the lines, and delivers jobs until all have ended. If the source of lines is blocked
// when ctx ends, run does not wait for it, but it waits for the answers to its requests. Output to a
// closed pipe is an error meanwhile.
func (p *pipeline) run(ctx context.Context, lines iter.Seq[*line]) error {
	restore := closedPipe()
	defer restore()
	defer p.progress.Close()
	p.space, p.open, p.ended = semaphore.NewWeighted(p.window), make(map[string][]*line), make(chan endOfJob)
	ctx, p.allEnded = context.WithCancelCause(ctx)
	reading, noMore := context.WithCancel(ctx)
	p.noMore = noMore
	var tasks sync.WaitGroup
	tasks.Go(func() { p.sendAll(ctx, reading, lines) })
	if p.watch != nil {
		tasks.Go(func() { p.await(ctx) })
		tasks.Go(func() { p.hint(ctx) })
	}
	err := p.deliver(ctx)
	p.allEnded(nil)
	noMore()
	tasks.Wait()
	if err == nil && p.fault != nil {
		err = view.SilentError{} // the error has been printed
	}
	return err
}

// outcome returns the error of a command, for that of run. again is the flag with which the command can be given again, and
// how describes how to wait for the jobs that continue.
func (p *pipeline) outcome(ctx context.Context, err error, again, how string) error {
	waiting := p.waiting()
	text := goOn(waiting) + "; " + how
	switch {
	case err == nil, errors.As(err, new(*view.ExitError)), errors.As(err, new(*client.SealError)), client.IsNotFound(err):
		return err
	case errors.As(err, new(view.SilentError)):
		if again == "" || p.progress.Figures().Sent == 0 {
			return err
		}
		return errors.New("not all jobs were sent; correct the cause, and continue with the same command and " + again)
	case errors.Is(err, syscall.EPIPE) && (waiting == 0 || p.watch == nil):
		return &view.ExitError{Code: view.ExitClosedPipe, Err: view.SilentError{}}
	case errors.Is(err, syscall.EPIPE):
		return &view.ExitError{Code: view.ExitClosedPipe, Err: errors.New(text)}
	case ctx.Err() != nil && p.watch == nil:
		return interrupted("interrupted before all jobs were sent")
	case ctx.Err() != nil:
		return interrupted(text)
	case waiting == 0:
		return err
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// waiting returns the number of jobs that were sent and may not have ended.
func (p *pipeline) waiting() int {
	n := p.unsure
	for _, list := range p.open {
		n += len(list)
	}
	return n
}

// interrupted returns the error of a command that Ctrl-C has ended. text names the jobs
// that continue.
func interrupted(text string) error {
	return &view.ExitError{Code: view.ExitInterrupted, Err: errors.New(text)}
}

// closedPipe makes writes to a closed pipe fail instead of ending the process, until
// restore is called, so that the command can still print its advice.
func closedPipe() (restore func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// goOn describes the jobs that continue.
func goOn(jobs int) string {
	if jobs == 1 {
		return "1 job continues"
	}
	return fmt.Sprintf("%d jobs continue", jobs)
}

// existed describes the jobs that existed before.
func (p *pipeline) existed() string {
	if p.duplicates == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them existed already", p.duplicates)
}

// sendAll sends batches until the end of the input or an error.
func (p *pipeline) sendAll(ctx, reading context.Context, lines iter.Seq[*line]) {
	var requests errgroup.Group
	requests.SetLimit(batchesInFlight)
	for b, err := range batches(reading, lines, p.g.MaxBatchBytes(), p.whole) {
		if err != nil {
			p.fail(reading, err)
			break
		}
		for len(b) > 0 {
			n := p.takeSpace(reading, len(b))
			if n == 0 {
				break
			}
			part, keyed := b[:n], ctx
			b = b[n:]
			if p.keyOf != nil {
				keyed = withKey(ctx, p.keyOf(part))
			}
			jobs := p.record(keyed, part)
			requests.Go(func() error {
				p.send(keyed, jobs, part)
				return nil
			})
		}
	}
	_ = requests.Wait() // errors are reported as they happen
	p.mu.Lock()
	p.allRead = true
	p.mu.Unlock()
	p.checkEnd()
}

// windowShare is the fraction of the window that a request waits for. Without it, each
// job that ends would lead to a request with one job.
const windowShare = 16

// A window has space for a batch that must not be split: takeSpace would not return otherwise.
const _ = uint(submitWindow - client.MaxBatchJobs)

// takeSpace waits until the window has space for some jobs, or for all if the batch must
// not be split. It returns their number, or 0 when reading has ended.
func (p *pipeline) takeSpace(reading context.Context, jobs int) (n int) {
	n = jobs
	if p.keyOf == nil {
		n = min(jobs, max(1, int(p.window/windowShare)))
	}
	if p.space.Acquire(reading, int64(n)) != nil {
		return 0
	}
	for n < jobs && p.space.TryAcquire(1) {
		n++
	}
	return n
}

// record adds the lines before their jobs are sent, because they may end before the answer
// arrives. It returns the jobs.
func (p *pipeline) record(ctx context.Context, b batch) []client.NewJob {
	jobs := make([]client.NewJob, len(b))
	for i, l := range b {
		jobs[i], l.job = l.job, client.NewJob{} // its payload is not needed any more
	}
	jobs = client.WithIDs(ctx, jobs)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range b {
		l.id, l.since = jobs[i].ID, now
		p.open[l.id] = append(p.open[l.id], l)
	}
	p.sent = append(p.sent, b...)
	p.progress.Update(func(t *view.Figures) { t.Sent += len(b) })
	return jobs
}

func (p *pipeline) send(ctx context.Context, jobs []client.NewJob, b batch) {
	got, err := p.enqueue(ctx, jobs)
	if err != nil {
		p.drop(b, mayBeEnqueued(err))
		p.fail(ctx, b.notEnqueued(err))
		return
	}
	holders := p.noteAnswer(b, got)
	if p.watch != nil {
		p.watch.Add(holders...)
		return
	}
	for _, id := range got.JobIDs {
		select {
		case p.ended <- endOfJob{job: v1.Job{ID: id}}:
		case <-ctx.Done():
			return
		}
	}
}

// noteAnswer marks the lines whose unique keys other jobs hold, and returns the ids of
// these jobs.
func (p *pipeline) noteAnswer(b batch, got client.BatchEnqueued) (holders []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = time.Now()
	p.duplicates += len(got.Duplicates)
	for i, id := range got.JobIDs {
		if l := b[i]; id != l.id && !l.over {
			p.remove(l)
			l.id = id
			p.open[id] = append(p.open[id], l)
			holders = append(holders, id)
		}
	}
	return holders
}

// drop removes lines that were not sent, or whose jobs may exist.
func (p *pipeline) drop(b batch, mayExist bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dropped := 0
	for _, l := range b {
		if !l.over {
			p.remove(l)
			l.over = true
			dropped++
		}
	}
	p.space.Release(int64(dropped))
	if mayExist {
		p.unsure += dropped
		return
	}
	p.progress.Update(func(t *view.Figures) { t.Sent -= dropped })
}

// remove removes a line from open. The caller holds the lock.
func (p *pipeline) remove(l *line) {
	if p.open[l.id] = slices.DeleteFunc(p.open[l.id], func(other *line) bool { return other == l }); len(p.open[l.id]) == 0 {
		delete(p.open, l.id)
	}
}

// fail records an error, and ends the reading. It does nothing if the command has ended meanwhile.
func (p *pipeline) fail(ctx context.Context, err error) {
	p.mu.Lock()
	first := p.fault == nil && ctx.Err() == nil
	if first {
		p.fault = err
	}
	p.mu.Unlock()
	if first {
		p.noMore()
		_ = p.progress.Around(func() error { // at once, although the command waits for the jobs that were sent
			p.g.PrintError(err)
			return nil
		})
	}
}

// checkEnd ends the wait if all lines are sent and have ended.
func (p *pipeline) checkEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.allRead && len(p.open) == 0 {
		p.allEnded(errAllEnded)
	}
}

// await takes ends from the watch until ctx ends.
func (p *pipeline) await(ctx context.Context) {
	for ctx.Err() == nil {
		job, err := p.watch.Next(ctx)
		select {
		case p.ended <- endOfJob{job, err}:
		case <-ctx.Done():
		}
	}
}

// hint prints a note after some time if no worker takes the first job.
func (p *pipeline) hint(ctx context.Context) {
	if p.start == "" || !sleep.For(ctx, idleNotice) {
		return
	}
	_, id := p.oldest()
	if id == "" || p.progress.Figures().Ended > 0 {
		return
	}
	if job, _ := p.c.Job(ctx, id); job.Status == v1.StatusUnclaimed { // its type is never encrypted
		text := noWorker(ctx, p.c, job.Type, p.start)
		_ = p.progress.Around(func() error { return view.WritePlain(p.g.Err, text) })
	}
}

// deliver delivers ended jobs until all have ended.
func (p *pipeline) deliver(ctx context.Context) error {
	for {
		job, err := p.nextEnd(ctx)
		switch {
		case errors.Is(err, errAllEnded) && p.keepOrder:
			return p.write(p.front()) // they wait for a line that was not sent
		case errors.Is(err, errAllEnded):
			return nil
		case err != nil:
			return err
		}
		if err := p.write(p.jobEnded(job)); err != nil {
			return err
		}
		p.checkEnd()
	}
}

// nextEnd waits for the next job to end, at most until the time limit of the oldest one.
func (p *pipeline) nextEnd(ctx context.Context) (v1.Job, error) {
	for limit := p.waitFor; ; {
		var late <-chan time.Time
		since, id := p.oldest()
		if limit > 0 {
			late = time.After(time.Until(since.Add(limit)))
		}
		select {
		case end := <-p.ended:
			return end.job, end.err
		case <-ctx.Done():
			return v1.Job{}, context.Cause(ctx)
		case <-late:
		}
		if _, now := p.oldest(); id == "" || id != now {
			continue
		}
		// If the reader of the output is slow, the job may have ended in time, but its
		// end was not delivered.
		job, _ := p.c.Job(ctx, id)
		if !client.Finished(job.Status) {
			return job, fmt.Errorf("job %s is enqueued%s, but: %w", id, seenAs(job), client.ErrNotFinished)
		}
		limit = 0
	}
}

// seenAs describes the status of a job, if it is known.
func seenAs(job v1.Job) string {
	if job.Status == "" {
		return ""
	}
	return " and " + v1.StatusWord(job.Status)
}

// oldest returns the job that was sent first, of those that are not over. If there is none, since is now.
func (p *pipeline) oldest() (since time.Time, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.sent {
		if !l.over {
			return l.since, l.id
		}
	}
	return time.Now(), ""
}

// jobEnded records that a job has ended, and returns the lines to deliver now.
func (p *pipeline) jobEnded(job v1.Job) []*line {
	p.mu.Lock()
	lines := p.open[job.ID]
	delete(p.open, job.ID)
	for _, l := range lines {
		l.ended, l.over = job, true
	}
	p.mu.Unlock()
	p.progress.Update(func(t *view.Figures) {
		t.Ended += len(lines)
		if p.failed != nil && p.failed(job) {
			t.Failed += len(lines)
		}
	})
	if first := p.front(); p.keepOrder {
		return first
	}
	return lines
}

// front removes the first lines that are over, and returns those of them whose jobs have ended.
func (p *pipeline) front() (out []*line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.sent) > 0 && p.sent[0].over {
		if p.sent[0].ended.ID != "" {
			out = append(out, p.sent[0])
		}
		p.sent = p.sent[1:]
	}
	return out
}

// write delivers lines.
func (p *pipeline) write(lines []*line) error {
	for _, l := range lines {
		if err := p.progress.Around(func() error { return p.each(l) }); err != nil {
			return err
		}
		p.space.Release(1)
	}
	return nil
}
