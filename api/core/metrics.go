package core

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// metrics are the metrics of the server. Their labels are bounded: routes are templates,
// methods and statuses are standard ones, and tags are those of package v1.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	forwards *prometheus.CounterVec
	problems *prometheus.CounterVec

	replays, duplicates prometheus.Counter
	objectAcks          *prometheus.CounterVec
}

// durationBuckets range from a commit on a fast disk to the longest poll.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 90}

func newMetrics(r prometheus.Registerer) *metrics {
	to := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return to.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &metrics{
		requests: counter("osqueue_http_requests_total",
			"HTTP requests answered, by route, method and status. 499: the client had gone.", "route", "method", "status"),
		seconds: to.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "osqueue_http_request_duration_seconds",
			Help:    "Time to answer HTTP requests, the waiting that they asked for included.",
			Buckets: durationBuckets,
		}, []string{"route", "method"}),
		inFlight: to.NewGauge(prometheus.GaugeOpts{
			Name: "osqueue_http_requests_in_flight",
			Help: "HTTP requests being answered, those that wait included.",
		}),
		forwards: counter("osqueue_http_forwards_total", "Requests passed on to the leader, by what became of them.", "result"),
		problems: counter("osqueue_http_problems_total", "Requests answered with a problem by this node itself, by its tag.", "tag"),
		replays: counter("osqueue_replays_total",
			"Writes that repeated an idempotency key and got the first answer again.").WithLabelValues(),
		duplicates: counter("osqueue_duplicates_total",
			"Jobs, reports and changes that had been there before and changed nothing.").WithLabelValues(),
		objectAcks: counter("osqueue_object_acks_total",
			"Writes answered that were to be in the bucket, by what they had reached by then: object, or only quorum.", "committed"),
	}
}

// duplicate counts the items of a write that were already done.
func (m *metrics) duplicate(codes []fsm.Code) {
	for _, code := range codes {
		if code == fsm.Duplicate {
			m.duplicates.Inc()
		}
	}
}

// answered records an answer.
func (m *metrics) answered(rt *Route, method string, status int, took time.Duration) {
	method = knownMethod(method)
	m.requests.WithLabelValues(rt.Path, method, statusLabel(status)).Inc()
	m.seconds.WithLabelValues(rt.Path, method).Observe(took.Seconds())
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// statusLabel returns the status of an answer; an answer that broke off has none.
func statusLabel(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return strconv.Itoa(status)
}

// Forwarded records the result of a forwarded request.
func (m *metrics) Forwarded(sent bool, err error) {
	result := "answered"
	switch {
	case err == nil:
	case sent:
		result = "broken"
	default:
		result = "unreachable"
	}
	m.forwards.WithLabelValues(result).Inc()
}

// HeaderTraceparent is v1.HeaderTraceparent under the name that net/http gives it.
const HeaderTraceparent = "Traceparent"

// Trace gives a committed write to the tracer, and notes the trace of its job for the log.
func (s *Core) Trace(c *Call, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) {
	if s.Config.Tracer != nil {
		s.Config.Tracer.Committed(c.began, m, res, lsn)
	}
	if c.trace == "" && len(res.Jobs) > 0 && s.Log.IsDebug() {
		c.trace = traceOf(res.Jobs[0])
	}
}

// logger returns the log with the id of the trace of the request, or else of its job, as
// trace_id.
func (c *Call) logger() hclog.Logger {
	id := cmp.Or(v1.TraceID(c.Traceparent), c.trace)
	if id == "" {
		return c.Core.Log
	}
	return c.Core.Log.With("trace_id", id)
}

// traceOf returns the id of the trace of a job, or "".
func traceOf(j *fsm.Job) string {
	if j == nil {
		return ""
	}
	for _, h := range j.Options().Headers {
		if h.Name == v1.HeaderTraceparent {
			return v1.TraceID(h.Value)
		}
	}
	return ""
}
