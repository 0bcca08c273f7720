package ui

import (
	"io/fs"
	"net/http"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
)

// New returns the handler of Root and of all paths below it.
func New(cfg Config) http.Handler {
	h := &handler{cfg: cfg, pages: sync.OnceValue(parsePages), sessions: newTickets(sessionLife), links: newTickets(linkLife)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root, h.handle(overview))
	for pattern, show := range h.views() {
		mux.HandleFunc("GET "+Root+pattern, h.handle(show))
	}
	mux.Handle("GET "+Root+pastPath+"{ms}/", h.pastPages())
	for pattern, act := range h.actions() {
		mux.HandleFunc("POST "+Root+pattern, h.handle(h.guard(act)))
	}
	mux.HandleFunc("GET "+Root+loginPath, h.handle(showLogin))
	mux.HandleFunc("POST "+Root+loginPath, h.handle(h.formed(login)))
	mux.HandleFunc("POST "+Root+"/logout", h.handle(logout))
	mux.HandleFunc("POST "+Root+"/link", h.handle(makeLink))
	mux.HandleFunc("GET "+Root+"/stream", h.handle(stream))
	mux.HandleFunc("GET "+Root+"/where", h.handle(where))
	mux.HandleFunc("GET "+Root+"/jobs/{id}/log", h.handle(jobLog))
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	mux.Handle("GET "+Root+"/static/", http.StripPrefix(Root+"/static/", cached(http.FileServerFS(static))))
	mux.HandleFunc(Root+"/", h.handle(notFound))
	return secure(http.NewCrossOriginProtection().Handler(mux))
}

// views are the pages by their path below Root.
func (h *handler) views() map[string]func(*request) error {
	return map[string]func(*request) error{
		"/{$}":                 overview,
		"/jobs":                jobs,
		"/bulk":                confirmBulk,
		"/jobs/{id}":           job,
		"/dead":                dead,
		"/queues":              queues,
		"/queues/{type}":       queue,
		"/queues/{type}/purge": confirmPurge,
		"/schedules":           listOf[v1.CronList](v1.PathCrons, "schedules", "Schedules"),
		"/schedules/{name}":    schedule,
		"/workers":             listOf[v1.WorkerList](v1.PathWorkers, "workers", "Workers"),
		"/workers/{name}":      worker,
		"/batches":             listOf[v1.BatchList](v1.PathBatches, "batches", "Batches"),
		"/batches/{id}":        batch,
		"/limits":              limits,
		"/events":              events,
		"/cluster":             cluster,
		"/past":                past,
		"/hooks":               listOf[v1.HookList](v1.PathHooks, "hooks", "Hooks"),
		"/hooks/{name}":        hook,
	}
}

// notInPast are the views of the present alone.
var notInPast = []string{"/bulk", "/queues/{type}/purge", "/events", "/cluster", "/past", "/hooks", "/hooks/{name}"}

// actions are the targets of forms by their path below Root.
func (h *handler) actions() map[string]func(*request) error {
	return map[string]func(*request) error{
		"/bulk": bulk,
		"/jobs/{name}/{action}": act(v1.PathJobs, "/jobs", map[string]effect{
			"retry": {http.MethodPost, v1.ActionRetry, true}, "cancel": {http.MethodPost, v1.ActionCancel, true}, "delete": {http.MethodDelete, "", false},
		}),
		"/jobs/{name}/clone":      clone,
		"/jobs/{name}/signal":     signal,
		"/jobs/{name}/link":       signalLink,
		"/batches/{id}/{action}":  changeBatch,
		"/limits/{name}/hold":     holdLimit,
		"/dead/{action}":          changeGroup,
		"/queues/{type}/limits":   setLimits,
		"/queues/{type}/purge":    purge,
		"/queues/{type}/{action}": changeQueue,
		"/schedules/{name}/{action}": act(v1.PathCrons, "/schedules", map[string]effect{
			v1.ActionPause: {http.MethodPost, v1.ActionPause, false}, v1.ActionResume: {http.MethodPost, v1.ActionResume, false},
			v1.ActionTrigger: {http.MethodPost, v1.ActionTrigger, false},
		}),
		"/workers/{name}/{action}": act(v1.PathWorkers, "/workers", map[string]effect{
			v1.ActionQuiet: {http.MethodPost, v1.ActionQuiet, false}, v1.ActionUnquiet: {http.MethodPost, v1.ActionUnquiet, false},
			"remove": {http.MethodDelete, "", false},
		}),
		"/hooks/{name}/{action}": act(v1.PathHooks, "/hooks", map[string]effect{
			v1.ActionTest: {http.MethodPost, v1.ActionTest, true}, "delete": {http.MethodDelete, "", false},
		}),
	}
}

// policy is the Content-Security-Policy of all pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'self'"

// secure sets the headers that each answer has.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// cached lets browsers keep the script and the style sheet for some minutes.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		next.ServeHTTP(w, r)
	})
}

// handle returns the handler of a page or an action. Its error becomes an error page.
func (h *handler) handle(fn func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{handler: h, w: w, r: r, lsn: r.URL.Query().Get("lsn"), base: Root + "/", begin: time.Now()}
		if at, ok := r.Context().Value(pastKey{}).(int64); ok {
			q.at, q.base = at, pastBase(at)
		}
		if err := fn(q); err != nil && !q.askLogin(err) {
			q.fail(err)
		}
	}
}

// guard refuses actions in read-only mode, and reads the form.
func (h *handler) guard(act func(*request) error) func(*request) error {
	return func(q *request) error {
		if h.cfg.ReadOnly {
			return errReadOnly
		}
		return h.formed(act)(q)
	}
}

// formed reads the form of an action.
func (h *handler) formed(act func(*request) error) func(*request) error {
	return func(q *request) error {
		q.r.Body = http.MaxBytesReader(q.w, q.r.Body, formMax)
		if err := q.r.ParseForm(); err != nil {
			return &apiError{Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: err.Error()}
		}
		return act(q)
	}
}

func notFound(q *request) error {
	return &apiError{Status: http.StatusNotFound, Title: "Page not found", Detail: "The dashboard has no page " + q.r.URL.Path + "."}
}
