package dtq

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/internal/inflight"
)

// Config says what a Handler serves. Native, Calls and Leader are required; zero
// values of all others take their defaults.
type Config struct {
	// Native gets all requests that are not dtq's.
	Native http.Handler
	// Calls is the node's HTTP API for the requests that the Handler makes of its
	// own. It passes on to the leader what is the leader's.
	Calls http.Handler
	// Leader says who leads. It is asked at each request, so it must be cheap.
	Leader func() Leader
	// MaxBody is how large a body may be, in bytes.
	MaxBody int64
	// Inflight bounds the bytes of bodies that are in memory; nil: they are not
	// bounded.
	Inflight *inflight.Budget
	// Logger gets what an operator should know.
	Logger hclog.Logger
	// Timeouts bound how long answers take.
	Timeouts Timeouts
}

// Leader is who leads, as far as this node knows.
type Leader struct {
	Self bool
	// Node is the name of the active leader, URL the base of its HTTP API; "" if
	// none is known.
	Node, URL string
}

// Timeouts bound how long answers take. Where none is named here it is the HTTP
// API's own.
type Timeouts struct {
	// Commit is for a majority to have an assignment or a result.
	Commit time.Duration
	// Sign is for a registration or a heartbeat to come to the leader.
	Sign time.Duration
	// Fresh is for the leader's word on a task; after it the node tells what it
	// has.
	Fresh time.Duration
}

// DefaultTimeouts are the timeouts of a Config that names none.
func DefaultTimeouts() Timeouts {
	return Timeouts{Commit: 3 * time.Second, Sign: time.Second, Fresh: time.Second}
}

// defaultMaxBody is that of the HTTP API. The original has none.
const defaultMaxBody = 1 << 20

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.MaxBody <= 0 {
		c.MaxBody = defaultMaxBody
	}
	d := DefaultTimeouts()
	c.Timeouts.Commit = or(c.Timeouts.Commit, d.Commit)
	c.Timeouts.Sign = or(c.Timeouts.Sign, d.Sign)
	c.Timeouts.Fresh = or(c.Timeouts.Fresh, d.Fresh)
	return c
}

func or(v, otherwise time.Duration) time.Duration {
	if v > 0 {
		return v
	}
	return otherwise
}
