package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/gorilla/mux"

	"osqueue/api/core"
	"osqueue/internal/limit"
)

// Server serves the API of one node over HTTP and streams. It is an http.Handler, safe for concurrent use. Create it
// with New and end it with Shutdown.
type Server struct {
	*core.Core
	router     *mux.Router
	routes     []core.Route
	frames     openStreams
	forwarder  *forwarder
	http       *http.Server
	nodes      *http.Server // for requests of other nodes
	fresh      freshConns
	freshNodes freshConns   // those at the port of the nodes
	conns      *limit.Slots // open connections of clients
	spare      *limit.Slots // those over the bounds
}

// headerBytesMax bounds the head of a request.
const headerBytesMax = 64 << 10

// http2Streams bounds the requests that an HTTP/2 connection may have at one time: each may
// hold an answer in memory.
const http2Streams = 32

// New makes a server. It panics without a backend, with an ack level that does
// not exist, and if the registry has the metrics of a server already.
func New(cfg core.Config) *Server {
	if cfg.Backend == nil {
		panic("api: no backend given")
	}
	if cfg.Transport == nil {
		cfg.Transport = newTransport(cfg.DialNode)
	}
	s := &Server{Core: core.NewCore(cfg)}
	cfg = s.Config
	s.conns, s.spare = limit.NewSlots(cfg.MaxConnections, cfg.ConnectionsEach), limit.NewSlots(spareConnections, spareConnections)
	s.forwarder = &forwarder{s}
	s.Forward = s.forwarder
	s.buildRouter()
	clients := http.Handler(s)
	if cfg.Wrap != nil {
		clients = cfg.Wrap(s, within{s})
	}
	s.http, s.nodes = s.newServer(&s.fresh, withConn), s.newServer(&s.freshNodes, withNode)
	s.http.Handler, s.http.TLSConfig, s.http.Protocols = s.withinBound(outside(s.identified(clients))), cfg.TLS, protocols()
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: http2Streams}
	return s
}

// newServer makes the server of one port, without a handler.
func (s *Server) newServer(fresh *freshConns, with func(context.Context, net.Conn) context.Context) *http.Server {
	t := &s.Config.Timeouts
	return &http.Server{
		ReadHeaderTimeout: t.Header,
		ReadTimeout:       t.Body,
		WriteTimeout:      t.Answer,
		IdleTimeout:       t.Idle,
		MaxHeaderBytes:    headerBytesMax,
		ConnState:         fresh.track,
		ConnContext:       with,
		ErrorLog:          newErrorLog(s.Log),
	}
}

// protocols are HTTP/1 and HTTP/2, on the same port, with or without TLS.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

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
	s.Shut()
	s.frames.drain()
	defer s.forwarder.close()
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
