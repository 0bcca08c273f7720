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

// figure is a metric that a collector reads from a T at each scrape.
type figure[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(T) float64
}

func gauge[T any](name, help string, of func(T) float64, labels ...string) figure[T] {
	return figure[T]{desc(name, help, labels...), prometheus.GaugeValue, of}
}

func counter[T any](name, help string, of func(T) float64, labels ...string) figure[T] {
	return figure[T]{desc(name, help, labels...), prometheus.CounterValue, of}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("osqueue_"+name, help, labels, nil)
}

// oneIf is the value of a metric that is 1 while something is so.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// sender sends the metrics of one scrape.
type sender struct{ ch chan<- prometheus.Metric }

func (s sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sender) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// send sends the figures of v.
func send[T any](s sender, figures []figure[T], v T, labels ...string) {
	for _, f := range figures {
		s.ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(v), labels...)
	}
}

type nodeStatus = *cluster.Status

// nodeFigures are those of all nodes, and leaderFigures those that only the active leader knows.
var (
	nodeFigures = []figure[nodeStatus]{
		counter("jobs_completed_total", "Jobs completed since the queue exists.", func(s nodeStatus) float64 { return float64(s.CompletedEver) }),
		gauge("workers", "Registered workers.", func(s nodeStatus) float64 { return float64(s.Workers) }),
		gauge("raft_term", "Raft's term.", func(s nodeStatus) float64 { return float64(s.Term) }),
		gauge("raft_applied_index", "The newest raft entry applied.", func(s nodeStatus) float64 { return float64(s.Applied) }),
		gauge("raft_commit_index", "The newest raft entry committed.", func(s nodeStatus) float64 { return float64(s.CommitIndex) }),
		gauge("fence_epoch", "Fencing number of the registered broker.", func(s nodeStatus) float64 { return float64(s.Epoch) }),
		gauge("active_leader", "1 on the active leader, else 0.", func(s nodeStatus) float64 { return oneIf(s.State == "leader") }),

		gauge("snapshot_local_index", "Raft index of the newest snapshot on this node's disk.", func(s nodeStatus) float64 { return float64(s.Snapshots.Local.Index) }),

		counter("bucket_cost_usd_total", "What this process's requests to the bucket have cost, in US dollars.", func(s nodeStatus) float64 { return s.Bucket.Cost.USD() }),
		gauge("bucket_cost_projected_usd_month", "What they would cost in 30 days at the rate of the last hour, in US dollars; too little in the first ten minutes.", func(s nodeStatus) float64 { return s.Bucket.Projected.USD() }),
		counter("carried_records_total", "Settings, schedules, tokens, hooks and request keys that the cluster had and that a document which this node adopted did not have. They are kept only as a copy.", func(s nodeStatus) float64 { return float64(s.Carried.Records) }),
		counter("document_copies_total", "Copies of queue.json under conflicts/ that this node has stored because another program had changed it, or because it adopted a legacy one.", func(s nodeStatus) float64 { return float64(s.DocumentCopies.Count) }),
	}
	leaderFigures = []figure[nodeStatus]{
		gauge("flush_lag_entries", "Entries applied that the bucket does not have (active leader only).", func(s nodeStatus) float64 { return float64(s.LagEntries) }),
		gauge("flush_lag_seconds", "Age of the oldest entry that the bucket does not have (active leader only).", func(s nodeStatus) float64 { return float64(s.LagMs) / 1000 }),
		gauge("flush_lag_bytes", "Size of the entries that the bucket does not have (active leader only).", func(s nodeStatus) float64 { return float64(s.LagBytes) }),
		gauge("writes_refused", "1 while writes are refused because the bucket is too far behind (active leader only).", func(s nodeStatus) float64 { return oneIf(s.Refusing != "") }),
		gauge("flush_interval_seconds", "Least time between two flushes, as a budget stretches it (active leader only).", func(s nodeStatus) float64 { return float64(s.FlushIntervalMs) / 1000 }),
		gauge("clock_ahead_seconds", "How far the queue's time is ahead of this node's wall clock (active leader only).", func(s nodeStatus) float64 { return float64(s.Now-s.WallClock) / 1000 }),
		gauge("standby_known", "1 while a standby cluster announces itself in the bucket (active leader only).", func(s nodeStatus) float64 { return oneIf(s.Standby != "") }),
		gauge("archive_damaged", "1 while an object that the document needs is known to be missing or damaged (active leader only).", func(s nodeStatus) float64 { return oneIf(s.ArchiveError != "") }),
		gauge("state_diverged", "1 if the last comparison found nodes with different states.", func(s nodeStatus) float64 { return oneIf(s.StateError != "") }),
		gauge("document_bytes", "Size of queue.json as last written (active leader only).", func(s nodeStatus) float64 { return float64(s.DocumentBytes) }),
		gauge("document_view", "1 if queue.json shows the available and running jobs, 0 if they take more than 256 KiB (active leader only).", func(s nodeStatus) float64 { return oneIf(s.DocumentView) }),
		gauge("archive_log_bytes", "Size of the log behind the base in the bucket (active leader only).", func(s nodeStatus) float64 { return float64(s.LogBytes) }),
	}

	descJobs        = desc("jobs", "Jobs by status.", "status")
	descBytes       = desc("jobs_bytes", "Size of what --max-bytes counts.")
	descEnded       = desc("jobs_ended_total", "Jobs that ended since the queue exists, by how.", "status")
	descBuild       = desc("build_info", "Always 1; the label is the version.", "version")
	descClockOffset = desc("clock_offset_seconds", "How far another member's wall clock is ahead of this node's.", "node")
	descBudget      = desc("bucket_budget_usd_month", "What they may cost in 30 days, in US dollars; not there without a budget.")
	descCarried     = desc("carried_jobs_total", "Jobs that the cluster had acknowledged and that a document which this node adopted did not have, by outcome: carried over, ended in the adopted state as in the cluster, or kept only as a copy.", "outcome")
)

// nodeCollector reads a node's status at each scrape.
type nodeCollector struct{ node *cluster.Node }

// Describe implements prometheus.Collector.
func (c nodeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	s, v, out := c.node.Status(), c.node.View(), sender{ch: ch}
	send(out, nodeFigures, &s)
	if s.State == "leader" {
		send(out, leaderFigures, &s)
	}
	for st := fsm.Scheduled; st.String() != ""; st++ {
		out.gauge(descJobs, float64(s.Counts.Of(st)), st.String())
	}
	ever := v.Meta()
	out.gauge(descBytes, float64(v.Bytes()))
	out.counter(descEnded, float64(ever.CompletedTotal), fsm.Completed.String())
	out.counter(descEnded, float64(ever.DeadTotal), fsm.Dead.String())
	out.counter(descEnded, float64(ever.CancelledTotal), fsm.Cancelled.String())
	out.gauge(descBuild, 1, s.Version)
	for _, p := range s.Peers {
		if p.ClockOffset != nil && p.Name != s.Node {
			out.gauge(descClockOffset, float64(*p.ClockOffset)/1000, p.Name)
		}
	}
	if s.Bucket.Budget > 0 {
		out.gauge(descBudget, s.Bucket.Budget.USD())
	}
	out.counter(descCarried, float64(s.Carried.Jobs), "carried_over")
	out.counter(descCarried, float64(s.Carried.Ended), "ended")
	out.counter(descCarried, float64(s.Carried.Kept), "kept")
}
