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
	page := show(a, "/dead?cursor=1-c").Body.String()
	field := regexp.MustCompile(`name="error" value="([^"]*)"`)
	for _, m := range field.FindAllStringSubmatch(page, -1) {
		text := html.UnescapeString(m[1])
		if strings.ContainsAny(text, "\r\n\t\x00\x7f") {
			t.Errorf("the browser changes %q", text)
		}
		form := url.Values{"type": {"mail"}, "error": {text}, "cursor": {"1-c"}}
		if to := submit(a, "/dead/retry", form).Header().Get("Location"); !strings.HasPrefix(to, "/ui/dead?cursor=1-c&") || !strings.Contains(to, "notice=retry") {
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
	if to != "/ui/dead?notice=none" || a.saw(http.MethodPost) {
		t.Errorf("without jobs: to %s, %q", to, a.seen)
	}
}
