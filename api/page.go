package api

import (
	"net/http"
	"strings"
)

// dashboard is the path of the dashboard, which is one of the internal handlers.
const dashboard = "/ui"

// wantsDashboard reports whether a browser asks for / of a node that has the dashboard. Others
// get 404, as the legacy broker answers.
func (c *httpCall) wantsDashboard() bool {
	return c.s.cfg.Internal[dashboard] != nil && c.r.URL.Path == "/" && (c.method == http.MethodGet || c.method == http.MethodHead) &&
		strings.Contains(c.r.Header.Get("Accept"), "text/html")
}
