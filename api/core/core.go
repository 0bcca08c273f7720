package core

import (
	"cmp"
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
	"golang.org/x/time/rate"

	"osqueue/api/hooks"
	"osqueue/api/livelog"
	"osqueue/fsm"
	"osqueue/internal/auth"
)

// Core answers calls, whatever front end they came through. It is safe for concurrent use.
type Core struct {
	Config    Config
	Node      Node
	Gate      gate
	Reader    jobReader
	Access    *access
	Forward   forwarding
	Hooks     *hooks.Sender
	Name      string // this node's name
	Log       hclog.Logger
	Metrics   *metrics
	Signs     sync.Map // names of workers, while a keepalive is written
	Shares    shares
	Audited   *auditRing
	Refusals  *refusals // of strangers, in the audit log
	Logs      *livelog.Hub
	Legacy    *auth.Principal // of the clients of ServeLegacy; nil: there are none
	Pages     chan struct{}   // has an item for each page whose items are looked for at present
	Documents chan struct{}   // has an item while the document is encoded
	Closing   context.Context // ends when the server does
	Shut      context.CancelFunc
	served    atomic.Uint64 // names requests in the debug log
	lastLSN   atomic.Pointer[lsnHeader]
}

// forwarding takes calls to the leader.
type forwarding interface {
	// Send lets the leader answer c, which it may do wait later than usual. After an error nothing has been answered.
	Send(c *Call, leader string, wait time.Duration) error
}

// pagesAtOnce bounds the pages of lists whose items are looked for at one time.
const pagesAtOnce = 8

func NewCore(cfg Config) *Core {
	cfg = cfg.withDefaults()
	if !IsAck(cfg.Ack) {
		panic("api: there is no ack level " + strconv.Quote(cfg.Ack))
	}
	s := &Core{Config: cfg, Node: cfg.Backend, Log: cfg.Logger, Name: cfg.Backend.Status().Node, Access: newAccess(cfg.Security), Hooks: cfg.Hooks}
	if s.Hooks == nil {
		s.Hooks = hooks.New(hooks.Config{})
	}
	s.Gate = gate{s: s, To: cfg.Backend}
	s.Config.Backend = nil // only the gate writes
	s.Reader = jobReader{&s.Config.Limits, s.Node.Now}
	s.Metrics, s.Shares = newMetrics(cfg.Metrics), newShares(&cfg.Limits)
	s.Audited, s.Refusals = NewAuditRing(cfg.Security.AuditBytes), &refusals{Limit: rate.NewLimiter(strangerEntries, strangerBurst)}
	s.Logs = livelog.New(livelog.DefaultConfig())
	if cfg.Legacy != nil {
		s.Legacy = auth.Legacy(cfg.Legacy.Types)
	}
	s.Pages, s.Documents = make(chan struct{}, pagesAtOnce), make(chan struct{}, 1)
	s.Closing, s.Shut = context.WithCancel(context.Background())
	return s
}

// Do answers a call: it leaves the answer in c. It returns false if a handler panicked, which may have left c anywhere.
func (s *Core) Do(c *Call) (sound bool) {
	c.began = time.Now()
	s.Metrics.inFlight.Inc()
	defer func() {
		s.Metrics.inFlight.Dec()
		s.Metrics.answered(c.Route, c.Method, c.Status, time.Since(c.began))
	}()
	err := s.guarded(c)
	if err != nil {
		s.refuse(c, err)
	}
	s.audit(c, err)
	if s.Log.IsDebug() {
		s.logCall(c, err)
	}
	return !errors.Is(err, errPanic)
}

var errPanic = errors.New("the handler panicked")

// guarded answers the call; a panic becomes an error.
func (s *Core) guarded(c *Call) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
			panic(p)
		}
		c.logger().Error("a handler panicked", "route", c.Route.Path, "method", c.Method, "panic", p, "stack", string(debug.Stack()))
		err = errPanic
	}()
	return s.answer(c)
}

// answer handles the call here, or forwards it to the leader.
func (s *Core) answer(c *Call) error {
	badName := c.readName() // first: the audit log has the name, also of a call that is refused
	if err := s.authorize(c); err != nil {
		return err
	}
	c.Strict = prefersStrict(c.Prefer)
	if err := cmp.Or(badName, c.readParams()); err != nil {
		return err
	}
	done, err := s.readPast(c)
	switch {
	case err != nil:
		return err
	case done:
		if err := s.checkRead(c); err != nil {
			return err
		}
		return c.Route.Handle(c)
	}
	switch c.Route.At {
	case AnyNode:
		if c.Route.Right&auth.Admin != 0 {
			err = s.admit(c)
		}
	case LeaderOnly:
		if err = c.readAck(); err == nil {
			done, err = s.PassOn(c, 0)
		}
		if !done && err == nil {
			err = s.admit(c)
		}
		if !done && err == nil {
			err = c.readKey()
		}
	case UpToDate:
		done, err = s.freshen(c)
	case InMemory:
		done, err = s.passOnWait(c)
	}
	if done || err != nil {
		return err
	}
	if err := s.checkRead(c); err != nil {
		return err
	}
	c.Followed = c.Strict
	return c.Route.Handle(c)
}

// refuse answers with a problem.
func (s *Core) refuse(c *Call, err error) {
	f := FailureOf(err)
	// An earlier refusal stays, although a body that is too slow also ends the context.
	if c.Context().Err() != nil && f.Status >= http.StatusInternalServerError {
		f = &Failure{Kind: clientGone, Detail: "the client has gone", Cause: err}
	}
	if f.Status == http.StatusInternalServerError {
		c.logger().Error("a request failed", "route", c.Route.Path, "method", c.Method, "error", err)
	}
	if c.Begun {
		c.Broken = true
		return
	}
	s.Metrics.problems.WithLabelValues(f.Tag).Inc()
	c.fail(f, c.Route.At == LeaderOnly)
}

// logCall logs a request at level debug only, because it costs more than some requests.
func (s *Core) logCall(c *Call, err error) {
	id := c.RequestID
	if id == "" {
		id = fmt.Sprintf("%s-%d", s.Name, s.served.Add(1))
	}
	c.logger().Debug("answered", "request", Shown(id), "method", c.Method, "path", Shown(c.PathText()), "status", c.Status,
		"lsn", lsnOrNone(c.Lsn), "took", time.Since(c.began), "client", c.Remote, "error", err)
}

func lsnOrNone(lsn fsm.LSN) string {
	if lsn.IsZero() {
		return ""
	}
	return lsn.String()
}
