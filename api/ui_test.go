package api

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"osqueue/api/ui"
	v1 "osqueue/client/api/v1"
)

const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`

// pastRoot is the base of the pages of the time of the rig.
var pastRoot = fmt.Sprintf("/ui/at/%d/", startMs)

// dash is a dashboard over a rig.
type dash struct {
	*rig
	ui http.Handler
}

func newDash(t *testing.T, readOnly bool) *dash {
	t.Helper()
	g := newRig(t)
	d := &dash{g, ui.New(ui.Config{API: g.s, ReadOnly: readOnly})}
	d.ok("POST", "/v1/jobs", `{"id":"j1","type":"mail","payload":{"x":"<script>alert(3)</script>"},"tags":["a&b"],"maxAttempts":1}`)
	d.ok("POST", "/v1/jobs", `{"id":"j2","type":`+quote(evil)+`,"group":"<b>"}`)
	d.ok("POST", "/v1/jobs", `{"id":"j3","type":"mail","delayMs":60000}`)
	d.ok("POST", "/v1/batches", `{"id":"b1","jobs":[{"id":"j4","type":"mail"}]}`)
	d.ok("PUT", "/v1/crons/c1", `{"spec":"@daily","job":{"type":"mail"}}`)
	d.ok("POST", "/v1/workers", `{"name":"w<1>"}`)
	j := ok[v1.ClaimedJob](t, g.do("POST", v1.PathClaim, `{"workerId":"w<1>","types":["mail"]}`))
	d.ok("POST", "/v1/jobs/"+j.JobID+"/fail", `{"workerId":"w<1>","error":`+quote("broken "+evil+"\nat x.go:1")+`}`)
	g.flush()
	return d
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func (d *dash) ok(method, path, body string) {
	d.t.Helper()
	if a := d.do(method, path, body); a.status > 299 {
		d.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
}

func (d *dash) send(method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.ui.ServeHTTP(w, r)
	return w
}

// pages are all pages of the dashboard.
func (d *dash) pages() []string {
	evilPath, then := url.PathEscape(evil), pastRoot
	return []string{
		"/ui", "/ui/jobs", "/ui/jobs?status=dead&type=mail", "/ui/jobs?tag=none", "/ui/jobs?type=" + url.QueryEscape(evil),
		"/ui/bulk?action=retry&status=dead&type=mail", "/ui/jobs/j1", "/ui/jobs/j2", "/ui/jobs/j3", "/ui/dead", "/ui/queues",
		"/ui/queues/mail", "/ui/queues/" + evilPath, "/ui/queues/" + evilPath + "/purge", "/ui/schedules", "/ui/schedules/c1", "/ui/workers",
		"/ui/workers/w%3C1%3E", "/ui/batches", "/ui/batches/b1", "/ui/limits", "/ui/events", "/ui/cluster", "/ui/past", "/ui/", then, then + "jobs",
		then + "jobs/j1", then + "dead", then + "queues/" + evilPath, then + "workers/w%3C1%3E", then + "batches/b1", then + "limits",
	}
}

// Each page is well-formed, names its controls, and runs no script of the data.
func TestDashboardPages(t *testing.T) {
	d := newDash(t, false)
	for _, path := range d.pages() {
		w := d.send("GET", path, nil)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
			continue
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		checkPage(t, path, w.Body.String())
	}
	if w := d.send("GET", "/ui/jobs/none", nil); w.Code != http.StatusNotFound {
		t.Errorf("a job that does not exist: %d", w.Code)
	}
}

// checkPage walks the elements of a page.
func checkPage(t *testing.T, path, body string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	ids := map[string]bool{}
	headings := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		at := attributes(n)
		if id := at["id"]; id != "" {
			if ids[id] {
				t.Errorf("%s: id %q occurs twice", path, id)
			}
			ids[id] = true
		}
		if _, live := at["data-live"]; live && at["id"] == "" {
			t.Errorf("%s: a live part has no id", path)
		}
		for name := range at {
			if strings.HasPrefix(name, "on") || name == "style" {
				t.Errorf("%s: <%s> has %s", path, n.Data, name)
			}
		}
		checkElement(t, path, n, at)
		if n.Data == "h1" {
			headings++
		}
	}
	if headings != 1 {
		t.Errorf("%s: %d main headings", path, headings)
	}
}

func checkElement(t *testing.T, path string, n *html.Node, at map[string]string) {
	t.Helper()
	switch n.Data {
	case "script":
		if at["src"] != "/ui/static/app.js" || n.FirstChild != nil {
			t.Errorf("%s: inline script or foreign script %q", path, at["src"])
		}
	case "img", "iframe", "object", "style":
		t.Errorf("%s: <%s>", path, n.Data)
	case "input", "select":
		if at["type"] != "hidden" && at["aria-label"] == "" && (n.Parent == nil || n.Parent.Data != "label") {
			t.Errorf("%s: field %q has no name", path, at["name"])
		}
	case "button", "a":
		if at["aria-label"] == "" && strings.TrimSpace(innerText(n)) == "" {
			t.Errorf("%s: <%s> has no name", path, n.Data)
		}
		if strings.HasPrefix(strings.ToLower(at["href"]), "javascript") {
			t.Errorf("%s: link %q", path, at["href"])
		}
	}
}

func attributes(n *html.Node) map[string]string {
	out := map[string]string{}
	for _, a := range n.Attr {
		out[a.Key] = a.Val
	}
	return out
}

func innerText(n *html.Node) (text string) {
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			text += c.Data
		}
	}
	return text
}

// A page makes as many calls to the API for many jobs as for few. Each call is bounded.
func TestDashboardCalls(t *testing.T) {
	g := newDash(t, false)
	calls := 0
	h := ui.New(ui.Config{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		g.s.ServeHTTP(w, r)
	})})
	count := func(path string) int {
		calls = 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if timing := w.Header().Get("Server-Timing"); w.Code != http.StatusOK || !strings.HasPrefix(timing, "page;dur=") {
			t.Errorf("%s: %d, Server-Timing %q", path, w.Code, timing)
		}
		return calls
	}
	few := map[string]int{}
	for _, path := range g.pages() {
		few[path] = count(path)
	}
	for i := range 20 {
		jobs := make([]string, 500)
		for k := range jobs {
			jobs[k] = fmt.Sprintf(`{"id":"n%d-%d","type":"mail"}`, i, k)
		}
		g.ok("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	}
	for _, path := range g.pages() {
		if n := count(path); n != few[path] || n > 60 {
			t.Errorf("%s makes %d calls with 10 000 jobs more, and %d before; at most 60 are allowed", path, n, few[path])
		}
	}
}

// The pages of webhooks show their deliveries, send a test event and delete them.
func TestDashboardHooks(t *testing.T) {
	d := newDash(t, false)
	d.ok("PUT", "/v1/hooks/ops", `{"url":"https://hooks.example.test/<x>","on":["job.dead"]}`)
	for _, path := range []string{"/ui/hooks", "/ui/hooks/ops"} {
		w := d.send("GET", path, nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "hooks.example.test") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		checkPage(t, path, w.Body.String())
	}
	for _, action := range []string{"test", "delete"} {
		if w := d.send("POST", "/ui/hooks/ops/"+action, nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d %s", action, w.Code, w.Body)
		}
	}
	if w := d.send("GET", "/ui/hooks/ops", nil); w.Code != http.StatusNotFound {
		t.Errorf("a deleted hook: %d", w.Code)
	}
}

// The page of a job draws the jobs that it waits for.
func TestDashboardGraph(t *testing.T) {
	d := newDash(t, false)
	d.ok("POST", "/v1/jobs", `{"id":"g1","type":"mail","after":["j3"]}`)
	d.ok("POST", "/v1/jobs", `{"id":"g2","type":"mail","after":["j3"]}`)
	d.ok("POST", "/v1/jobs", `{"id":"g3","type":"mail","after":["g1","g2","j3"]}`)
	body := d.send("GET", "/ui/jobs/g3", nil).Body.String()
	for _, want := range []string{`<a href="jobs/g1">`, `<a href="jobs/j3">`, `class="g-blocked self"`, `class="g-scheduled"`} {
		if strings.Count(body, want) != 1 {
			t.Errorf("%s occurs %d times in %s", want, strings.Count(body, want), body)
		}
	}
	if n := strings.Count(body, `<path class="waiting" d="M`); n != 5 {
		t.Errorf("%d arrows", n)
	}
	for i := range 50 {
		d.ok("POST", "/v1/jobs", fmt.Sprintf(`{"id":"c%d","type":"mail","after":["%s"]}`, i+1, cmp.Or(map[bool]string{true: "j3"}[i == 0], fmt.Sprintf("c%d", i))))
	}
	body = d.send("GET", "/ui/jobs/c50", nil).Body.String()
	if n := strings.Count(body, "<rect width"); n != 40 || !strings.Contains(body, "more jobs than are drawn") {
		t.Errorf("%d jobs are drawn", n)
	}
	d.flush()
	if body := d.send("GET", pastRoot+"jobs/j3", nil).Body.String(); !strings.Contains(body, `<a href="jobs/g1">`) {
		t.Errorf("the past has no jobs behind a job: %s", body)
	}
	if body := d.send("GET", "/ui/jobs/j4", nil).Body.String(); !strings.Contains(body, "batch, 0 of 1 completed") {
		t.Errorf("the batch of a job is not drawn: %s", body)
	}
}

// The dead jobs of one group are retried together.
func TestDashboardRetriesAGroup(t *testing.T) {
	d := newDash(t, false)
	form := url.Values{"type": {"mail"}, "error": {v1.ErrorGroup("broken " + evil)}}
	if w := d.send("POST", "/ui/dead/retry", form); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Location"), "n=1") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
	}
}

// A read-only dashboard has no forms.
func TestDashboardThatIsReadOnly(t *testing.T) {
	r := newDash(t, true)
	if w := r.send("POST", "/ui/jobs/j1/retry", nil); w.Code != http.StatusForbidden {
		t.Errorf("an action of a read-only dashboard: %d", w.Code)
	}
	for _, path := range r.pages() {
		if strings.Contains(r.send("GET", path, nil).Body.String(), `method="post"`) {
			t.Errorf("%s has a form on a read-only dashboard", path)
		}
	}
}

// The calls of the dashboard carry the rights of the caller, and nothing else.
func TestDashboardPassesRightsOn(t *testing.T) {
	var got []string
	h := ui.New(ui.Config{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		if r.Header.Get("X-Other") != "" {
			t.Errorf("%s has a header without rights", r.URL)
		}
		w.WriteHeader(http.StatusForbidden)
	})})
	r := httptest.NewRequest(http.MethodGet, "/ui", nil)
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("X-Other", "y")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != "Bearer x" }) {
		t.Errorf("%d, calls with %q", w.Code, got)
	}
}

// Of many types the overview shows those whose jobs wait longest.
func TestOverviewOfManyTypes(t *testing.T) {
	g := newRig(t)
	d := &dash{g, ui.New(ui.Config{API: g.s})}
	d.ok("POST", "/v1/jobs", `{"type":"zz-stuck"}`)
	g.node.tick(time.Minute)
	for from := 0; from < 1200; from += 400 { // more than one page of the API
		var jobs []string
		for i := range 400 {
			jobs = append(jobs, fmt.Sprintf(`{"type":"type-%04d"}`, from+i))
		}
		d.ok("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	}
	body := d.send("GET", "/ui", nil).Body.String()
	if n := strings.Count(body, `href="queues/`); n != 50 || !strings.Contains(body, `href="queues/zz-stuck"`) || !strings.Contains(body, "All queues") {
		t.Errorf("%d types are shown, zz-stuck is one of them: %v", n, strings.Contains(body, "zz-stuck"))
	}
}
