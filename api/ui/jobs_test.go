package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// recorder is an API that answers with the answers by path, and keeps the requests.
type recorder struct {
	answers map[string]any
	seen    []string
}

func (a *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body strings.Builder
	if r.Body != nil {
		_ = json.NewEncoder(&body).Encode(readAll(r))
	}
	a.seen = append(a.seen, r.Method+" "+r.URL.RequestURI()+" "+strings.TrimSpace(body.String()))
	answer := a.answers[r.URL.Path]
	if build, ok := answer.(func(*http.Request) any); ok {
		answer = build(r)
	}
	if p, ok := answer.(v1.Problem); ok {
		w.WriteHeader(p.Status)
	}
	if answer == nil {
		answer = v1.Self{Security: "off", Rights: []string{"read", "manage"}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func readAll(r *http.Request) (out any) {
	_ = json.NewDecoder(r.Body).Decode(&out) // an empty body is nil
	return out
}

// saw reports whether the API got a request whose line contains all texts.
func (a *recorder) saw(texts ...string) bool {
	return slices.ContainsFunc(a.seen, func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// submit sends a form to a dashboard.
func submit(api http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, Root+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	New(Config{API: api}).ServeHTTP(w, r)
	return w
}

// The queue of the jobs without type leads to these jobs alone, and a change of all matches has
// no others.
func TestJobsWithoutType(t *testing.T) {
	a := &recorder{answers: map[string]any{v1.PathQueues + "/~": v1.Queue{TypeStats: v1.TypeStats{Dead: 3}}}}
	if page := show(a, "/queues/~").Body.String(); !strings.Contains(page, `href="jobs?status=dead&amp;type=~"`) {
		t.Errorf("the queue does not lead to its jobs: %s", page)
	}
	show(a, "/jobs?status=dead&type=~")
	if !a.saw("GET "+v1.PathJobs, "type=~") {
		t.Errorf("the list asks for %q", a.seen)
	}
	page := show(a, "/bulk?action=retry&status=dead&type=~").Body.String()
	for _, want := range []string{"retry 3 dead jobs?", "<dd>(no type)</dd>", `name="type" value="~"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the question lacks %q: %s", want, page)
		}
	}
	a.seen = nil
	submit(a, "/bulk", url.Values{"action": {"retry"}, "status": {"dead"}, "type": {"~"}})
	if !a.saw(v1.PathRetry, `"type":""`) {
		t.Errorf("the change is %q", a.seen)
	}
	for given, want := range map[string]string{"mail": "mail", "~": "", "~~": "~", "~~x": "~x", "~x": "~x"} {
		if got := *(filter{Type: given}).change().Type; got != want {
			t.Errorf("the filter %q changes the type %q, want %q", given, got, want)
		}
	}
}

// The last hour of a page of the past ends at the time of the page.
func TestHoursOfThePast(t *testing.T) {
	a := &recorder{}
	show(a, "/at/1763700000000/jobs?time=ended-1h")
	if !a.saw("GET "+v1.PathJobs, "at=1763700000000", "finishedFrom=1763696400000") {
		t.Errorf("the page asks for %q", a.seen)
	}
}

// A list looks for its first job in several requests, for a bounded time. If it has none then, the page
// leads on, and offers to change all matches.
func TestListLooksForItsFirstJob(t *testing.T) {
	parts := 0
	a := &recorder{answers: map[string]any{}}
	a.answers[v1.PathJobs] = func(r *http.Request) any {
		if parts++; r.URL.Query().Get("search") == "found" && parts == 3 {
			return v1.JobList{Jobs: []v1.Job{{ID: "the-job", Type: "mail"}}}
		}
		return v1.JobList{NextCursor: "c"}
	}
	page := show(a, "/jobs?status=dead&search=found").Body.String()
	if parts != 3 || !strings.Contains(page, "the-job") || !strings.Contains(page, "<body data-still") {
		t.Errorf("%d requests; %s", parts, page)
	}
	page = show(a, "/jobs?status=dead&search=nowhere").Body.String()
	for _, want := range []string{"No match so far.", `rel="next" href="jobs?cursor=c`, "bulk?action=retry", "<body data-still"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "Next page") {
		t.Errorf("an empty page has a next one: %s", page)
	}
}

// A token that is limited to some types gets the form of the list with the refusal, links to its types,
// and the pages of these.
func TestPagesOfALimitedToken(t *testing.T) {
	refusal := v1.Problem{Status: http.StatusForbidden, Title: "Forbidden", Detail: "give type"}
	a := &recorder{answers: map[string]any{
		v1.PathSelf:  v1.Self{Security: "on", ID: "t", Rights: []string{"read"}, Types: []string{"mail", "img-*"}},
		v1.PathJobs:  refusal,
		v1.PathStats: refusal, v1.PathHistory: refusal,
		v1.PathQueues + "/mail": v1.Queue{Type: "mail"},
	}}
	for path, wants := range map[string][]string{
		"/jobs?status=dead": {"Forbidden: give type", `name="type"`, `selected>dead`},
		"":                  {"give type"},
		"/dead":             {"give type"},
	} {
		w := show(a, path)
		for _, want := range append(wants, `<a href="queues/mail">mail</a>`, "<code>img-*</code>") {
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%q: %d without %q: %s", path, w.Code, want, w.Body)
			}
		}
	}
	if w := show(a, "/queues/mail"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "Nothing happened") {
		t.Errorf("the queue without history: %d %s", w.Code, w.Body)
	}
}
