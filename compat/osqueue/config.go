package osqueue

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/internal/inflight"
)

// Config says what a Handler serves, and within which bounds. Native and Calls
// are required; zero values of all others take their defaults.
type Config struct {
	// Native is the node's HTTP API, for requests from outside.
	Native http.Handler
	// Calls is the same API for the requests that the Handler makes of its own,
	// which may be larger.
	Calls http.Handler
	// MaxBody is how large a body Native takes, in bytes.
	MaxBody int64
	// Inflight bounds the bytes of bodies that are in memory; nil: they are not
	// bounded.
	Inflight *inflight.Budget
	// Origins are those whose pages may read the answers in a browser.
	Origins Origins
	// Logger gets what goes wrong with connections, at level debug.
	Logger hclog.Logger
	// Metrics gets the figures of WebSockets; nil: nobody does. It must not have those
	// of another Handler.
	Metrics prometheus.Registerer

	Limits Limits
}

// Limits bound what clients can make grow, and how long they may take.
type Limits struct {
	Connections  int   // WebSockets at once
	MessageBytes int64 // of one message, also of Connect and gRPC

	// Calls of one connection that are under way; the next message is read when
	// one has ended.
	ConnectionCalls int
	// Calls of all connections that are under way; lists are counted apart.
	Calls int
	// MediumMessages is how many messages of more than 16 KiB there are at once, from
	// the time they are read to the answer, and LargeMessages how many of more than
	// 256 KiB. Others wait.
	MediumMessages int
	LargeMessages  int
	// Lists is how many lists of jobs there are at once; others wait. ListBytes is
	// where a list ends: no further page is added to one that is larger.
	Lists     int
	ListBytes int

	// Queue is how many answers of one connection wait to be read by the client, and
	// QueueBytes how many bytes they may have if they are more than one. With more
	// the connection is cut.
	Queue      int
	QueueBytes int
	// AllQueueBytes bounds the answers that wait on all connections.
	AllQueueBytes int64

	Write time.Duration // for one answer to be taken by the client
	Read  time.Duration // for a message that has begun to arrive
	Ping  time.Duration // after so much silence the client is asked for a sign of life
	Pong  time.Duration // and has so long for it
	// Grace is how long calls under way may take when the Handler is closed.
	Grace time.Duration
}

// DefaultLimits are the limits of a Config that names none.
func DefaultLimits() Limits {
	return Limits{
		Connections:     4096,
		MessageBytes:    8 << 20,
		ConnectionCalls: 16,
		Calls:           512,
		MediumMessages:  256,
		LargeMessages:   8,
		Lists:           8,
		ListBytes:       24 << 20,
		Queue:           64,
		QueueBytes:      4 << 20,
		AllQueueBytes:   128 << 20,
		Write:           10 * time.Second,
		Read:            30 * time.Second,
		Ping:            30 * time.Second,
		Pong:            10 * time.Second,
		Grace:           500 * time.Millisecond,
	}
}

// defaultMaxBody is the limit of the original.
const defaultMaxBody = 1 << 20

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.MaxBody = or(c.MaxBody, defaultMaxBody)
	c.Limits = c.Limits.withDefaults()
	return c
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Connections:     or(l.Connections, d.Connections),
		MessageBytes:    or(l.MessageBytes, d.MessageBytes),
		ConnectionCalls: or(l.ConnectionCalls, d.ConnectionCalls),
		Calls:           or(l.Calls, d.Calls),
		MediumMessages:  or(l.MediumMessages, d.MediumMessages),
		LargeMessages:   or(l.LargeMessages, d.LargeMessages),
		Lists:           or(l.Lists, d.Lists),
		ListBytes:       or(l.ListBytes, d.ListBytes),
		Queue:           or(l.Queue, d.Queue),
		QueueBytes:      or(l.QueueBytes, d.QueueBytes),
		AllQueueBytes:   or(l.AllQueueBytes, d.AllQueueBytes),
		Write:           or(l.Write, d.Write),
		Read:            or(l.Read, d.Read),
		Ping:            or(l.Ping, d.Ping),
		Pong:            or(l.Pong, d.Pong),
		Grace:           or(l.Grace, d.Grace),
	}
}

// or is v, or the default if v is not positive.
func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
