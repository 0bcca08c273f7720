package serve

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/fsm"
)

// workersShown is the largest number of workers with series of their own.
const workersShown = 100

// workerCollector sends the running jobs, the capacity and the quiet of each worker. The
// registered workers that come first by name have a series of their own; the running jobs of all
// others, and of those that are not registered, share fsm.FigureOther. A scrape takes time in proportion to workersShown.
type workerCollector struct {
	view                     func() *fsm.View
	running, capacity, quiet *prometheus.Desc
}

func newWorkerCollector(view func() *fsm.View) *workerCollector {
	worker := []string{"worker"}
	return &workerCollector{
		view: view,
		running: prometheus.NewDesc("osqueue_worker_running",
			"Jobs that a registered worker holds; other: all workers without a series of their own.", worker, nil),
		capacity: prometheus.NewDesc("osqueue_worker_capacity", "Jobs that a registered worker can run at a time, as it says.", worker, nil),
		quiet:    prometheus.NewDesc("osqueue_worker_quiet", "1 if a registered worker gets no new jobs, otherwise 0.", worker, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *workerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.running, c.capacity, c.quiet} {
		ch <- d
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Collect implements prometheus.Collector.
func (c *workerCollector) Collect(ch chan<- prometheus.Metric) {
	out, v := sender{ch: ch}, c.view()
	counts := v.Counts()
	others, shown := counts.Of(fsm.InProgress), 0
	v.Workers(func(w *fsm.Worker) bool {
		if w.Name == fsm.FigureOther || !utf8.ValidString(w.Name) {
			return true
		}
		n := v.Held(w.Name)
		out.gauge(c.running, float64(n), w.Name)
		out.gauge(c.quiet, oneIf(w.Quiet()), w.Name)
		if w.Capacity > 0 {
			out.gauge(c.capacity, float64(w.Capacity), w.Name)
		}
		others -= n
		shown++
		return shown < workersShown
	})
	out.gauge(c.running, float64(others), fsm.FigureOther)
}
