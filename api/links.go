package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"osqueue/api/jobs"
	v1 "osqueue/client/api/v1"
)

// linkPage is what people see who open a link: what it does, and a button. It sends the signal by a script, so that neither a mail
// scanner that follows links nor a form of another page does.
//
//go:embed link.html
var linkPage string

var linkTemplate = template.Must(template.New("link").Parse(linkPage))

// linkPolicy allows the script of the page alone, and no frame around it.
var linkPolicy = func() string {
	_, rest, _ := strings.Cut(linkPage, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// showLink is GET /links/{name}.
func (s *Server) showLink(h *httpCall) error {
	job, signal, err := jobs.Link(h.State(), s.Node.Now(), h.Name)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := linkTemplate.Execute(&page, struct{ Job, Signal string }{job, signal}); err != nil {
		return err
	}
	header := h.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", linkPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	h.WriteHeader(http.StatusOK)
	_, _ = h.Write(page.Bytes()) // the client may have gone
	return nil
}

// isLink reports whether a path is that of a link, which needs no token.
func isLink(path string) bool { return strings.HasPrefix(path, v1.PathLinks+"/") }
