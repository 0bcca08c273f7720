package serve

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/storage/metered"
)

func pid() int { return os.Getpid() }

// newRegistry returns a registry with the metrics of the process.
func (o *serveOptions) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if o.tls.identity != nil {
		r.MustRegister(o.tls.expiryGauge())
	}
	return r
}

// storageMetrics counts requests to the bucket and their bytes.
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

	lagBytes, refusing, interval     *prometheus.Desc
	archiveDamaged, carried, standby *prometheus.Desc
	carriedRecords, documentCopies   *prometheus.Desc
	stateDiverged                    *prometheus.Desc
	documentBytes, view, logBytes    *prometheus.Desc
	localIndex                       *prometheus.Desc
	cost, projected, budget          *prometheus.Desc

	clockOffset, clockAhead *prometheus.Desc
}

func newNodeCollector(n *cluster.Node) *nodeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("osqueue_"+name, help, labels, nil)
	}
	return &nodeCollector{
		node:       n,
		jobs:       desc("jobs", "Jobs by status.", "status"),
		bytes:      desc("jobs_bytes", "Size of what --max-bytes counts."),
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

		lagBytes:       desc("flush_lag_bytes", "Size of the entries that the bucket does not have (active leader only)."),
		archiveDamaged: desc("archive_damaged", "1 while an object that the document needs is known to be missing or damaged (active leader only)."),
		standby:        desc("standby_known", "1 while a standby cluster announces itself in the bucket (active leader only)."),
		carried:        desc("carried_jobs_total", "Jobs that the cluster had acknowledged and that a document which this node adopted did not have, by outcome: carried over, ended in the adopted state as in the cluster, or kept only as a copy.", "outcome"),
		carriedRecords: desc("carried_records_total", "Settings, schedules, tokens, hooks and request keys that the cluster had and that a document which this node adopted did not have. They are kept only as a copy."),
		documentCopies: desc("document_copies_total", "Copies of queue.json under conflicts/ that this node has stored because another program had changed it, or because it adopted a legacy one."),
		stateDiverged:  desc("state_diverged", "1 if the last comparison found nodes with different states."),

		refusing: desc("writes_refused", "1 while writes are refused because the bucket is too far behind (active leader only)."),
		interval: desc("flush_interval_seconds", "Least time between two flushes, as a budget stretches it (active leader only)."),

		documentBytes: desc("document_bytes", "Size of queue.json as last written (active leader only)."),
		view:          desc("document_view", "1 if queue.json shows the available and running jobs, 0 if they take more than 256 KiB (active leader only)."),
		logBytes:      desc("archive_log_bytes", "Size of the log behind the base in the bucket (active leader only)."),

		localIndex: desc("snapshot_local_index", "Raft index of the newest snapshot on this node's disk."),

		cost:      desc("bucket_cost_usd_total", "What this process's requests to the bucket have cost, in US dollars."),
		projected: desc("bucket_cost_projected_usd_month", "What they would cost in 30 days at the rate of the last hour, in US dollars; too little in the first ten minutes."),
		budget:    desc("bucket_budget_usd_month", "What they may cost in 30 days, in US dollars; not there without a budget."),

		clockOffset: desc("clock_offset_seconds", "How far another member's wall clock is ahead of this node's.", "node"),
		clockAhead:  desc("clock_ahead_seconds", "How far the queue's time is ahead of this node's wall clock (active leader only)."),
	}
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.node.Status()
	out := sender{ch: ch}
	c.queue(out, &s)
	c.raft(out, &s)
	c.bucket(out, &s)
	c.adoptions(out, &s)
	active := s.State == "leader"
	out.flag(c.active, active)
	if active {
		c.flushes(out, &s)
	}
}

// queue sends the figures that all nodes share.
func (c *nodeCollector) queue(out sender, s *cluster.Status) {
	for st := fsm.Scheduled; st.String() != ""; st++ {
		out.gauge(c.jobs, float64(s.Counts.Of(st)), st.String())
	}
	v := c.node.View()
	ever := v.Meta()
	out.gauge(c.bytes, float64(v.Bytes()))
	out.counter(c.completed, float64(s.CompletedEver))
	out.counter(c.ended, float64(ever.CompletedTotal), fsm.Completed.String())
	out.counter(c.ended, float64(ever.DeadTotal), fsm.Dead.String())
	out.counter(c.ended, float64(ever.CancelledTotal), fsm.Cancelled.String())
	out.gauge(c.workers, float64(s.Workers))
}

func (c *nodeCollector) raft(out sender, s *cluster.Status) {
	out.gauge(c.term, float64(s.Term))
	out.gauge(c.applied, float64(s.Applied))
	out.gauge(c.commit, float64(s.CommitIndex))
	out.gauge(c.epoch, float64(s.Epoch))
	out.gauge(c.up, 1, s.Version)
	out.gauge(c.localIndex, float64(s.Snapshots.Local.Index))
	for _, p := range s.Peers {
		if p.ClockOffset != nil && p.Name != s.Node {
			out.gauge(c.clockOffset, float64(*p.ClockOffset)/1000, p.Name)
		}
	}
}

// bucket sends this process's figures about the bucket.
func (c *nodeCollector) bucket(out sender, s *cluster.Status) {
	out.counter(c.cost, s.Bucket.Cost.USD())
	out.gauge(c.projected, s.Bucket.Projected.USD())
	if s.Bucket.Budget > 0 {
		out.gauge(c.budget, s.Bucket.Budget.USD())
	}
}

// adoptions sends what happened to jobs and records that adopted documents lacked.
func (c *nodeCollector) adoptions(out sender, s *cluster.Status) {
	out.counter(c.carried, float64(s.Carried.Jobs), "carried_over")
	out.counter(c.carried, float64(s.Carried.Ended), "ended")
	out.counter(c.carried, float64(s.Carried.Kept), "kept")
	out.counter(c.carriedRecords, float64(s.Carried.Records))
	out.counter(c.documentCopies, float64(s.DocumentCopies.Count))
}

// flushes sends the figures that only the active leader knows.
func (c *nodeCollector) flushes(out sender, s *cluster.Status) {
	out.gauge(c.lagEntries, float64(s.LagEntries))
	out.gauge(c.lagSeconds, float64(s.LagMs)/1000)
	out.gauge(c.lagBytes, float64(s.LagBytes))
	out.flag(c.refusing, s.Refusing != "")
	out.gauge(c.clockAhead, float64(s.Now-s.WallClock)/1000)
	out.flag(c.standby, s.Standby != "")
	out.flag(c.archiveDamaged, s.ArchiveError != "")
	out.flag(c.stateDiverged, s.StateError != "")
	out.gauge(c.interval, float64(s.FlushIntervalMs)/1000)
	out.gauge(c.documentBytes, float64(s.DocumentBytes))
	out.flag(c.view, s.DocumentView)
	out.gauge(c.logBytes, float64(s.LogBytes))
}

// sender sends the metrics of one scrape.
type sender struct{ ch chan<- prometheus.Metric }

func (s sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sender) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sender) flag(d *prometheus.Desc, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	s.gauge(d, v, labels...)
}
