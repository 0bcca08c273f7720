package ui

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// The buttons of a group change its jobs whatever the error contains, say so if there are none any
// more, and lead back to the same part of the list.
func TestChangeOfADeadGroup(t *testing.T) {
	list := v1.JobList{Jobs: []v1.Job{{ID: "j", Type: "mail", LastError: "progress 1 %\rprogress\t2 %\x00\nat x.go:1"}, {ID: "k", Type: "mail", LastError: "a\tb\x7fc\r\nd"}}}
	a := &recorder{answers: map[string]any{v1.PathJobs: &list, v1.PathRetry: v1.Changed{Count: 1}}}
	page := show(a, "/dead?type=mail&cursor=1-c").Body.String()
	field := regexp.MustCompile(`name="error" value="([^"]*)"`)
	for _, m := range field.FindAllStringSubmatch(page, -1) {
		text := html.UnescapeString(m[1])
		if strings.ContainsAny(text, "\r\n\t\x00\x7f") {
			t.Errorf("the browser changes %q", text)
		}
		form := url.Values{"type": {"mail"}, "error": {text}, "cursor": {"1-c"}}
		if to := submit(a, "/dead/retry", form).Header().Get("Location"); !strings.HasPrefix(to, "/ui/dead?cursor=1-c&type=mail&") || !strings.Contains(to, "notice=retry") {
			t.Errorf("the retry of %q leads to %s", text, to)
		}
	}
	for _, id := range []string{"j", "k"} {
		if !a.saw(http.MethodPost+" "+v1.PathRetry, `"ids":["`+id+`"]`) {
			t.Errorf("%s is not retried: %q", id, a.seen)
		}
	}
	list.Jobs, a.seen = nil, nil
	to := submit(a, "/dead/delete", url.Values{"type": {"mail"}, "error": {"a b c"}}).Header().Get("Location")
	if to != "/ui/dead?type=mail&notice=none" || a.saw(http.MethodPost) {
		t.Errorf("without jobs: to %s, %q", to, a.seen)
	}
}

// The page lists all types with their true numbers. That of a type groups its errors by what they have
// in common, the newest jobs first.
func TestDeadTypesAndErrors(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"x.py\", line 3\n"
	a := &recorder{answers: map[string]any{
		v1.PathStats: v1.Stats{Dead: 700, Types: map[string]v1.TypeStats{"mail": {Dead: 70}, "": {Dead: 630}, "fine": {Completed: 9}}},
		v1.PathJobs: v1.JobList{Jobs: []v1.Job{
			{ID: "j", LastError: trace + "ValueError: order 17"}, {ID: "k", LastError: trace + "ValueError: order 18"}, {ID: "l", LastError: "no such user"},
		}},
	}}
	page := show(a, "/dead").Body.String()
	first, second := strings.Index(page, "<b>630</b>"), strings.Index(page, "<b>70</b>")
	if first < 0 || second < first || !strings.Contains(page, `href="dead?type=~"`) || strings.Contains(page, "fine") || a.saw(v1.PathJobs) {
		t.Errorf("types: %s", page)
	}
	page = show(a, "/dead?type=~").Body.String()
	if !strings.Contains(page, "<b>2</b>") || !strings.Contains(page, "ValueError: order #") || !strings.Contains(page, "no such user") || strings.Contains(page, "Traceback") {
		t.Errorf("errors: %s", page)
	}
	if !a.saw("sort=-created") || !a.saw("type=~") {
		t.Errorf("asked for %q", a.seen)
	}
}
