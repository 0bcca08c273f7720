package api

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
)

// startPage is the page for browsers at /. It shows only data of GET /status.
var startPage = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>osqueue {{.Node}}</title>
<h1>osqueue</h1>
<p>Node {{.Node}} of version {{.Version}}, {{.State}}. {{with .Leader}}The leader is {{.}}.{{else}}No leader is known.{{end}}</p>
<ul>
<li><a href="/ui">/ui</a>: the dashboard
<li><a href="/openapi.yaml">/openapi.yaml</a>: the HTTP API
<li><a href="/status">/status</a>: this node
<li><a href="/v1/stats">/v1/stats</a>: the jobs
<li><a href="/readyz">/readyz</a>, <a href="/healthz">/healthz</a>: for load balancers
<li><a href="/metrics">/metrics</a>: for Prometheus
</ul>
<p>On the command line: <code>osqueue status</code>, <code>osqueue --help</code>. The documents are in docs/ of the source.</p>
</html>
`))

// wantsPage reports whether a browser asks for /. Others get 404, as the legacy broker
// answers.
func wantsPage(r *http.Request) bool {
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (c *call) showPage() error {
	st := c.s.b.Status()
	var b bytes.Buffer
	err := startPage.Execute(&b, map[string]string{
		"Node": st.Node, "Version": st.Version, "State": st.Fence, "Leader": st.LeaderNode,
	})
	if err != nil {
		return err
	}
	h := c.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = c.Write(b.Bytes()) // the client may have gone
	return nil
}
