package osqueue

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/compat"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// Config configures a Handler. Native and Calls are required; the zero values of all
// other fields take their defaults.
type Config struct {
	// Native is the node's HTTP API, for requests from outside.
	Native http.Handler
	// Calls is the same API for the calls that the Handler makes itself, which may be larger.
	Calls compat.API
	// MaxBody is the size of the largest body that Native accepts, in bytes.
	MaxBody int64
	// Inflight bounds the bytes of bodies, lists and waiting answers in memory; nil means no bound.
	Inflight *limit.Budget
	// Origins are the web origins whose pages may read answers in a browser.
	Origins Origins
	// Logger receives the errors of connections at level debug.
	Logger hclog.Logger
	// Client names the client of a request, for its share of the WebSockets. Nil: its address.
	Client func(*http.Request) string
	// Metrics registers the metrics of WebSockets unless it is nil. It must not have those
	// of another Handler.
	Metrics prometheus.Registerer

	Limits Limits
}

// Limits bound the memory that clients can occupy and the time that they may take.
type Limits struct {
	Connections  int   // open WebSockets
	Each         int   // of one client; 0: half of Connections
	MessageBytes int64 // of one message, also of Connect and gRPC

	// ConnectionCalls is the number of calls in flight on one connection. The next
	// message is read when one of them has ended.
	ConnectionCalls int
	// Calls is the number of calls in flight on all connections, without lists.
	Calls int
	// MediumMessages is the number of messages of more than 16 KiB in memory, from
	// reading to the answer, and LargeMessages the number of those of more than 256 KiB.
	// Further messages wait.
	MediumMessages int
	LargeMessages  int
	// Lists is the number of lists of jobs that are made for WebSockets and Connect at a time; further lists wait.
	Lists int

	// QueueBytes is the size of the answers of one connection that wait for the client, if they are more than one. If
	// there are more, the connection is cut.
	QueueBytes int
	// AllQueueBytes is the size of the answers that wait on all connections, if they are more than one.
	AllQueueBytes int64

	Write time.Duration // time limit of writing one answer, without its size
	Read  time.Duration // time limit of a message that has begun to arrive
	Ping  time.Duration // interval of pings
	Pong  time.Duration // time limit of the answer to a ping
	// Grace is the time limit of calls in flight when the Handler is closed.
	Grace time.Duration
}

// DefaultLimits are the limits of a Config that names none.
func DefaultLimits() Limits {
	return Limits{
		Connections:     4096,
		MessageBytes:    8 << 20,
		ConnectionCalls: 16,
		Calls:           512,
		MediumMessages:  128,
		LargeMessages:   4,
		Lists:           1,
		QueueBytes:      4 << 20,
		AllQueueBytes:   32 << 20,
		Write:           10 * time.Second,
		Read:            30 * time.Second,
		Ping:            30 * time.Second,
		Pong:            10 * time.Second,
		Grace:           500 * time.Millisecond,
	}
}

// defaultMaxBody is the limit of the legacy broker.
const defaultMaxBody = 1 << 20

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Client == nil {
		c.Client = func(r *http.Request) string { return web.HostOf(r.RemoteAddr) }
	}
	if c.MaxBody <= 0 {
		c.MaxBody = defaultMaxBody
	}
	c.Limits = c.Limits.withDefaults()
	return c
}

func (l Limits) withDefaults() Limits {
	l = limit.Defaults(l, DefaultLimits())
	if l.Each <= 0 {
		l.Each = limit.Half(l.Connections)
	}
	return l
}
