package api

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// freshConns are the connections that have not brought a request yet. Clients
// open such connections in advance, and net/http takes each for a request that
// may be coming: at shutdown it waits seconds for what will never come.
type freshConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// freshGrace is how long a fresh connection may still bring its request once
// the server is shutting down.
const freshGrace = 200 * time.Millisecond

// track is a http.Server's ConnState.
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

// close closes what is fresh. Nothing is accepted any more by then.
func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close() // it has nothing to lose
	}
}
