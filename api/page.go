package api

import (
	"net/http"
	"strings"
)

// dashboard is the path of the dashboard, which is one of the internal handlers.
const dashboard = "/ui"

// wantsDashboard reports whether a browser asks for / of a node that has the dashboard. Others
// get 404, as the legacy broker answers.
func (h *httpCall) wantsDashboard() bool {
	return h.Core.Config.Internal[dashboard] != nil && h.r.URL.Path == "/" && (h.Method == http.MethodGet || h.Method == http.MethodHead) &&
		strings.Contains(h.r.Header.Get("Accept"), "text/html")
}
