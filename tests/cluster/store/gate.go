package store

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// gate is the proxy's address: open, or closed so that connections are refused.
type gate struct {
	handler http.Handler
	addr    string

	mu     sync.Mutex
	server *http.Server // nil: closed
}

// open listens. No other program can have taken the port meanwhile: the address is the
// proxy's own.
func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		return err
	}
	g.server = &http.Server{Handler: g.handler, ReadHeaderTimeout: 5 * time.Second}
	go func(s *http.Server) { _ = s.Serve(l) }(g.server)
	return nil
}

// close ends all connections, too.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil {
		_ = g.server.Close()
		g.server = nil
	}
}
