package metrics

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/client"
	"osqueue/client/worker"
)

// TypesMax is the number of types with labels of their own.
const TypesMax = 100

const (
	otherTypes = "other"
	labelMax   = 200 // bytes
)

// Config describes the worker.
type Config struct {
	Capacity int // jobs that it runs at once, Concurrency of the worker
}

// Worker counts what a worker does. It is a prometheus.Collector. Its methods are safe for
// concurrent use.
type Worker struct {
	all []prometheus.Collector

	running    *prometheus.GaugeVec
	ended      *prometheus.CounterVec
	run        *prometheus.HistogramVec
	claiming   prometheus.Gauge
	claims     *prometheus.CounterVec
	heartbeats *prometheus.CounterVec

	mu    sync.Mutex // guards the field below
	types map[string]bool
}

// runSeconds range from a short handler to one of an hour.
var runSeconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// New returns the figures of a worker.
func New(cfg Config) *Worker {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "osqueue", Subsystem: "worker", Name: name, Help: help}
	}
	w := &Worker{types: make(map[string]bool)}
	w.running = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("jobs_running", "Jobs whose handlers run.")), []string{"type"})
	w.ended = prometheus.NewCounterVec(prometheus.CounterOpts(opts("jobs_finished_total", "Jobs that the worker no longer holds, by outcome.")), []string{"type", "outcome"})
	w.run = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "osqueue", Subsystem: "worker", Name: "run_seconds", Help: "Run time of handlers.", Buckets: runSeconds,
	}, []string{"type"})
	w.claiming = prometheus.NewGauge(prometheus.GaugeOpts(opts("claims_waiting", "Claims that wait for a job.")))
	w.claims = prometheus.NewCounterVec(prometheus.CounterOpts(opts("claims_total", "Claims by result: jobs, none or error.")), []string{"result"})
	w.heartbeats = prometheus.NewCounterVec(prometheus.CounterOpts(opts("heartbeats_total", "Heartbeats by result: ok or error.")), []string{"result"})
	capacity := prometheus.NewGauge(prometheus.GaugeOpts(opts("capacity_jobs", "Jobs that the worker runs at once at most.")))
	capacity.Set(float64(cfg.Capacity))
	w.all = []prometheus.Collector{w.running, w.ended, w.run, w.claiming, w.claims, w.heartbeats, capacity}
	return w
}

// Describe implements prometheus.Collector.
func (w *Worker) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (w *Worker) Collect(ch chan<- prometheus.Metric) {
	for _, c := range w.all {
		c.Collect(ch)
	}
}

// Middleware counts the handlers that run.
func (w *Worker) Middleware(next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		running := w.running.WithLabelValues(w.label(job.Type))
		running.Inc()
		defer running.Dec()
		return next(ctx, job)
	}
}

// Finished counts the outcome of a job. It is a worker.Config.Finished.
func (w *Worker) Finished(f worker.Finished) {
	label := w.label(f.Job.Type)
	w.ended.WithLabelValues(label, string(f.Outcome)).Inc()
	w.run.WithLabelValues(label).Observe(f.Took.Seconds())
}

// label returns the label of a type.
func (w *Worker) label(jobType string) string {
	if jobType == otherTypes || len(jobType) > labelMax || !utf8.ValidString(jobType) {
		return otherTypes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.types[jobType] {
		if len(w.types) >= TypesMax {
			return otherTypes
		}
		w.types[strings.Clone(jobType)] = true
	}
	if jobType == "" || jobType[0] == '~' {
		return "~" + jobType
	}
	return jobType
}

// Queue returns q for the worker, with its claims and heartbeats counted.
func (w *Worker) Queue(q worker.Queue) worker.Queue {
	return queue{Queue: q, w: w}
}

// queue counts the calls to a Queue.
type queue struct {
	worker.Queue
	w *Worker
}

// Claim implements worker.Queue.
func (q queue) Claim(ctx context.Context, opts client.ClaimOptions) ([]client.ClaimedJob, error) {
	q.w.claiming.Inc()
	defer q.w.claiming.Dec()
	jobs, err := q.Queue.Claim(ctx, opts)
	q.claimed(len(jobs), err)
	return jobs, err
}

func (q queue) claimed(jobs int, err error) {
	result := "jobs"
	switch {
	case err != nil:
		result = "error"
	case jobs == 0:
		result = "none"
	}
	q.w.claims.WithLabelValues(result).Inc()
}

// Heartbeat implements worker.Queue.
func (q queue) Heartbeat(ctx context.Context, name string, leases []client.Lease) ([]client.Beat, error) {
	beats, err := q.Queue.Heartbeat(ctx, name, leases)
	result := "ok"
	if err != nil {
		result = "error"
	}
	q.w.heartbeats.WithLabelValues(result).Inc()
	return beats, err
}

// CompleteAndClaim implements worker.Queue.
func (q queue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, claimed, err := q.Queue.CompleteAndClaim(ctx, jobs, next)
	q.claimed(len(claimed), err)
	return beats, claimed, err
}
