package api

import (
	"net/http"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	const body = `{"url":"https://example.com/x","on":["job.dead","queue.*"],"types":["mail.*"],"oldestAgeMs":5000}`
	made := ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body))
	if !strings.HasPrefix(made.Secret, "whsec_") {
		t.Fatalf("secret %q", made.Secret)
	}
	if again := ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", body)); again.Secret != "" {
		t.Errorf("the secret is shown again: %q", again.Secret)
	}
	before := g.node.View().Hook("ops").Secret
	rotated := ok[v1.HookPut](t, g.do(http.MethodPut, "/v1/hooks/ops", strings.TrimSuffix(body, "}")+`,"rotateSecret":true}`))
	if h := g.node.View().Hook("ops"); rotated.Secret == made.Secret || h.OldSecret != before || h.OldUntil <= startMs {
		t.Errorf("rotated to %q, old secret %+v until %d", rotated.Secret, h.OldSecret, h.OldUntil)
	}
	tested := ok[v1.HookTested](t, g.do(http.MethodPost, "/v1/hooks/ops/test", ""))
	d := ok[v1.HookDeliveries](t, g.do(http.MethodGet, "/v1/hooks/ops/deliveries", ""))
	if len(d.Pending) != 1 || d.Pending[0].ID != tested.ID || d.Pending[0].Type != "hook.test" {
		t.Errorf("deliveries %+v, want event %s", d, tested.ID)
	}
	for _, path := range []string{"/v1/hooks", "/v1/hooks/ops", "/v1/hooks/ops/deliveries"} {
		a := g.do(http.MethodGet, path, "")
		if text := string(a.body); a.status != http.StatusOK || strings.Contains(text, "whsec_") || strings.Contains(text, "secret\"") {
			t.Errorf("%s: %d %s", path, a.status, text)
		}
	}
	h := ok[v1.Hook](t, g.do(http.MethodGet, "/v1/hooks/ops", ""))
	if strings.Join(h.On, " ") != "job.dead queue.stuck queue.failing queue.dead" || h.OldestAgeMs != 5000 || h.FailurePercent != 50 || h.Pending != 1 {
		t.Errorf("hook %+v", h)
	}
	ok[v1.Done](t, g.do(http.MethodDelete, "/v1/hooks/ops", ""))
	for _, c := range [][2]string{{http.MethodDelete, ""}, {http.MethodGet, ""}, {http.MethodGet, "/deliveries"}, {http.MethodPost, "/test"}} {
		if a := g.do(c[0], "/v1/hooks/ops"+c[1], ""); a.status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
}

func TestHooksThatAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for body, want := range map[string]string{
		`{"on":["job.dead"]}`:                                                              "url",
		`{"url":"http://example.com/","on":["job.dead"]}`:                                  "TLS",
		`{"url":"https://u:p@example.com/","on":["job.dead"]}`:                             "password",
		`{"url":"https://example.com/"}`:                                                   "on",
		`{"url":"https://example.com/","on":["job.deaf"]}`:                                 "job.dead",
		`{"url":"https://example.com/","on":["hook.test"]}`:                                "matches no event",
		`{"url":"https://example.com/","on":["*"],"types":["[a]"]}`:                        "types",
		`{"url":"https://example.com/","on":["*"],"secret":"whsec_AAAA"}`:                  "secret",
		`{"url":"https://example.com/","on":["*"],"failurePercent":101}`:                   "failurePercent",
		`{"url":"https://example.com/","on":["*"],"oldestAgeMs":-1}`:                       "oldestAgeMs",
		`{"url":"https://example.com/","on":["*"],"bufferBytes":1}`:                        "bufferBytes",
		`{"url":"https://example.com/","on":["*"],"rotateSecret":true,"secret":"whsec_x"}`: "rotateSecret",
	} {
		if a := g.do(http.MethodPut, "/v1/hooks/h", body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %q", body, a.status, a.body, want)
		}
	}
}

// TestLimitedTokensSeeNoHooks has an operator for one type: hooks are about all.
func TestLimitedTokensSeeNoHooks(t *testing.T) {
	t.Parallel()
	g := secured(t, core.SecurityOn, nil)
	all := g.give(&fsmpb.Token{Role: uint32(fsm.RoleOperator)})
	some := g.give(&fsmpb.Token{Role: uint32(fsm.RoleOperator), Types: []string{"mail"}})
	const body = `{"url":"https://example.com/","on":["job.dead"],"types":["mail"]}`
	if a := g.do(http.MethodPut, "/v1/hooks/h", body, all...); a.status != http.StatusOK {
		t.Fatalf("an operator: %d %s", a.status, a.body)
	}
	for _, c := range [][2]string{
		{http.MethodPut, ""}, {http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodGet, "/deliveries"}, {http.MethodPost, "/test"},
	} {
		given := ""
		if c[0] == http.MethodPut {
			given = body
		}
		if a := g.do(c[0], "/v1/hooks/h"+c[1], given, some...); a.status != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
	if a := g.do(http.MethodGet, "/v1/hooks", "", some...); a.status != http.StatusForbidden {
		t.Errorf("the list: %d %s", a.status, a.body)
	}
}
