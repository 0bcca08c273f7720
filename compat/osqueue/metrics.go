package osqueue

import "github.com/prometheus/client_golang/prometheus"

// metrics are the figures of WebSockets. What goes on below them, the calls, is in
// those of the HTTP API. Labels are bounded: methods are those of the contract.
type metrics struct {
	open     prometheus.Gauge
	messages *prometheus.CounterVec
	refused  prometheus.Counter
	cut      *prometheus.CounterVec
}

// Why a WebSocket was cut.
const (
	cutUnread = "unread" // its client does not read the answers
	cutSilent = "silent" // its client gives no sign of life, or stops within a message
)

// otherMethod stands for methods that there are not, and for what is no message.
const otherMethod = "other"

// newMetrics makes the figures, and registers them if r is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "osqueue_ws_connections",
			Help: "WebSockets that are open.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "osqueue_ws_messages_total",
			Help: "Messages received on WebSockets, by method; other: there is no such method, or it was no message.",
		}, []string{"method"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "osqueue_ws_refused_total",
			Help: "WebSockets that were not opened because there were too many.",
		}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "osqueue_ws_cut_total",
			Help: "WebSockets that were cut, by reason; unread: the client did not read its answers, silent: it gave no sign of life, or stopped within a message.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{cutUnread, cutSilent} {
		m.cut.WithLabelValues(reason) // so that there is a 0 to count from
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
