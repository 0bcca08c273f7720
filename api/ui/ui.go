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
	pages    func() map[string]*template.Template // parsed when the first page is shown: they take 4 MB
	sessions *tickets
	links    *tickets // of osqueue ui
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
	still bool // the page does not refresh by itself

	at    int64  // the time of the state that the page shows, ms; 0: the present
	base  string // the path that links of the page are relative to
	shown string // the LSN of the state at that time
}

// errReadOnly is the answer to actions in read-only mode.
var errReadOnly = &apiError{
	Status: http.StatusForbidden, Title: "The dashboard is read-only",
	Detail: "This node runs with --ui=read-only. Use the command line or the API.",
}

// formMax bounds the body of a form, in bytes.
const formMax = 64 << 10

// page is the data of the layout.
type page struct {
	Title    string
	Nav      string  // of the menu entry that is current
	ReadOnly bool    // no actions: for all, or for this caller
	Signals  bool    // the caller may send signals to jobs
	Self     v1.Self // the caller
	Session  bool    // the caller has signed in
	Outside  bool    // the caller has to sign in first
	Still    bool    // the page does not refresh by itself
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
	return q.renderAs(http.StatusOK, name, title, nav, data)
}

// renderAs sends a page with a status. If the page is a refusal, it does not refresh by itself.
func (q *request) renderAs(status int, name, title, nav string, data any) error {
	q.still = q.still || status != http.StatusOK
	p := page{Title: title, Nav: nav, Notice: noticeOf(q.r.URL.Query()), Data: data, Session: q.signedIn() != ""}
	q.place(&p)
	if err := q.identify(&p); err != nil {
		return err
	}
	p.Wall = max(p.Status.Now, time.Now().UnixMilli()) // a follower knows the time of the last entry only
	p.Now = p.Wall
	if q.at != 0 {
		p.Now, p.ReadOnly, p.Shown = q.at, true, q.shown // a page of an earlier state has no actions
		q.showSlide(&p)
	}
	return q.send(status, name, &p)
}

// identify fills in who asks, and the node.
func (q *request) identify(p *page) error {
	if err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &p.Self); err != nil {
		return err
	}
	p.ReadOnly = q.cfg.ReadOnly || !p.Self.Has("manage")
	p.Signals = !q.cfg.ReadOnly && q.at == 0 && (p.Self.Has("enqueue") || p.Self.Has("manage"))
	return q.get(v1.PathStatus, nil, &p.Status)
}

// where sends the chips in the head of the page, which the script reads every second: they follow
// the node's knowledge of the leader, also while there are no events and while a page is slow.
func where(q *request) error {
	var p page
	if err := q.identify(&p); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return q.pages()["overview"].ExecuteTemplate(q.w, "where", &p)
}

// place sets where the page is.
func (q *request) place(p *page) {
	p.Root, p.Base, p.At, p.Still = Root, q.base, q.at, q.still
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
	if err := q.pages()[name].Execute(&b, p); err != nil {
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
	p := page{Title: e.Title, ReadOnly: q.cfg.ReadOnly, Data: e, Session: q.signedIn() != "" && e.SignIn == "", Outside: e.SignIn != "", Now: time.Now().UnixMilli(), Wall: time.Now().UnixMilli()}
	q.place(&p)
	p.Still = q.r.Method != http.MethodGet // its address may have a page that says something else
	if q.at != 0 {
		q.showSlide(&p)
	}
	if e.Again {
		q.w.Header().Set("Refresh", "1")
	}
	if q.identify(&p) != nil {
		_ = q.get(v1.PathStatus, nil, &p.Status)
	}
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
	"none":      "No job of the group is dead any more. Nothing was changed.",
	"clone":     "Cloned. This is the new job.",
	"pause":     "Paused. Running jobs continue.",
	"resume":    "Resumed.",
	"limits":    "Limits saved.",
	"hold":      "Held. No job starts under the key.",
	"release":   "Jobs start under the key again.",
	"signal":    "Signal sent.",
	"purge":     "Purged.",
	"trigger":   "Triggered: the job is enqueued.",
	"test":      "A test event is on its way.",
	"remove":    "Removed. Its jobs are available again.",
	"quiet":     "Quiet: the worker gets no new jobs, and finishes those that it runs.",
	"unquiet":   "The worker gets jobs again.",
	"deleted":   "Deleted.",
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
