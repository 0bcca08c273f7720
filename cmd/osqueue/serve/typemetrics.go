package serve

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// typeSource is the node behind a typeCollector.
type typeSource interface {
	View() *fsm.View
	AllTypeStats() map[string]fsm.TypeStats
	ClaimsWaiting() int
}

// typeCollector sends the figures of each type at each scrape. The number of its series is
// bounded: types without figures of their own share the label fsm.FigureOther. A scrape takes
// time in proportion to the number of types, not of jobs.
type typeCollector struct{ node typeSource }

func newTypeCollector(node typeSource) typeCollector { return typeCollector{node} }

// waitHelp says what fsm.AvailableSince cannot leave out.
const waitHelp = "Includes the wait for other jobs, and the time before a retry by request."

type ofType = *figuresOfType

var (
	typeCounts = []figure[ofType]{
		gauge("type_oldest_available_age_seconds", "Time since the oldest available job was created, fell due or failed last; 0 without one. "+waitHelp, func(f ofType) float64 { return float64(f.oldestMs) / 1000 }, "type"),
		counter("type_jobs_enqueued_total", "Jobs enqueued.", func(f ofType) float64 { return float64(f.Enqueued) }, "type"),
		counter("type_jobs_claimed_total", "Attempts begun.", func(f ofType) float64 { return float64(f.Claimed) }, "type"),
		counter("type_jobs_completed_total", "Jobs completed.", func(f ofType) float64 { return float64(f.Completed) }, "type"),
		counter("type_attempts_failed_total", "Attempts that failed, timed out or lost their lease.", func(f ofType) float64 { return float64(f.Failed) }, "type"),
		counter("type_jobs_retried_total", "Jobs put back into the queue after a failed attempt or by a request.", func(f ofType) float64 { return float64(f.Retried) }, "type"),
		counter("type_jobs_dead_total", "Jobs that became dead.", func(f ofType) float64 { return float64(f.Dead) }, "type"),
		counter("type_jobs_cancelled_total", "Jobs cancelled.", func(f ofType) float64 { return float64(f.Cancelled) }, "type"),
		counter("type_leases_lost_total", "Attempts that ended because the lease expired or the worker was declared dead.", func(f ofType) float64 { return float64(f.LeasesLost) }, "type"),
	}

	descTypeJobs = desc("type_jobs", "Jobs by type and status.", "type", "status")
	descTypes    = desc("types", "Types that have jobs.")
	descWaiting  = desc("claims_waiting", "Claims that wait for a job on this node.")
	descWait     = desc("type_wait_seconds", "Time from the creation of jobs, their due time or their last failure to the claim. "+waitHelp, "type")
	descRun      = desc("type_run_seconds", "Duration of attempts, however they ended.", "type")
	descTries    = desc("type_attempts", "Attempts of jobs that ended.", "type")
)

// Describe implements prometheus.Collector.
func (c typeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c typeCollector) Collect(ch chan<- prometheus.Metric) {
	out := sender{ch: ch}
	stats, v := c.node.AllTypeStats(), c.node.View()
	out.gauge(descWaiting, float64(c.node.ClaimsWaiting()))
	out.gauge(descTypes, float64(len(stats)))
	now := max(time.Now().UnixMilli(), v.Meta().Now)
	for _, f := range typeFigures(v, stats, now) {
		for st := fsm.Scheduled; st.String() != ""; st++ {
			out.gauge(descTypeJobs, float64(f.jobs.Of(st)), f.name, st.String())
		}
		send(out, typeCounts, f, f.name)
		out.histogram(descWait, &f.Wait, fsm.WaitBounds(), 1000, f.name)
		out.histogram(descRun, &f.Run, fsm.WaitBounds(), 1000, f.name)
		out.histogram(descTries, &f.Attempts, fsm.AttemptBounds(), 1, f.name)
	}
}

// figuresOfType has the figures of one type, or of all that share theirs, at one time.
type figuresOfType struct {
	name     string // as a label
	jobs     fsm.Counts
	oldestMs int64 // how long the oldest available job has waited; 0 without one
	*fsm.Figures
}

// typeFigures returns the figures of all types by name, with the shared ones last.
func typeFigures(v *fsm.View, stats map[string]fsm.TypeStats, now int64) (out []*figuresOfType) {
	other := &figuresOfType{name: fsm.FigureOther, Figures: &fsm.Figures{Shared: true}}
	own := make(map[string]*figuresOfType)
	v.Figures(func(f *fsm.Figures) bool {
		if f.Shared {
			other.Figures = f
			return true
		}
		of := &figuresOfType{name: v1.QueueName(f.Type), Figures: f}
		own[f.Type] = of
		out = append(out, of)
		return true
	})
	for name, s := range stats {
		of := cmp.Or(own[name], other)
		for i, n := range s.Counts {
			of.jobs[i] += n
		}
		if since, ok := v.OldestAvailable(name); ok {
			of.oldestMs = max(of.oldestMs, now-since)
		}
	}
	return append(out, other)
}

// histogram sends a histogram, in units that have that many of its own.
func (s sender) histogram(d *prometheus.Desc, h *fsm.Histogram, bounds []int64, unit float64, labels ...string) {
	cumulative, n := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		n += h.Counts[i]
		cumulative[float64(bound)/unit] = n
	}
	s.ch <- prometheus.MustNewConstHistogram(d, h.Count(), float64(h.Sum)/unit, cumulative, labels...)
}

// workersShown is the largest number of workers with series of their own.
const workersShown = 100

// workerCollector sends the running jobs, the capacity and the quiet of each worker. The
// registered workers that come first by name have a series of their own; the running jobs of all
// others, and of those that are not registered, share fsm.FigureOther. A scrape takes time in proportion to workersShown.
type workerCollector struct{ view func() *fsm.View }

func newWorkerCollector(view func() *fsm.View) workerCollector { return workerCollector{view} }

var (
	descRunning  = desc("worker_running", "Jobs that a registered worker holds; other: all workers without a series of their own.", "worker")
	descCapacity = desc("worker_capacity", "Jobs that a registered worker can run at a time, as it says.", "worker")
	descQuiet    = desc("worker_quiet", "1 if a registered worker gets no new jobs, otherwise 0.", "worker")
)

// Describe implements prometheus.Collector.
func (c workerCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c workerCollector) Collect(ch chan<- prometheus.Metric) {
	out, v := sender{ch: ch}, c.view()
	counts := v.Counts()
	others, shown := counts.Of(fsm.InProgress), 0
	v.Workers(func(w *fsm.Worker) bool {
		if w.Name == fsm.FigureOther || !utf8.ValidString(w.Name) {
			return true
		}
		n := v.Held(w.Name)
		out.gauge(descRunning, float64(n), w.Name)
		out.gauge(descQuiet, oneIf(w.Quiet()), w.Name)
		if w.Capacity > 0 {
			out.gauge(descCapacity, float64(w.Capacity), w.Name)
		}
		others -= n
		shown++
		return shown < workersShown
	})
	out.gauge(descRunning, float64(others), fsm.FigureOther)
}
