package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// freshConns are the connections on which no request has arrived yet. Clients open such
// connections in advance, and net/http counts each as a request that may arrive: at shutdown it
// would wait seconds for a request that never arrives.
type freshConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// freshGrace is the time in which a fresh connection may still send its request once the server
// is shutting down.
const freshGrace = 200 * time.Millisecond

// track implements the ConnState hook of http.Server.
func (f *freshConns) track(c net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		return // was active before
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, c)
		return
	}
	if f.conns == nil {
		f.conns = make(map[net.Conn]struct{})
	}
	f.conns[c] = struct{}{}
}

// shutDown shuts down the server whose connections f has.
func (f *freshConns) shutDown(ctx context.Context, server *http.Server) error {
	defer time.AfterFunc(freshGrace, f.close).Stop()
	return server.Shutdown(ctx)
}

// close closes the fresh connections. The server accepts no more connections by then.
func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close() // it has nothing to lose
	}
}
