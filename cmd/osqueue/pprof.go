package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Profiles show the contents of memory and can slow a node down, so they have a listener
// of their own, which other machines cannot reach.

// loopbackOnly returns an error for an address that is not on loopback. An empty address
// is allowed.
func loopbackOnly(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("write host:port")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("must be on loopback, for example 127.0.0.1:6060: profiles show what is in memory")
	}
	return nil
}

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
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
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
