package serve

import (
	"fmt"
	"net/http"
	"sync"

	"osqueue/api"
	"osqueue/api/ui"
	"osqueue/cluster"
	"osqueue/internal/auth/enroll"
)

// The values of --ui.
const (
	uiOn       = "on"
	uiReadOnly = "read-only"
	uiOff      = "off"
)

func checkUI(mode string) error {
	switch mode {
	case uiOn, uiReadOnly, uiOff:
		return nil
	}
	return fmt.Errorf("--ui %q: use on, read-only or off", mode)
}

// internal returns the handlers that are not part of the API, by the prefix of their paths.
func (s *server) internal(o *serveOptions) map[string]http.Handler {
	handlers := map[string]http.Handler{cluster.PeerPath: s.clientPeerPath(o)}
	if o.dashboard != uiOff {
		calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Identified().ServeHTTP(w, r) })
		handlers[ui.Root] = ui.New(ui.Config{API: calls, ReadOnly: o.dashboard == uiReadOnly})
	}
	return handlers
}

// clientPeerPath returns the handler of cluster.PeerPath at the HTTP port: the requests of
// operators and, unless --security=on, the calls of nodes whose release does
// not know the port for nodes.
func (s *server) clientPeerPath(o *serveOptions) http.Handler {
	peers := s.node.PeerHandler()
	operations := make(map[string]func() http.Handler)
	for _, path := range []string{cluster.ClockPath, cluster.RevokePath} {
		operations[path] = sync.OnceValue(func() http.Handler { return s.api.AdminOnly(path, s.node.OperatorHandler()) })
	}
	if s.enroll != nil {
		for _, path := range []string{enroll.TokenPath, enroll.PendingPath, enroll.SignPath} {
			operations[path] = sync.OnceValue(func() http.Handler { return s.api.AdminOnly(path, s.enroll.Admin()) })
		}
		for _, path := range []string{enroll.CAPath, enroll.JoinPath} { // the secret of a join token is the credential
			operations[path] = sync.OnceValue(s.enroll.Open)
		}
	}
	on := o.security.mode == api.SecurityOn
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operations[r.URL.Path]
		switch {
		case operation != nil:
			operation().ServeHTTP(w, r)
		case on:
			http.Error(w, "nodes call each other at the raft port", http.StatusNotFound)
		default:
			peers.ServeHTTP(w, r)
		}
	})
}
