package serve

import (
	"net/http"

	"osqueue/api/ui"
	"osqueue/cluster"
)

// The values of --ui.
const (
	uiOn       = "on"
	uiReadOnly = "read-only"
	uiOff      = "off"
)

// internal returns the handlers that are not part of the API, by the prefix of their paths.
func (s *server) internal(o *serveOptions) map[string]http.Handler {
	handlers := map[string]http.Handler{cluster.PeerPath: s.clientClusterHandler()}
	if o.dashboard != uiOff {
		calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Identified().ServeHTTP(w, r) })
		handlers[ui.Root] = ui.New(ui.Config{API: calls, ReadOnly: o.dashboard == uiReadOnly})
	}
	return handlers
}
