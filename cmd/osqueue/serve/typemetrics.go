package serve

import (
	"cmp"
	"time"

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
type typeCollector struct {
	node typeSource

	jobs, oldest, waiting             *prometheus.Desc
	enqueued, claimed, completed      *prometheus.Desc
	failed, retried, dead, cancelled  *prometheus.Desc
	leasesLost, wait, run, tries, all *prometheus.Desc
}

func newTypeCollector(node typeSource) *typeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("osqueue_"+name, help, labels, nil)
	}
	return &typeCollector{
		node:    node,
		jobs:    desc("type_jobs", "Jobs by type and status.", "type", "status"),
		oldest:  desc("type_oldest_available_age_seconds", "Time since the oldest available job was created, fell due or failed last; 0 without one. "+waitHelp, "type"),
		all:     desc("types", "Types that have jobs."),
		waiting: desc("claims_waiting", "Claims that wait for a job on this node."),

		enqueued:   desc("type_jobs_enqueued_total", "Jobs enqueued.", "type"),
		claimed:    desc("type_jobs_claimed_total", "Attempts begun.", "type"),
		completed:  desc("type_jobs_completed_total", "Jobs completed.", "type"),
		failed:     desc("type_attempts_failed_total", "Attempts that failed, timed out or lost their lease.", "type"),
		retried:    desc("type_jobs_retried_total", "Jobs put back into the queue after a failed attempt or by a request.", "type"),
		dead:       desc("type_jobs_dead_total", "Jobs that became dead.", "type"),
		cancelled:  desc("type_jobs_cancelled_total", "Jobs cancelled.", "type"),
		leasesLost: desc("type_leases_lost_total", "Attempts that ended because the lease expired or the worker was declared dead.", "type"),

		wait:  desc("type_wait_seconds", "Time from the creation of jobs, their due time or their last failure to the claim. "+waitHelp, "type"),
		run:   desc("type_run_seconds", "Duration of attempts, however they ended.", "type"),
		tries: desc("type_attempts", "Attempts of jobs that ended.", "type"),
	}
}

// waitHelp says what fsm.AvailableSince cannot leave out.
const waitHelp = "Includes the wait for other jobs, and the time before a retry by request."

// Describe implements prometheus.Collector.
func (c *typeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *typeCollector) Collect(ch chan<- prometheus.Metric) {
	out := sender{ch: ch}
	stats, v := c.node.AllTypeStats(), c.node.View()
	out.gauge(c.waiting, float64(c.node.ClaimsWaiting()))
	out.gauge(c.all, float64(len(stats)))
	now := max(time.Now().UnixMilli(), v.Meta().Now)
	for _, f := range typeFigures(v, stats, now) {
		c.send(out, f)
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

// send sends the figures of one type.
func (c *typeCollector) send(out sender, f *figuresOfType) {
	for st := fsm.Scheduled; st.String() != ""; st++ {
		out.gauge(c.jobs, float64(f.jobs.Of(st)), f.name, st.String())
	}
	out.gauge(c.oldest, float64(f.oldestMs)/1000, f.name)
	out.counter(c.enqueued, float64(f.Enqueued), f.name)
	out.counter(c.claimed, float64(f.Claimed), f.name)
	out.counter(c.completed, float64(f.Completed), f.name)
	out.counter(c.failed, float64(f.Failed), f.name)
	out.counter(c.retried, float64(f.Retried), f.name)
	out.counter(c.dead, float64(f.Dead), f.name)
	out.counter(c.cancelled, float64(f.Cancelled), f.name)
	out.counter(c.leasesLost, float64(f.LeasesLost), f.name)
	out.histogram(c.wait, &f.Wait, fsm.WaitBounds(), 1000, f.name)
	out.histogram(c.run, &f.Run, fsm.WaitBounds(), 1000, f.name)
	out.histogram(c.tries, &f.Attempts, fsm.AttemptBounds(), 1, f.name)
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
