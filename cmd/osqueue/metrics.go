package main

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/storage/metered"
)

func pid() int { return os.Getpid() }

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// storageMetrics counts what goes to the bucket.
type storageMetrics struct {
	seconds *prometheus.HistogramVec
	bytes   *prometheus.CounterVec
}

func newStorageMetrics(r prometheus.Registerer) *storageMetrics {
	m := &storageMetrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "osqueue_bucket_request_seconds",
			Help:    "Duration of requests to the bucket by operation and result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"op", "result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "osqueue_bucket_bytes_total",
			Help: "Bytes read from, or offered to, the bucket by operation.",
		}, []string{"op"}),
	}
	r.MustRegister(m.seconds, m.bytes)
	return m
}

// ObserveStorage implements metered.Observer.
func (m *storageMetrics) ObserveStorage(o metered.Observation) {
	m.seconds.WithLabelValues(string(o.Op), string(o.Result)).Observe(o.Duration.Seconds())
	m.bytes.WithLabelValues(string(o.Op)).Add(float64(o.Bytes))
}

// nodeCollector reads a node's status at each scrape.
type nodeCollector struct {
	node *cluster.Node

	jobs, bytes, workers               *prometheus.Desc
	ended, completed                   *prometheus.Desc
	term, applied, commit, epoch       *prometheus.Desc
	active, lagEntries, lagSeconds, up *prometheus.Desc
}

func newNodeCollector(n *cluster.Node) *nodeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("osqueue_"+name, help, labels, nil)
	}
	return &nodeCollector{
		node:       n,
		jobs:       desc("jobs", "Jobs by status.", "status"),
		bytes:      desc("jobs_bytes", "Size of all payloads and results."),
		ended:      desc("jobs_ended_total", "Jobs that ended since the queue exists, by how.", "status"),
		completed:  desc("jobs_completed_total", "Jobs completed since the queue exists."),
		workers:    desc("workers", "Registered workers."),
		term:       desc("raft_term", "Raft's term."),
		applied:    desc("raft_applied_index", "The newest raft entry applied."),
		commit:     desc("raft_commit_index", "The newest raft entry committed."),
		epoch:      desc("fence_epoch", "Fencing number of the registered broker."),
		active:     desc("active_leader", "1 on the active leader, else 0."),
		lagEntries: desc("flush_lag_entries", "Entries applied that the bucket does not have (active leader only)."),
		lagSeconds: desc("flush_lag_seconds", "Age of the oldest entry that the bucket does not have (active leader only)."),
		up:         desc("build_info", "Always 1; the label is the version.", "version"),
	}
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.node.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for st := fsm.Scheduled; st.String() != ""; st++ {
		gauge(c.jobs, float64(s.Counts.Of(st)), st.String())
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	v := c.node.View()
	ever := v.Meta()
	gauge(c.bytes, float64(v.Bytes()))
	counter(c.completed, s.CompletedEver)
	counter(c.ended, ever.CompletedTotal, fsm.Completed.String())
	counter(c.ended, ever.DeadTotal, fsm.Dead.String())
	counter(c.ended, ever.CancelledTotal, fsm.Cancelled.String())
	gauge(c.workers, float64(s.Workers))
	gauge(c.term, float64(s.Term))
	gauge(c.applied, float64(s.Applied))
	gauge(c.commit, float64(s.CommitIndex))
	gauge(c.epoch, float64(s.Epoch))
	gauge(c.up, 1, s.Version)
	active := 0.0
	if s.State == "leader" {
		active = 1
		gauge(c.lagEntries, float64(s.LagEntries))
		gauge(c.lagSeconds, float64(s.LagMs)/1000)
	}
	gauge(c.active, active)
}
