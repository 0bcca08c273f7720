package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// Root is the path of the dashboard.
const Root = "/ui"

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Config configures a dashboard.
type Config struct {
	// API is the public API of this node. The dashboard calls it in process.
	API http.Handler
	// ReadOnly removes all actions.
	ReadOnly bool
}

// handler serves the dashboard.
type handler struct {
	cfg      Config
	pages    map[string]*template.Template
	sessions *sessions
}

// New returns the handler of Root and of all paths below it.
func New(cfg Config) http.Handler {
	h := &handler{cfg: cfg, pages: parsePages(), sessions: newSessions()}
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
		"/jobs/bulk":           confirmBulk,
		"/jobs/{id}":           job,
		"/dead":                dead,
		"/queues":              queues,
		"/queues/{type}":       queue,
		"/queues/{type}/purge": confirmPurge,
		"/schedules":           schedules,
		"/workers":             workers,
		"/workers/{name}":      worker,
		"/batches":             batches,
		"/events":              events,
		"/cluster":             cluster,
		"/past":                past,
		"/hooks":               hooks,
		"/hooks/{name}":        hook,
	}
}

// notInPast are the views of the present alone.
var notInPast = []string{"/jobs/bulk", "/queues/{type}/purge", "/events", "/cluster", "/past", "/hooks", "/hooks/{name}"}

// actions are the targets of forms by their path below Root.
func (h *handler) actions() map[string]func(*request) error {
	return map[string]func(*request) error{
		"/jobs/bulk":                 bulk,
		"/jobs/{id}/{action}":        changeJob,
		"/dead/{action}":             changeGroup,
		"/queues/{type}/limits":      setLimits,
		"/queues/{type}/purge":       purge,
		"/queues/{type}/{action}":    changeQueue,
		"/schedules/{name}/{action}": changeSchedule,
		"/workers/{name}/remove":     removeWorker,
		"/hooks/{name}/{action}":     changeHook,
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

// parsePages parses each page together with the layout.
func parsePages() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	pages := make(map[string]*template.Template)
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is constant
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, file))
	}
	return pages
}

// request is one request for a page or an action.
type request struct {
	*handler
	w   http.ResponseWriter
	r   *http.Request
	lsn string // of the action before, which the page must show

	begin time.Time

	at    int64  // the time of the state that the page shows, ms; 0: the present
	base  string // the path that links of the page are relative to
	shown string // the LSN of the state at that time
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

// errReadOnly is the answer to actions in read-only mode.
var errReadOnly = &apiError{
	Status: http.StatusForbidden, Title: "The dashboard is read-only",
	Detail: "This node runs with --ui=read-only. Use the command line or the API.",
}

// formMax bounds the body of a form, in bytes.
const formMax = 64 << 10

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

// page is the data of the layout.
type page struct {
	Title    string
	Nav      string  // of the menu entry that is current
	ReadOnly bool    // no actions: for all, or for this caller
	Self     v1.Self // the caller
	Session  bool    // the caller has signed in
	Status   v1.Status
	Now      int64 // the queue's time, ms
	Notice   string
	Data     any

	Root  string
	Base  string // that links are relative to
	Path  string // of the page, with its query
	Rel   string // Path below Base
	At    int64  // the time of the state, ms; 0: the present
	Wall  int64  // the queue's time now, ms
	Shown string // LSN
	Slide *slide // nil: not known
	Jumps []jump
}

// render sends a page.
func (q *request) render(name, title, nav string, data any) error {
	p := page{Title: title, Nav: nav, Notice: noticeOf(q.r.URL.Query()), Data: data, Session: q.signedIn() != ""}
	q.place(&p)
	if err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &p.Self); err != nil {
		return err
	}
	p.ReadOnly = q.cfg.ReadOnly || !p.Self.Has("manage")
	if err := q.get(v1.PathStatus, nil, &p.Status); err != nil {
		return err
	}
	p.Wall = max(p.Status.Now, time.Now().UnixMilli()) // a follower knows the time of the last entry only
	p.Now = p.Wall
	if q.at != 0 {
		q.showPast(&p)
	}
	return q.send(http.StatusOK, name, &p)
}

// place sets where the page is.
func (q *request) place(p *page) {
	p.Root, p.Base, p.At = Root, q.base, q.at
	p.Path = Root + strings.TrimPrefix(q.r.URL.EscapedPath(), Root)
	if q.at != 0 {
		p.Path = strings.TrimSuffix(q.base, "/") + q.r.URL.EscapedPath()
	}
	values := q.r.URL.Query()
	for _, name := range []string{"notice", "n", "lsn"} {
		values.Del(name)
	}
	if len(values) > 0 {
		p.Path += "?" + values.Encode()
	}
	p.Rel = strings.TrimPrefix(p.Path, q.base)
	if p.Path == Root {
		p.Rel = ""
	}
}

func (q *request) send(status int, name string, p *page) error {
	var b bytes.Buffer
	if err := q.pages[name].Execute(&b, p); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.Header().Set("Server-Timing", fmt.Sprintf("page;dur=%.1f", float64(time.Since(q.begin).Microseconds())/1000)) // ms
	q.w.WriteHeader(status)
	_, _ = q.w.Write(b.Bytes()) // the browser may have gone
	return nil
}

// fail sends an error page. The page says less if the status cannot be read.
func (q *request) fail(err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{Status: http.StatusInternalServerError, Title: "The page could not be made", Detail: err.Error()}
	}
	p := page{Title: e.Title, ReadOnly: q.cfg.ReadOnly, Data: e, Session: q.signedIn() != "", Now: time.Now().UnixMilli(), Wall: time.Now().UnixMilli()}
	q.place(&p)
	if q.at != 0 {
		q.showSlide(&p)
	}
	if e.Again {
		q.w.Header().Set("Refresh", "1")
	}
	_ = q.get(v1.PathStatus, nil, &p.Status)
	if err := q.send(e.Status, "error", &p); err != nil {
		http.Error(q.w, err.Error(), http.StatusInternalServerError)
	}
}

// back redirects to a page after an action, with a notice and the LSN to wait for.
func (q *request) back(path, notice string, count uint64) error {
	values := url.Values{"notice": {notice}}
	if count > 0 {
		values.Set("n", num(int64(count)))
	}
	if q.lsn != "" {
		values.Set("lsn", q.lsn)
	}
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	http.Redirect(q.w, q.r, Root+path+sep+values.Encode(), http.StatusSeeOther)
	return nil
}

// notices are the texts after actions. The query has only their name, so that a link cannot
// put words into the page.
var notices = map[string]string{
	"retry":     "Retried.",
	"cancel":    "Cancelled. The worker of a running job learns it from its next heartbeat.",
	"delete":    "Deleted.",
	"clone":     "Cloned. This is the new job.",
	"pause":     "Paused. Running jobs continue.",
	"resume":    "Resumed.",
	"limits":    "Limits saved.",
	"purge":     "Purged.",
	"trigger":   "Triggered: the job is enqueued.",
	"test":      "A test event is on its way.",
	"remove":    "Removed. Its jobs are available again.",
	"continues": "Not all jobs were changed in the time of one request. Repeat the action for the rest.",
}

func noticeOf(values url.Values) string {
	text := notices[values.Get("notice")]
	if n := values.Get("n"); text != "" && isNumber(n) {
		text += " Jobs changed: " + n + "."
	}
	return text
}

func isNumber(s string) bool {
	return s != "" && len(s) < 30 && strings.Trim(s, "0123456789\u202f") == ""
}
