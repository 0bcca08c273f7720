package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/hooks"
	"osqueue/api/livelog"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// Core answers calls, whatever front end they came through. It is safe for concurrent use.
type Core struct {
	cfg       Config
	b         Node
	gate      gate
	reader    jobReader
	access    *access
	forward   forwarding
	hooks     *hooks.Sender
	node      string // this node's name
	log       hclog.Logger
	metrics   *metrics
	signs     sync.Map // names of workers, while a keepalive is written
	shares    shares
	audited   *auditRing
	refusals  *refusals // of strangers, in the audit log
	logs      *livelog.Hub
	legacy    *auth.Principal // of the clients of ServeLegacy; nil: there are none
	pages     chan struct{}   // has an item for each page whose items are looked for at present
	documents chan struct{}   // has an item while the document is encoded
	closing   context.Context // ends when the server does
	shut      context.CancelFunc
	served    atomic.Uint64 // names requests in the debug log
	lastLSN   atomic.Pointer[lsnHeader]
}

// forwarding takes calls to the leader.
type forwarding interface {
	// send lets the leader answer c, which it may do wait later than usual. After an error nothing has been answered.
	send(c *call, leader string, wait time.Duration) error
}

// pagesAtOnce bounds the pages of lists whose items are looked for at one time.
const pagesAtOnce = 8

func newCore(cfg Config) *Core {
	cfg = cfg.withDefaults()
	if !isAck(cfg.Ack) {
		panic("api: there is no ack level " + strconv.Quote(cfg.Ack))
	}
	s := &Core{cfg: cfg, b: cfg.Backend, log: cfg.Logger, node: cfg.Backend.Status().Node, access: newAccess(cfg.Security), hooks: cfg.Hooks}
	if s.hooks == nil {
		s.hooks = hooks.New(hooks.Config{})
	}
	s.gate = gate{s: s, to: cfg.Backend}
	s.cfg.Backend = nil // only the gate writes
	s.reader = jobReader{&s.cfg.Limits, s.b.Now}
	s.metrics, s.shares = newMetrics(cfg.Metrics), newShares(&cfg.Limits)
	s.audited, s.refusals = newAuditRing(cfg.Security.AuditBytes), newRefusals()
	s.logs = livelog.New(livelog.DefaultConfig())
	if cfg.Legacy != nil {
		s.legacy = auth.Legacy(cfg.Legacy.Types)
	}
	s.pages, s.documents = make(chan struct{}, pagesAtOnce), make(chan struct{}, 1)
	s.closing, s.shut = context.WithCancel(context.Background())
	return s
}

// do answers a call: it leaves the answer in c. It returns false if a handler panicked, which may have left c anywhere.
func (s *Core) do(c *call) (sound bool) {
	c.began = time.Now()
	s.metrics.inFlight.Inc()
	defer func() {
		s.metrics.inFlight.Dec()
		s.metrics.answered(c.route, c.method, c.status, time.Since(c.began))
	}()
	err := s.guarded(c)
	if err != nil {
		s.refuse(c, err)
	}
	s.audit(c, err)
	if s.log.IsDebug() {
		s.logCall(c, err)
	}
	return !errors.Is(err, errPanic)
}

var errPanic = errors.New("the handler panicked")

// guarded answers the call; a panic becomes an error.
func (s *Core) guarded(c *call) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			panic(p)
		}
		c.logger().Error("a handler panicked", "route", c.route.path, "method", c.method, "panic", p, "stack", string(debug.Stack()))
		err = errPanic
	}()
	return s.answer(c)
}

// answer handles the call here, or forwards it to the leader.
func (s *Core) answer(c *call) error {
	if err := s.authorize(c); err != nil {
		return err
	}
	c.strict = prefers(c.prefer)
	done, err := s.readPast(c)
	switch {
	case err != nil:
		return err
	case done:
		if err := s.checkRead(c); err != nil {
			return err
		}
		return c.route.handle(c)
	}
	switch c.route.at {
	case anyNode:
		if c.route.right&auth.Admin != 0 {
			err = s.admit(c)
		}
	case leaderOnly:
		if err = c.readAck(); err == nil {
			done, err = s.passOn(c, 0)
		}
		if !done && err == nil {
			err = s.admit(c)
		}
		if !done && err == nil {
			err = c.readKey()
		}
	case upToDate:
		done, err = s.freshen(c)
	case inMemory:
		done, err = s.passOnWait(c)
	}
	if done || err != nil {
		return err
	}
	if err := s.checkRead(c); err != nil {
		return err
	}
	c.followed = c.strict
	return c.route.handle(c)
}

// refuse answers with a problem.
func (s *Core) refuse(c *call, err error) {
	f := failureOf(err)
	// An earlier refusal stays, although a body that is too slow also ends the context.
	if c.context().Err() != nil && f.status >= http.StatusInternalServerError {
		f = &failure{kind: clientGone, detail: "the client has gone", cause: err}
	}
	if f.status == http.StatusInternalServerError {
		c.logger().Error("a request failed", "route", c.route.path, "method", c.method, "error", err)
	}
	if c.begun {
		c.broken = true
		return
	}
	s.metrics.problems.WithLabelValues(f.tag).Inc()
	c.fail(f, c.route.at == leaderOnly)
}

// logCall logs a request at level debug only, because it costs more than some requests.
func (s *Core) logCall(c *call, err error) {
	id := c.requestID
	if id == "" {
		id = fmt.Sprintf("%s-%d", s.node, s.served.Add(1))
	}
	c.logger().Debug("answered", "request", shown(id), "method", c.method, "path", shown(c.pathText()), "status", c.status,
		"lsn", lsnOrNone(c.lsn), "took", time.Since(c.began), "client", c.remote, "error", err)
}

func lsnOrNone(lsn fsm.LSN) string {
	if lsn.IsZero() {
		return ""
	}
	return lsn.String()
}
