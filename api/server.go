package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/hashicorp/go-hclog"

	"osqueue/api/hooks"
	"osqueue/api/livelog"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/share"
)

// Server is the HTTP API of one node. It is an http.Handler, safe for concurrent use. Create it
// with New and end it with Shutdown.
type Server struct {
	cfg        Config
	b          Node
	gate       gate
	access     *access
	hooks      *hooks.Sender
	node       string // this node's name
	log        hclog.Logger
	router     *mux.Router
	routes     []route
	calls      map[string]*route // by method and template
	frames     openStreams
	metrics    *metrics
	forward    *forwarder
	http       *http.Server
	nodes      *http.Server // for requests of other nodes
	fresh      freshConns
	freshNodes freshConns // those at the port of the nodes
	signs      sync.Map   // names of workers, while a keepalive is written
	shares     shares
	conns      *share.Limit // open connections of clients
	spare      *share.Limit // those over the bounds
	audited    *auditRing
	refusals   *refusals // of strangers, in the audit log
	logs       *livelog.Hub
	legacy     *auth.Principal // of the clients of ServeLegacy; nil: there are none
	pages      chan struct{}   // has an item for each page whose items are looked for at present
	documents  chan struct{}   // has an item while the document is encoded
	closing    context.Context // ends when the server does
	shut       context.CancelFunc
	served     atomic.Uint64 // names requests in the debug log
	lastLSN    atomic.Pointer[lsnHeader]
}

// headerBytesMax bounds the head of a request.
const headerBytesMax = 64 << 10

// http2Streams bounds the requests that an HTTP/2 connection may have at one time: each may
// hold an answer in memory.
const http2Streams = 32

// pagesAtOnce bounds the pages of lists whose items are looked for at one time.
const pagesAtOnce = 8

// New makes a server. It panics without a backend, with an ack level that does
// not exist, and if the registry has the metrics of a server already.
func New(cfg Config) *Server {
	if cfg.Backend == nil {
		panic("api: no backend given")
	}
	cfg = cfg.withDefaults()
	if !isAck(cfg.Ack) {
		panic("api: there is no ack level " + strconv.Quote(cfg.Ack))
	}
	s := &Server{cfg: cfg, b: cfg.Backend, gate: gate{to: cfg.Backend}, log: cfg.Logger, node: cfg.Backend.Status().Node, access: newAccess(cfg.Security), hooks: cfg.Hooks}
	if s.hooks == nil {
		s.hooks = hooks.New(hooks.Config{})
	}
	s.gate.s = s
	s.cfg.Backend = nil // only the gate writes
	s.metrics, s.shares = newMetrics(cfg.Metrics), newShares(&cfg.Limits)
	s.conns, s.spare = share.New(cfg.MaxConnections, cfg.ConnectionsEach), share.New(spareConnections, spareConnections)
	s.audited, s.refusals = newAuditRing(cfg.Security.AuditBytes), newRefusals()
	s.logs = livelog.New(livelog.DefaultConfig())
	if cfg.Legacy != nil {
		s.legacy = auth.Legacy(cfg.Legacy.Types)
	}
	s.pages, s.documents = make(chan struct{}, pagesAtOnce), make(chan struct{}, 1)
	s.closing, s.shut = context.WithCancel(context.Background())
	s.forward = newForwarder(s)
	s.buildRouter()
	t := &cfg.Timeouts
	s.http = &http.Server{
		Handler:           s.withinBound(outside(s.identified(s.wrapped()))),
		TLSConfig:         cfg.TLS,
		Protocols:         protocols(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: http2Streams},
		ReadHeaderTimeout: t.Header,
		ReadTimeout:       t.Body,
		WriteTimeout:      t.Answer,
		IdleTimeout:       t.Idle,
		MaxHeaderBytes:    headerBytesMax,
		ConnState:         s.fresh.track,
		ConnContext:       withConn,
		ErrorLog:          newErrorLog(s.log),
	}
	s.nodes = s.newNodeServer()
	return s
}

// protocols are HTTP/1 and HTTP/2, on the same port, with or without TLS.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// wrapped returns the handler for external requests.
func (s *Server) wrapped() http.Handler {
	if s.cfg.Wrap == nil {
		return s
	}
	calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), withinKey{}, true)))
	})
	return s.cfg.Wrap(s, calls)
}

// withinKey marks requests that come from this process.
type withinKey struct{}

// Serve answers requests on ln, which it closes, until Shutdown. It returns nil as soon as
// Shutdown begins, or an error if ln fails.
func (s *Server) Serve(ln net.Listener) error {
	err := s.serveOn(&boundedListener{Listener: ln, s: s})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w", ln.Addr(), err)
}

// Shutdown ends the server. Requests that wait end at once. Other requests may continue until
// ctx ends; then Shutdown cuts them off and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shut()
	s.frames.drain()
	defer s.forward.close()
	defer s.frames.close(ctx)
	err := s.fresh.shutDown(ctx, s.http)
	if err == nil {
		err = s.freshNodes.shutDown(ctx, s.nodes)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the HTTP server stopped before all requests had ended: %w", err), s.http.Close(), s.nodes.Close())
	}
	return nil
}

// do answers a call: it leaves the answer in c. It returns false if a handler panicked, which may have left c anywhere.
func (s *Server) do(c *call) (sound bool) {
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
func (s *Server) guarded(c *call) (err error) {
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
func (s *Server) answer(c *call) error {
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
func (s *Server) refuse(c *call, err error) {
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
func (s *Server) logCall(c *call, err error) {
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
