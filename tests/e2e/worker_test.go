package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// execution is one call of a handler, and the outcome that the worker reported.
type execution struct {
	token   uint64
	attempt int
	outcome worker.Outcome // "": not said yet
	said    int            // how often it was said
}

// workLog records the actions of a worker: every start of a handler, and every outcome.
type workLog struct {
	mu      sync.Mutex
	byJob   map[string][]*execution
	started int
	errs    []error
}

func newWorkLog() *workLog { return &workLog{byJob: make(map[string][]*execution)} }

// around records the start of a handler.
func (l *workLog) around(next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		l.mu.Lock()
		l.byJob[job.ID] = append(l.byJob[job.ID], &execution{token: job.Token, attempt: job.Attempt})
		l.started++
		l.mu.Unlock()
		return next(ctx, job)
	}
}

// finished records an outcome. A job that was claimed ahead and released has one without a
// start.
func (l *workLog) finished(f worker.Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.byJob[f.Job.ID] {
		if e.token == f.Job.Token {
			e.outcome = f.Outcome
			e.said++
			return
		}
	}
	if f.Outcome == worker.Completed {
		l.errs = append(l.errs, fmt.Errorf("%s was completed, and never started", f.Job.ID))
	}
}

func (l *workLog) starts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

// check compares the record with the cluster's jobs: exactly one execution completed each job,
// with the token in the cluster, and every other execution learned that it does not count. It
// returns the number of these others by outcome.
func (l *workLog) check(jobs map[string]v1.Job) (others map[worker.Outcome]int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := slices.Clone(l.errs)
	others = make(map[worker.Outcome]int)
	for id, job := range jobs {
		var completed []uint64
		tokens := make(map[uint64]bool)
		for _, e := range l.byJob[id] {
			if tokens[e.token] || e.said != 1 {
				errs = append(errs, fmt.Errorf("%s: token %d was started twice, or has %d outcomes", id, e.token, e.said))
			}
			tokens[e.token] = true
			if e.outcome == worker.Completed {
				completed = append(completed, e.token)
			} else {
				others[e.outcome]++
			}
		}
		if job.Status != v1.StatusCompleted || !slices.Equal(completed, []uint64{job.Token}) {
			errs = append(errs, fmt.Errorf("%s is %s under token %d; completed under %d", id, job.Status, job.Token, completed))
		}
	}
	return others, errors.Join(errs...)
}

// runWorker runs a worker until stop, which fails the test if the worker has left jobs
// unfinished.
func runWorker(t *testing.T, w *worker.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func submitType(t *testing.T, c *cluster.Cluster, jobType string, n int) {
	t.Helper()
	for left := n; left > 0; left -= client.MaxBatchJobs {
		batch := make([]client.NewJob, min(left, client.MaxBatchJobs))
		for i := range batch {
			batch[i] = client.NewJob{Type: jobType}
		}
		if _, err := c.Client.EnqueueBatch(c.Context(20*time.Second), batch); err != nil {
			t.Fatal(err)
		}
	}
}

func jobsByID(t *testing.T, c *cluster.Cluster) map[string]v1.Job {
	t.Helper()
	jobs := make(map[string]v1.Job)
	for j, err := range c.Client.Jobs(c.Context(60*time.Second), client.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		jobs[j.ID] = j
	}
	return jobs
}

func waitCompleted(t *testing.T, c *cluster.Cluster, n uint64, within time.Duration) {
	t.Helper()
	c.Eventually(within, "all jobs to be completed", func() error {
		s, err := c.Client.Stats(c.Context(5 * time.Second))
		if err == nil && s.CompletedTotal < n {
			err = fmt.Errorf("%d of %d completed, %d in progress, %d unclaimed", s.CompletedTotal, n, s.InProgress, s.Unclaimed)
		}
		return err
	})
}

// A worker runs 10 000 jobs, 64 at once, while the leader is killed. It records an outcome of
// every job that it started, and every job was completed once.
func TestWorkerDoesAllJobsOnceThoughTheLeaderDies(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	c := cluster.Start(t, cluster.Options{})
	cl := c.NewClient()
	t.Cleanup(cl.Close)
	submitType(t, c, "t", jobs)
	l := newWorkLog()
	w, err := worker.New(cl, worker.Config{
		Name: "w", Concurrency: 64, Prefetch: 512, Lease: 10 * time.Second, Finished: l.finished,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Use(l.around)
	w.Handle("t", func(_ context.Context, job worker.Job) (json.RawMessage, error) {
		time.Sleep(time.Millisecond) // the work
		return jsontext.AppendQuote(nil, job.ID)
	})
	stop := runWorker(t, w)
	c.Eventually(60*time.Second, "half of the jobs to be started", func() error {
		if n := l.starts(); n < jobs/2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	old := c.WaitLeader()
	old.Kill()
	at := l.starts()
	waitCompleted(t, c, jobs, 120*time.Second)
	stop()
	all := jobsByID(t, c)
	others, err := l.check(all)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Client.Stats(c.Context(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != jobs || s.CompletedTotal != jobs {
		t.Fatalf("%d jobs, %d completions", len(all), s.CompletedTotal)
	}
	for id, j := range all {
		if want := fmt.Sprintf("%q", id); string(j.Result) != want {
			t.Fatalf("%s has the result %s", id, j.Result)
		}
	}
	if at >= jobs {
		t.Errorf("all were started before %s was killed", old.Name)
	}
	t.Logf("%d started when %s was killed; %d executions of %d jobs, besides those that completed: %v",
		at, old.Name, l.starts(), jobs, others)
}

// The leader dies while a handler runs: the handler continues, and its outcome is reported
// once.
func TestLeaderDiesInMidJob(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	cl := c.NewClient()
	t.Cleanup(cl.Close)
	submitType(t, c, "t", 1)
	l := newWorkLog()
	w, err := worker.New(cl, worker.Config{Name: "w", Concurrency: 1, Prefetch: 1, Lease: 6 * time.Second, Finished: l.finished})
	if err != nil {
		t.Fatal(err)
	}
	begun, finish := make(chan struct{}), make(chan struct{})
	w.Use(l.around)
	w.Handle("t", func(ctx context.Context, _ worker.Job) (json.RawMessage, error) {
		close(begun) // a second start panics, and fails the attempt
		select {
		case <-finish:
			return json.RawMessage("1"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	stop := runWorker(t, w)
	<-begun
	old := c.WaitLeader()
	old.Kill()
	c.WaitOtherLeader(old)
	close(finish)
	waitCompleted(t, c, 1, 60*time.Second)
	stop()
	others, err := l.check(jobsByID(t, c))
	if err != nil || len(others) != 0 {
		t.Fatalf("%v, %v", others, err)
	}
}
