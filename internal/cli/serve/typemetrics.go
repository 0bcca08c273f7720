package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"osqueue/cluster/typestats"
	"osqueue/fsm"
)

// typeSource is the node behind a typeCollector.
type typeSource interface {
	View() *fsm.View
	AllTypeStats() map[string]fsm.TypeStats
	TypeFigures() *typestats.Recorder
	ClaimsWaiting() int
}

// typeCollector sends the figures of each type at each scrape. The number of its series is
// bounded: the types above typestats.TypesMax share the label "other". A scrape takes time in
// proportion to the number of types, not of jobs.
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
		oldest:  desc("type_oldest_available_age_seconds", "How long the oldest available job has waited; 0 without one.", "type"),
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

		wait:  desc("type_wait_seconds", "Time that jobs were available before they were claimed.", "type"),
		run:   desc("type_run_seconds", "Duration of attempts, however they ended.", "type"),
		tries: desc("type_attempts", "Attempts of jobs that ended.", "type"),
	}
}

// Describe implements prometheus.Collector.
func (c *typeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *typeCollector) Collect(ch chan<- prometheus.Metric) {
	out := sender{ch: ch}
	stats, v := c.node.AllTypeStats(), c.node.View()
	out.gauge(c.waiting, float64(c.node.ClaimsWaiting()))
	out.gauge(c.all, float64(len(stats)))
	now := max(time.Now().UnixMilli(), v.Meta().Now)
	for _, f := range c.node.TypeFigures().Figures(v, stats, now) {
		c.send(out, &f)
	}
}

// send sends the figures of one type.
func (c *typeCollector) send(out sender, f *typestats.Figures) {
	for st := fsm.Scheduled; st.String() != ""; st++ {
		out.gauge(c.jobs, float64(f.Jobs.Of(st)), f.Name, st.String())
	}
	out.gauge(c.oldest, float64(f.OldestMs)/1000, f.Name)
	out.counter(c.enqueued, float64(f.Enqueued), f.Name)
	out.counter(c.claimed, float64(f.Claimed), f.Name)
	out.counter(c.completed, float64(f.Completed), f.Name)
	out.counter(c.failed, float64(f.Failed), f.Name)
	out.counter(c.retried, float64(f.Retried), f.Name)
	out.counter(c.dead, float64(f.Dead), f.Name)
	out.counter(c.cancelled, float64(f.Cancelled), f.Name)
	out.counter(c.leasesLost, float64(f.LeasesLost), f.Name)
	out.histogram(c.wait, &f.Wait, f.Name)
	out.histogram(c.run, &f.Run, f.Name)
	out.histogram(c.tries, &f.Attempts, f.Name)
}

func (s sender) histogram(d *prometheus.Desc, h *typestats.Histogram, labels ...string) {
	s.ch <- prometheus.MustNewConstHistogram(d, h.Count(), h.Sum, h.Cumulative(), labels...)
}
