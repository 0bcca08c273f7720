package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"osqueue/internal/web"
)

// Profiles show the contents of memory and can slow a node down, so they have a listener
// of their own, which other machines cannot reach.

// listenPprof returns nil if there is no address.
func listenPprof(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for profiles: %w", err)
	}
	return l, nil
}

// servePprof serves profiles until the returned function is called.
func (s *server) servePprof() (stop func()) {
	if s.pprof == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: web.Guard(web.GuardConfig{}, mux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(s.pprof) // ends with Close
	}()
	s.log.Info("serving profiles", "url", fmt.Sprintf("http://%s/debug/pprof/", s.pprof.Addr()))
	return func() {
		_ = srv.Close()
		<-done
	}
}
