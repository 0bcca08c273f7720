package ui

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// A form of a queue that is refused comes back with what was entered, and names the field as the
// page does.
func TestRefusedFormsOfAQueue(t *testing.T) {
	a := &recorder{answers: map[string]any{
		v1.PathQueues + "/mail": func(r *http.Request) any {
			if r.Method == http.MethodPatch {
				return v1.Problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: "ratePerSecond is 0; must be from 0.001 to 1000000, or null for no limit"}
			}
			return v1.Queue{Type: "mail", Settings: v1.QueueSettings{RatePerSecond: 1_000_000, MaxJobs: 7}}
		},
		v1.PathQueues + "/mail/pause": v1.Problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: "reason has 600 bytes; at most 512 are allowed"},
	}}
	long := strings.Repeat("ä", 300)
	for _, form := range []struct {
		path   string
		fields url.Values
		wants  []string
	}{
		{"limits", url.Values{"ratePerSecond": {"0"}, "maxRunning": {"5"}}, []string{"Claims per second is 0; must be from 0.001 to 1000000, or empty for", `value="5"`, `name="ratePerSecond" inputmode="decimal" value="0"`}},
		{"limits", url.Values{"ratePerSecond": {"Inf"}}, []string{`Claims per second is &#34;Inf&#34;`}},
		{"limits", url.Values{"ratePerSecond": {"NaN"}}, []string{`Claims per second is &#34;NaN&#34;`}},
		{"limits", url.Values{"maxRunningPerGroup": {"2.5"}, "maxJobs": {""}}, []string{`Running per group is &#34;2.5&#34;`, `name="maxJobs" inputmode="decimal" value=""`, `value="1000000"`}},
		{"pause", url.Values{"reason": {long}, "for": {"3600000"}}, []string{"Not paused: reason has 600 bytes", long, `value="3600000" selected`}},
	} {
		w := submit(a, "/queues/mail/"+form.path, form.fields)
		for _, want := range append(form.wants, "<body data-still") {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%v: %d without %s: %s", form.fields, w.Code, want, w.Body)
			}
		}
	}
	if page := show(a, "/queues/mail").Body.String(); !strings.Contains(page, `value="1000000"`) || !strings.Contains(page, `value="7"`) {
		t.Errorf("the limits of the page: %s", page)
	}
}

// The script does not replace the error page of an action, whose address may have a page.
func TestErrorPageOfAnActionStays(t *testing.T) {
	a := &recorder{answers: map[string]any{v1.PathJobs + "/j/cancel": v1.Problem{Status: http.StatusConflict, Title: "Conflict", Detail: "no"}}}
	if w := submit(a, "/jobs/j/cancel", nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "<body data-still") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
