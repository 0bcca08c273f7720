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
	return c.Core.Config.Internal[dashboard] != nil && c.r.URL.Path == "/" && (c.Method == http.MethodGet || c.Method == http.MethodHead) &&
		strings.Contains(c.r.Header.Get("Accept"), "text/html")
}
