package osqueue

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of WebSockets; the calls on them are counted by the HTTP API.
// The labels are bounded: a method is one of the contract or otherMethod.
type metrics struct {
	open     prometheus.Gauge
	messages *prometheus.CounterVec
	refused  prometheus.Counter
	cut      *prometheus.CounterVec
}

// The reasons for cutting a WebSocket.
const (
	cutUnread = "unread" // the client does not read its answers
	cutSilent = "silent" // the client does not answer a ping, or stops within a message
)

// otherMethod is the label of unknown methods and of invalid messages.
const otherMethod = "other"

// newMetrics makes the metrics and registers them if r is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "osqueue_ws_connections",
			Help: "Open WebSockets.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "osqueue_ws_messages_total",
			Help: "Messages received on WebSockets, by method; other: the method is unknown, or the message invalid.",
		}, []string{"method"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "osqueue_ws_refused_total",
			Help: "WebSockets that were refused because too many were open.",
		}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "osqueue_ws_cut_total",
			Help: "WebSockets that were cut, by reason; unread: the client did not read its answers, silent: it did not answer a ping, or stopped within a message.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{cutUnread, cutSilent} {
		m.cut.WithLabelValues(reason) // so that the series exists from the start
	}
	if r != nil {
		r.MustRegister(m.open, m.messages, m.refused, m.cut)
	}
	return m
}

// message counts a message.
func (m *metrics) message(method string, known bool) {
	if !known || !isMethod(method) {
		method = otherMethod
	}
	m.messages.WithLabelValues(method).Inc()
}
