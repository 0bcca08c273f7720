package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/internal/runner"
)

const (
	handlersAtOnce = 64
	// prefetched covers the jobs that handlers without work end within a few round trips.
	prefetched = 2000
	// noopRate and commandRate are upper bounds of the rate, in jobs per second: so many jobs
	// are enqueued per second of the measurement before the clock starts.
	noopRate    = 40_000
	commandRate = 2_000
	// commandsAtOnce is the number of programs that run at once, with the cluster and in the
	// bare loop: on two cores more programs only wait for each other.
	commandsAtOnce = 2
	// command is the program that both of them start.
	command = "true"
)

// worker measures the Go worker: handlers that do nothing, with and without prefetch, and
// commands compared with the bare start of the same program.
func (b *bench) worker() error {
	var errs []error
	for _, prefetch := range []int{0, prefetched} {
		errs = append(errs, b.withCluster(func(br *brokers) error { return b.noopJobs(br, prefetch) }))
	}
	return errors.Join(append(errs, b.withCluster(b.commandJobs))...)
}

// noopJobs measures claims, handlers and reports of jobs that are waiting
// already.
func (b *bench) noopJobs(br *brokers, prefetch int) error {
	noop := func(context.Context, worker.Job) (json.RawMessage, error) { return nil, nil }
	cfg := worker.Config{Concurrency: handlersAtOnce, Prefetch: prefetch}
	rate, cost, err := b.workThrough(br, cfg, noop, noopRate, fmt.Sprintf("worker-%d", prefetch))
	if err != nil {
		return err
	}
	f := figure{
		Section: "worker", Name: fmt.Sprintf("no-op handlers, prefetch %d", prefetch), Value: rate, Unit: "jobs/s",
		Cost: cost,
	}
	if prefetch > 0 {
		f = f.atLeast(20_000)
	}
	b.report.add(f)
	return nil
}

// commandJobs measures jobs that start a program, and before and after them the
// bare start of it, while the cluster is there and idle.
func (b *bench) commandJobs(br *brokers) error {
	run, err := runner.Command(command)
	if err != nil {
		return err
	}
	before, err := b.bareCommands()
	if err != nil {
		return err
	}
	cfg := worker.Config{Concurrency: commandsAtOnce, Prefetch: 100}
	rate, cost, err := b.workThrough(br, cfg, run, commandRate, "worker-command")
	if err != nil {
		return err
	}
	after, err := b.bareCommands()
	if err != nil {
		return err
	}
	bare := (before + after) / 2
	b.report.add(figure{Section: "worker", Name: "bare start of a program", Value: bare, Unit: "starts/s"})
	f := figure{
		Section: "worker", Name: "commands", Value: rate, Unit: "jobs/s", Beside: times(rate/bare) + " the bare start",
		Cost: cost,
	}
	met := rate >= 0.6*bare
	f.Aim, f.Met = "≥ 0.6 × the bare start", &met
	b.report.add(f)
	return nil
}

// bareCommands starts the program in loops, as many as commands run at once,
// and returns the starts a second.
func (b *bench) bareCommands() (perSecond float64, err error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return 0, err
	}
	var done atomic.Int64
	var loops sync.WaitGroup
	errs := make(chan error, commandsAtOnce)
	began := time.Now()
	for range commandsAtOnce {
		loops.Go(func() {
			for time.Since(began) < b.duration {
				if err := exec.Command(path).Run(); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	loops.Wait()
	close(errs)
	return float64(done.Load()) / time.Since(began).Seconds(), <-errs
}

// workThrough enqueues enough jobs for the time at that rate, lets a worker do
// them for that time, or until none is left, and returns how many it completed a
// second.
func (b *bench) workThrough(br *brokers, cfg worker.Config, fn worker.HandlerFunc, most int, profile string,
) (rate float64, c *cost, err error) {
	cl, err := client.New(client.Config{Servers: br.Servers()})
	if err != nil {
		return 0, nil, err
	}
	defer cl.Close()
	jobs := max(int(float64(most)*b.duration.Seconds())/client.MaxBatchJobs, 1)
	if err := repeatTimes(br.leader.HTTP, jobs, enqueueBatch(br.leader.HTTP, client.MaxBatchJobs)); err != nil {
		return 0, nil, err
	}
	jobs *= client.MaxBatchJobs
	end, err := b.startProfiles(profile, br)
	if err != nil {
		return 0, nil, err
	}
	defer end()
	endOwn, err := b.profileSelf(profile)
	if err != nil {
		return 0, nil, err
	}
	defer endOwn()
	c, err = costOf(br.Cluster, br.leader, func() (err error) {
		rate, err = completions(cl, cfg, fn, int64(jobs), b.duration)
		return err
	})
	return rate, c, err
}

// firstJobWithin is how long completions waits for the first job beyond its time: on a busy
// machine a short measurement would end before the first batch, with a rate of zero.
const firstJobWithin = 10 * time.Second

// completions runs a worker for a time, or until it has completed so many jobs,
// and returns how many that were a second.
func completions(q worker.Queue, cfg worker.Config, fn worker.HandlerFunc, jobs int64, d time.Duration) (perSecond float64, err error) {
	var completed, failed atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := make(chan struct{})
	cfg.Finished = func(f worker.Finished) {
		switch f.Outcome {
		case worker.Completed:
			n := completed.Add(1)
			if n == 1 {
				close(first)
			}
			if n == jobs {
				cancel()
			}
		case worker.Released: // claimed ahead, when the time was over
		default:
			failed.Add(1)
		}
	}
	w, err := worker.New(q, cfg)
	if err != nil {
		return 0, err
	}
	w.Handle("bench", fn)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	select {
	case <-first:
	case <-time.After(firstJobWithin):
	}
	cancel()
	n, took := completed.Load(), time.Since(began)
	if err := <-ended; err != nil {
		return 0, err
	}
	if failed.Load() > 0 {
		return 0, fmt.Errorf("%d jobs were not completed", failed.Load())
	}
	return float64(n) / took.Seconds(), nil
}

// profileSelf profiles this program, in which the worker runs, if that is asked
// for.
func (b *bench) profileSelf(name string) (end func(), err error) {
	if b.profile == "" {
		return func() {}, nil
	}
	path := filepath.Join(b.profile, name+"-client.pprof")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		p := &profile{of: "worker", path: path, done: make(chan struct{}), err: f.Close()}
		close(p.done)
		p.report(b.report)
	}, nil
}
