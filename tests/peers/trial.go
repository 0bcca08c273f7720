package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/tests/measure"
)

// result has the figures of one trial.
type result struct {
	Cell   string `json:"cell"`
	System string `json:"system"`
	Round  int    `json:"round"`

	Ops  int64         `json:"ops"`  // jobs
	Rate float64       `json:"rate"` // jobs a second
	P50  time.Duration `json:"p50,omitempty"`
	P99  time.Duration `json:"p99,omitempty"`
	// PSS is the memory of all servers in bytes, if the cell measures it, with Jobs in the queue.
	PSS  int64 `json:"pss,omitempty"`
	Jobs int   `json:"jobs,omitempty"`

	usage
	// Before is the share of the processors that all programs used just before the trial.
	Before float64 `json:"before"`
	Error  string  `json:"error,omitempty"`
}

// String formats the result on one line.
func (r result) String() string {
	if r.Error != "" {
		return fmt.Sprintf("%-12s %-12s %s", r.Cell, r.System, r.Error)
	}
	var cpu []string
	for _, name := range slices.Sorted(maps.Keys(r.CPU)) {
		cpu = append(cpu, fmt.Sprintf("%s %.0f", name, r.perOp(r.CPU[name])))
	}
	s := fmt.Sprintf("%-12s %-12s %9.0f/s  CPU µs/job: %s  noise %2.0f %%", r.Cell, r.System, r.Rate, strings.Join(cpu, ", "), 100*r.Noise)
	if r.P50 > 0 {
		s += fmt.Sprintf("  p50 %.2f, p99 %.2f ms", measure.Milliseconds(r.P50), measure.Milliseconds(r.P99))
	}
	if r.Entries > 0 {
		s += fmt.Sprintf("  %.1f jobs/entry", float64(r.Ops)/float64(r.Entries))
	}
	if r.PSS > 0 {
		s += fmt.Sprintf("  %.0f MB with %d jobs", float64(r.PSS)/1e6, r.Jobs)
	}
	return s
}

// perOp returns the microseconds per job.
func (r result) perOp(used time.Duration) float64 {
	if r.Ops == 0 {
		return 0
	}
	return float64(used) / float64(time.Microsecond) / float64(r.Ops)
}

// trial is one cell with one running system.
type trial struct {
	queue    queue
	duration time.Duration
	jobs     int // of the drain
	limit    time.Duration

	result  *result
	ops     atomic.Int64
	mu      sync.Mutex
	samples measure.Samples
}

// The limits of a trial that do not depend on the length of a measurement.
const (
	attempts   = 2
	quietShare = 0.15 // of the processors
)

// attempt runs a trial on fresh servers, and runs it again if it fails.
func (o options) attempt(ctx context.Context, c cell, s system, round int) result {
	var r result
	for range attempts {
		r = result{Cell: c.name, System: s.name, Round: round}
		err := s.with(func(q queue) error { return o.trial(ctx, c, q, &r) })
		if err == nil {
			return r
		}
		r.Error = err.Error()
	}
	return r
}

// with starts the servers of a system, calls fn, and ends the servers.
func (s system) with(fn func(queue) error) error {
	p, err := measure.NewPlace("osqueue-peers-")
	if err != nil {
		return err
	}
	defer p.Leave()
	forget := measure.OnInterrupt("peers", p.Leave)
	defer forget()
	return p.Guarded(func() error {
		q, err := s.start(p)
		if err != nil {
			return fmt.Errorf("%w%s", err, lastLines(p.Dir))
		}
		return fn(q)
	})
}

// trial waits for a quiet machine and measures the cell.
func (o options) trial(ctx context.Context, c cell, q queue, r *result) (err error) {
	if o.quiet > 0 {
		if r.Before, err = measure.AwaitQuiet(ctx, quietShare, o.quiet); err != nil {
			return err
		}
	}
	t := &trial{queue: q, duration: o.duration, jobs: o.drainJobs, limit: max(6*o.duration, leastLimit), result: r}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	return c.run(ctx, t)
}

// leastLimit is the least time for a step of a trial that ends by itself.
const leastLimit = 5 * time.Second

// trialLimit bounds one trial after the start of its servers.
const trialLimit = 90 * time.Second

// lastLines returns the ends of the logs in a directory, for the message of a failed start.
func lastLines(dir string) string {
	const most = 600
	var out strings.Builder
	names, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		fmt.Fprintf(&out, "\n%s: …%s", filepath.Base(name), data[max(0, len(data)-most):])
	}
	return out.String()
}

// measured calls fn, and records what the processes used meanwhile and which jobs and samples
// were counted.
func (t *trial) measured(fn func() error) error {
	roles := t.queue.roles()
	t.mu.Lock()
	t.samples = nil
	t.mu.Unlock()
	earlier := t.ops.Load()
	before, err := read(t.queue, roles)
	if err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	ops := t.ops.Load() - earlier
	t.mu.Lock()
	samples := t.samples
	t.mu.Unlock()
	after, err := read(t.queue, roles)
	if err != nil {
		return err
	}
	r := t.result
	r.usage, r.Ops = after.since(before, roles), ops
	r.Rate = float64(ops) / r.Elapsed.Seconds()
	samples = slices.Clone(samples) // the callers still add to it
	r.P50, r.P99 = samples.At(50), samples.At(99)
	if ops <= 0 {
		return errors.New("no job went through within the measurement")
	}
	return nil
}

// sample records a duration.
func (t *trial) sample(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples = append(t.samples, d)
}

// callers opens n callers, which end with the returned function.
func (t *trial) callers(n int) (all []caller, end func(), err error) {
	end = func() {
		for _, c := range all {
			c.close()
		}
	}
	for i := range n {
		c, err := t.queue.newCaller(i, n)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, end, nil
}

// each runs fn for all callers at once and returns the first error.
func each(all []caller, fn func(c caller) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(all))
	for _, c := range all {
		wg.Go(func() {
			if err := fn(c); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
