package dtq

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/compat"
	"osqueue/internal/limit"
)

// Config configures a Handler. Native, Calls and Leader are required; the zero values
// of all other fields take their defaults.
type Config struct {
	// Native serves all requests that are not dtq's.
	Native http.Handler
	// Calls makes the calls of the Handler.
	Calls compat.API
	// Leader returns the leader for the client of a request. The Handler calls it for every request, so it must be
	// cheap.
	Leader func(*http.Request) Leader
	// MaxBody is the largest size of a body in bytes.
	MaxBody int64
	// Inflight bounds the bytes of bodies in memory; nil means no bound.
	Inflight *limit.Budget
	// Logger receives events for an operator.
	Logger hclog.Logger
	// Timeouts bound the duration of answers.
	Timeouts Timeouts
}

// A Leader is the active leader as this node knows it.
type Leader struct {
	Self bool // this node is the active leader
	// Node is the name of the active leader, URL the base of its HTTP API; "" if
	// none is known.
	Node, URL string
}

// Timeouts bound the duration of answers. Calls without a field here have the timeout
// of the HTTP API.
type Timeouts struct {
	// Commit is the timeout for a majority to store an assignment or a result.
	Commit time.Duration
	// Sign is the timeout for a registration or a heartbeat to reach the leader.
	Sign time.Duration
	// Fresh is the timeout for a read from the leader. After it the node answers from
	// its own state.
	Fresh time.Duration
}

// DefaultTimeouts are the timeouts of a Config that names none.
func DefaultTimeouts() Timeouts {
	return Timeouts{Commit: 3 * time.Second, Sign: time.Second, Fresh: time.Second}
}

// defaultMaxBody is the default of the HTTP API. dtq has no limit.
const defaultMaxBody = 1 << 20

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.MaxBody <= 0 {
		c.MaxBody = defaultMaxBody
	}
	c.Timeouts = limit.Defaults(c.Timeouts, DefaultTimeouts())
	return c
}
