package serve

import (
	"cmp"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/figures"
	"osqueue/internal/build"
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
	wrote := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "osqueue_raft_log_write_seconds",
		Help:    "Duration of the writes of the raft log to the disk, fsync included.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	})
	r.MustRegister(wrote)
	o.node.LogWrote = func(d time.Duration) { wrote.Observe(d.Seconds()) }
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

// ObserveStorage counts an operation.
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

// collect is a prometheus.Collector that sends the metrics of a scrape.
type collect func(out sender)

// Describe implements prometheus.Collector.
func (c collect) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collect) Collect(ch chan<- prometheus.Metric) { c(sender{ch: ch}) }

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
	descJobsMax     = desc("jobs_max", "The limit of --max-jobs on jobs that have not ended; not there without one.")
	descBytesMax    = desc("jobs_bytes_max", "The limit of --max-bytes; not there without one.")
	descDiskFree    = desc("disk_free_bytes", "Free space on the disk of --data; not there if it is unknown.")
	descStuck       = desc("jobs_stuck", "Blocked jobs that keep waiting for a job or batch that has failed, once for each of these.")
	descEnded       = desc("jobs_ended_total", "Jobs that ended since the queue exists, by how; those that expired count as cancelled.", "status")
	descBuild       = desc("build_info", "Always 1; the labels are what osqueue version prints.", "version", "commit", "date", "go", "feature_level")
	descClockOffset = desc("clock_offset_seconds", "How far another member's wall clock is ahead of this node's.", "node")
	descBudget      = desc("bucket_budget_usd_month", "What they may cost in 30 days, in US dollars; not there without a budget.")
	descCarried     = desc("carried_jobs_total", "Jobs that the cluster had acknowledged and that a document which this node adopted did not have, by outcome: carried over, ended in the adopted state as in the cluster, or kept only as a copy.", "outcome")
)

// nodeCollector reads a node's status at each scrape.
func nodeCollector(node *cluster.Node) collect {
	return func(out sender) {
		s, v := node.Status(), node.View()
		send(out, nodeFigures, &s)
		if s.State == "leader" {
			send(out, leaderFigures, &s)
		}
		for st := fsm.Scheduled; st.String() != ""; st++ {
			out.gauge(descJobs, float64(s.Counts.Of(st)), st.String())
		}
		ever := v.Meta()
		out.gauge(descBytes, float64(v.Bytes()))
		if most := ever.Settings.GetMaxJobs(); most > 0 {
			out.gauge(descJobsMax, float64(most))
		}
		if most := ever.Settings.GetMaxBytes(); most > 0 {
			out.gauge(descBytesMax, float64(most))
		}
		if free, ok := node.DiskFree(); ok {
			out.gauge(descDiskFree, float64(free))
		}
		out.gauge(descStuck, float64(v.Stuck()))
		out.counter(descEnded, float64(ever.CompletedTotal), fsm.Completed.String())
		out.counter(descEnded, float64(ever.DeadTotal), fsm.Dead.String())
		out.counter(descEnded, float64(ever.CancelledTotal), fsm.Cancelled.String())
		program := build.Get()
		out.gauge(descBuild, 1, s.Version, program.Commit, program.Date, program.Go, strconv.FormatUint(uint64(program.FeatureLevel), 10))
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
}

// typeSource is the node behind typeCollector.
type typeSource interface {
	View() *fsm.View
	AllTypeStats() map[string]fsm.TypeStats
	ClaimsWaiting() int
}

// waitHelp says what figures.AvailableSince cannot leave out.
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
		counter("type_dead_jobs_removed_total", "Dead jobs that retention removed.", func(f ofType) float64 { return float64(f.DeadRemoved) }, "type"),
		counter("type_jobs_cancelled_total", "Jobs cancelled or expired.", func(f ofType) float64 { return float64(f.Cancelled) }, "type"),
		counter("type_leases_lost_total", "Attempts that ended because the lease expired or the worker was declared dead.", func(f ofType) float64 { return float64(f.LeasesLost) }, "type"),
	}

	descTypeJobs = desc("type_jobs", "Jobs by type and status.", "type", "status")
	descTypes    = desc("types", "Types that have jobs.")
	descWaiting  = desc("claims_waiting", "Claims that wait for a job on this node.")
	descWait     = desc("type_wait_seconds", "Time from the creation of jobs, their due time or their last failure to the claim. "+waitHelp, "type")
	descRun      = desc("type_run_seconds", "Duration of attempts, however they ended.", "type")
	descTries    = desc("type_attempts", "Attempts of jobs that ended.", "type")
)

// typeCollector sends the figures of each type at each scrape. The number of its series is
// bounded: types without figures of their own share the label fsm.FigureOther. A scrape takes
// time in proportion to the number of types, not of jobs.
func typeCollector(node typeSource) collect {
	return func(out sender) {
		stats, v := node.AllTypeStats(), node.View()
		out.gauge(descWaiting, float64(node.ClaimsWaiting()))
		out.gauge(descTypes, float64(len(stats)))
		now := max(time.Now().UnixMilli(), v.Now())
		for _, f := range typeFigures(v, stats, now) {
			for st := fsm.Scheduled; st.String() != ""; st++ {
				out.gauge(descTypeJobs, float64(f.jobs.Of(st)), f.name, st.String())
			}
			send(out, typeCounts, f, f.name)
			out.histogram(descWait, &f.Wait, figures.WaitBounds, 1000, f.name)
			out.histogram(descRun, &f.Run, figures.WaitBounds, 1000, f.name)
			out.histogram(descTries, &f.Attempts, figures.AttemptBounds, 1, f.name)
		}
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
func (s sender) histogram(d *prometheus.Desc, h *figures.Histogram, bounds []int64, unit float64, labels ...string) {
	cumulative, n := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		n += h.Counts[i]
		cumulative[float64(bound)/unit] = n
	}
	s.ch <- prometheus.MustNewConstHistogram(d, h.Count(), float64(h.Sum)/unit, cumulative, labels...)
}

// workersShown is the largest number of workers with series of their own.
const workersShown = 100

var (
	descRunning  = desc("worker_running", "Jobs that a registered worker holds; other: all workers without a series of their own.", "worker")
	descCapacity = desc("worker_capacity", "Jobs that a registered worker can run at a time, as it says.", "worker")
	descQuiet    = desc("worker_quiet", "1 if a registered worker gets no new jobs, otherwise 0.", "worker")
)

// workerCollector sends the running jobs, the capacity and the quiet of each worker. The
// registered workers that come first by name have a series of their own; the running jobs of all
// others, and of those that are not registered, share fsm.FigureOther. A scrape takes time in proportion to workersShown.
func workerCollector(view func() *fsm.View) collect {
	return func(out sender) {
		v := view()
		counts := v.Counts()
		others, shown := counts.Of(fsm.InProgress), 0
		for w := range v.Workers("") {
			if w.Name == fsm.FigureOther || !utf8.ValidString(w.Name) {
				continue
			}
			n := v.Held(w.Name)
			out.gauge(descRunning, float64(n), w.Name)
			out.gauge(descQuiet, oneIf(w.Quiet()), w.Name)
			if w.Capacity > 0 {
				out.gauge(descCapacity, float64(w.Capacity), w.Name)
			}
			others -= n
			if shown++; shown == workersShown {
				break
			}
		}
		out.gauge(descRunning, float64(others), fsm.FigureOther)
	}
}
