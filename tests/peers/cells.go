package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// cell is one kind of load.
type cell struct {
	name, title string
	// value selects the figure of the table.
	value figure
	run   func(context.Context, *trial) error
}

func (c cell) String() string { return c.name }

// drainWorkers is the number of workers of the drain.
const drainWorkers = 64

// cells are all cells, in the order of the report.
var cells = []cell{
	{"sequential", "sequential enqueue, p50", p50, enqueueCell(1, 1)},
	{"single-64", "64 callers, one job a call", rate, enqueueCell(64, 1)},
	{"single-256", "256 callers, one job a call", rate, enqueueCell(256, 1)},
	{"batch-4", "4 callers, 100 jobs a call", rate, enqueueCell(4, 100)},
	{"batch-16", "16 callers, 100 jobs a call", rate, enqueueCell(16, 100)},
	{"life-64", "lifecycle, one job a call, 64 workers", rate, lifecycleCell(64)},
	{"life-256", "lifecycle, one job a call, 256 workers", rate, lifecycleCell(256)},
	{"drain", "drain, 64 workers", rate, drain},
	{"paced", "enqueue to worker at 500/s", p50, paced},
}

func namesOf[T interface{ String() string }](all []T) []string {
	names := make([]string, len(all))
	for i, x := range all {
		names[i] = x.String()
	}
	return names
}

// enqueueCell returns a cell in which callers enqueue jobs, each call with the same number.
func enqueueCell(callers, jobs int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		all, end, err := t.callers(callers)
		if err != nil {
			return err
		}
		defer end()
		return t.steady(ctx, all, func(c caller) error {
			began := time.Now()
			if err := enqueue(ctx, c, jobs); err != nil {
				return err
			}
			t.sample(time.Since(began))
			t.ops.Add(int64(jobs))
			return nil
		})
	}
}

// steady lets all callers repeat a step, and measures for the duration of the trial after all of
// them have begun. It waits for the callers to end.
func (t *trial) steady(ctx context.Context, all []caller, step func(caller) error) error {
	load := func(running context.Context) error {
		return each(all, func(c caller) error {
			for running.Err() == nil {
				if err := step(c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return during(ctx, load, func() error {
		time.Sleep(t.warmUp())
		return t.measured(t.pass)
	})
}

// pass waits for the duration of the trial, and longer until the first job, but not longer than
// the limit: a slow system on a busy machine needs it in a short run.
func (t *trial) pass() error {
	earlier, end := t.ops.Load(), time.Now().Add(t.limit)
	for time.Sleep(t.duration); t.ops.Load() == earlier && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// warmUp is the time in which connections open and queues fill, before a measurement.
func (t *trial) warmUp() time.Duration { return t.duration / 4 }

// enqueue enqueues jobs with one call.
func enqueue(ctx context.Context, c caller, jobs int) error {
	if jobs == 1 {
		return c.enqueue(ctx, newPayload(time.Now()))
	}
	return c.enqueueBatch(ctx, newPayloads(jobs))
}

// lifecycleCell returns a cell in which each caller enqueues a job, claims a job and completes
// it, with a call each.
func lifecycleCell(callers int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		all, end, err := t.callers(callers)
		if err != nil {
			return err
		}
		defer end()
		return t.steady(ctx, all, func(c caller) error {
			err := lifecycle(ctx, c)
			if errors.Is(err, errNoJob) {
				return nil // another caller has the job
			}
			if err == nil {
				t.ops.Add(1)
			}
			return err
		})
	}
}

// lifecycle enqueues a job, claims one and completes it.
func lifecycle(ctx context.Context, c caller) error {
	if err := enqueue(ctx, c, 1); err != nil {
		return err
	}
	j, err := c.claim(ctx)
	if err != nil {
		return err
	}
	return j.complete(ctx)
}

// during runs fn while background work runs, ends the work, and waits for its end.
func during(ctx context.Context, background func(context.Context) error, fn func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- background(ctx) }()
	err := fn()
	cancel()
	return errors.Join(err, <-over)
}

// work runs workers against the queue until ctx is done.
func (t *trial) work(ctx context.Context, workers int, h handlers) error {
	all, end, err := t.callers(workers)
	if err != nil {
		return err
	}
	defer end()
	return each(all, func(c caller) error {
		for ctx.Err() == nil {
			if err := workOff(ctx, c, h); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
}

// workOff completes jobs until a claim finds none.
func workOff(ctx context.Context, c caller, h handlers) error {
	j, err := c.claim(ctx)
	for err == nil {
		h.taken(j.payload)
		if j.completeAndClaim == nil {
			if err = j.complete(ctx); err == nil {
				h.completed()
			}
			return err
		}
		if j, err = j.completeAndClaim(ctx); err == nil || errors.Is(err, errNoJob) {
			h.completed()
		}
	}
	if errors.Is(err, errNoJob) {
		return nil
	}
	return err
}

// drain fills the queue, measures the memory of the servers, and then lets workers complete the
// jobs, one a call, until none is left or the time is over.
func drain(ctx context.Context, t *trial) error {
	filled, err := t.fill(ctx)
	if err != nil {
		return err
	}
	time.Sleep(min(t.duration, 2*time.Second)) // the servers write what they have buffered
	if t.result.PSS, err = memory(t.queue); err != nil {
		return err
	}
	t.result.Jobs = filled
	empty := make(chan struct{})
	h := handlers{taken: func([]byte) {}, completed: func() {
		if t.ops.Add(1) == int64(filled) {
			close(empty)
		}
	}}
	// The workers wait until the counters are read.
	begin := make(chan struct{})
	work := func(ctx context.Context) error {
		<-begin
		return t.work(ctx, drainWorkers, h)
	}
	return during(ctx, work, func() error {
		open := sync.OnceFunc(func() { close(begin) })
		defer open()
		return t.measured(func() error {
			open()
			select {
			case <-empty:
			case <-time.After(t.limit):
			}
			return nil
		})
	})
}

// The callers that fill a queue.
const (
	fillCallers = 4
	fillBatch   = 100
)

// fill enqueues the jobs of the drain, or as many as the limit allows, and returns their number.
func (t *trial) fill(ctx context.Context) (int, error) {
	all, end, err := t.callers(fillCallers)
	if err != nil {
		return 0, err
	}
	defer end()
	size := min(fillBatch, t.jobs)
	until := time.Now().Add(t.limit)
	var taken, done atomic.Int64
	err = each(all, func(c caller) error {
		for time.Now().Before(until) && taken.Add(int64(size)) <= int64(t.jobs) {
			if err := enqueue(ctx, c, size); err != nil {
				return err
			}
			done.Add(int64(size))
		}
		return nil
	})
	return int(done.Load()), err
}

// The load of the paced cell.
const (
	pacedRate    = 500 // jobs a second
	pacedCallers = 32
	pacedWorkers = 16
)

// paced enqueues jobs at a fixed rate and measures the time from the planned call to the moment
// when a worker has the job.
func paced(ctx context.Context, t *trial) error {
	all, end, err := t.callers(pacedCallers)
	if err != nil {
		return err
	}
	defer end()
	h := handlers{
		taken: func(payload []byte) {
			if at, err := stampOf(payload); err == nil {
				t.sample(time.Since(at))
			}
		},
		completed: func() { t.ops.Add(1) },
	}
	return during(ctx, func(ctx context.Context) error { return t.work(ctx, pacedWorkers, h) }, func() error {
		if err := enqueueAt(ctx, all, pacedRate, t.warmUp()); err != nil { // the workers connect
			return err
		}
		return t.measured(func() error { return enqueueAt(ctx, all, pacedRate, 2*t.duration) })
	})
}

// enqueueAt enqueues jobs at a rate for a duration. A call that is late does not delay the next
// one, as long as one of the callers is free.
func enqueueAt(ctx context.Context, all []caller, perSecond int, d time.Duration) error {
	due := make(chan time.Time, perSecond)
	var dispatch sync.WaitGroup
	dispatch.Go(func() {
		defer close(due)
		begin := time.Now()
		for i := range int(d.Seconds() * float64(perSecond)) {
			at := begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
			time.Sleep(time.Until(at))
			select {
			case due <- at:
			case <-ctx.Done():
				return
			default: // no caller is free for a second: the rate falls
			}
		}
	})
	err := each(all, func(c caller) error {
		for at := range due {
			if err := c.enqueue(ctx, newPayload(at)); err != nil {
				return err
			}
		}
		return nil
	})
	dispatch.Wait()
	return err
}
