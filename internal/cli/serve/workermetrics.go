package serve

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/fsm"
)

// workersShown is the largest number of workers with series of their own.
const workersShown = 100

// workerCollector sends the number of running jobs of each worker. The registered workers that
// come first by name have a series of their own; all others, and those that are not registered,
// share fsm.FigureOther. A scrape takes time in proportion to workersShown.
type workerCollector struct {
	view    func() *fsm.View
	running *prometheus.Desc
}

func newWorkerCollector(view func() *fsm.View) *workerCollector {
	return &workerCollector{view: view, running: prometheus.NewDesc("osqueue_worker_running",
		"Jobs that a registered worker holds; other: all workers without a series of their own.", []string{"worker"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *workerCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.running }

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
		others -= n
		shown++
		return shown < workersShown
	})
	out.gauge(c.running, float64(others), fsm.FigureOther)
}
