package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"
	"sync"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"osqueue/internal/auth"
	"osqueue/storage"
)

// A node shows an admin its profiles, the end of its log and its settings: profiles name everything that runs, and can
// slow a node down.

// debugRoutes returns the requests under /debug/.
func (s *server) debugRoutes(o *serveOptions) []auth.Route {
	return []auth.Route{
		{Pattern: "GET /debug/pprof/", Right: auth.Admin, Handler: pprof.Index},
		{Pattern: "GET /debug/pprof/profile", Right: auth.Admin, Handler: pprof.Profile},
		{Pattern: "GET /debug/pprof/trace", Right: auth.Admin, Handler: pprof.Trace},
		{Pattern: "GET /debug/log", Right: auth.Admin, Handler: o.recent.serve},
		{Pattern: "GET /debug/settings", Right: auth.Admin, Handler: o.showSettings},
	}
}

// debugHandler returns the handler of debugRoutes at the HTTP port.
func (s *server) debugHandler(o *serveOptions) http.Handler {
	mux := sync.OnceValue(func() http.Handler { return auth.Mux(s.debugRoutes(o), auth.Admin, s.api.Guard) }) // s.api is made later
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux().ServeHTTP(w, r) })
}

// showSettings is GET /debug/settings: all settings as a file of --config has them. They name files with secrets, and
// contain none but what a URL of a bucket may have.
func (o *serveOptions) showSettings(w http.ResponseWriter, _ *http.Request) {
	values := make(map[string]string)
	o.flags.VisitAll(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	values["bucket"] = "(unreadable)"
	if u, err := url.Parse(o.bucket); err == nil {
		values["bucket"] = storage.RedactURL(u)
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		http.Error(w, fmt.Sprintf("write the settings: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text) // the client may have gone
}

// recentBytes is how much of the newest log a node keeps in memory.
const recentBytes = 256 << 10

// recentLog keeps the newest lines of a log, in up to twice recentBytes. Safe for concurrent use.
type recentLog struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *recentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[max(0, len(p)-recentBytes):]...)
	if len(l.text) > 2*recentBytes {
		l.text = append(l.text[:0], l.newestLocked()...)
	}
	return len(p), nil
}

// newestLocked returns the whole lines in the last recentBytes.
func (l *recentLog) newestLocked() []byte {
	if len(l.text) <= recentBytes {
		return l.text
	}
	_, whole, _ := bytes.Cut(l.text[len(l.text)-recentBytes:], []byte("\n"))
	return whole
}

// serve is GET /debug/log.
func (l *recentLog) serve(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	text := bytes.Clone(l.newestLocked())
	l.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text) // the client may have gone
}
