package ui

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// guarded is an API that knows the tokens admin and reader.
func guarded(w http.ResponseWriter, r *http.Request) {
	var out any = v1.Status{NodeID: "n1"}
	if r.URL.Path != v1.PathStatus {
		switch r.Header.Get("Authorization") {
		case "Bearer admin":
			out = v1.Self{Security: "on", ID: "a", Role: "admin", Rights: []string{"read", "manage"}}
		case "Bearer reader":
			out = v1.Self{Security: "on", ID: "r", Role: "reader", Rights: []string{"read"}, MaxJobs: 5, Jobs: 3}
		default:
			w.WriteHeader(http.StatusUnauthorized)
			out = v1.Problem{Title: "A valid token is needed", Detail: "no"}
		}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// reply is an answer to a browser.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       string
}

func setCookies(t *testing.T, h http.Header) (out []*http.Cookie) {
	t.Helper()
	for _, line := range h["Set-Cookie"] {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// browser sends one request with the cookies of jar to a dashboard.
func browser(t *testing.T, h http.Handler, jar map[string]string, method, target string, form url.Values, header ...string) reply {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	for name, value := range jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, c := range setCookies(t, w.Header()) {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
			t.Errorf("cookie %s", c)
		}
		jar[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(jar, c.Name)
		}
	}
	return reply{StatusCode: w.Code, Header: w.Header(), Body: w.Body.String()}
}

func TestSession(t *testing.T) {
	h, jar := New(Config{API: http.HandlerFunc(guarded)}), map[string]string{}
	if r := browser(t, h, jar, "GET", "/ui/cluster", nil); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/ui/login?next=%2Fui%2Fcluster" {
		t.Fatalf("without a token: %d %s", r.StatusCode, r.Header.Get("Location"))
	}
	if r := browser(t, h, jar, "POST", "/ui/login", url.Values{"token": {"wrong"}}); r.StatusCode != http.StatusForbidden || len(jar) != 0 {
		t.Fatalf("a wrong token: %d %v", r.StatusCode, jar)
	}
	evil := browser(t, h, jar, "POST", "/ui/login", url.Values{"token": {"admin"}}, "Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site")
	if evil.StatusCode != http.StatusForbidden || len(jar) != 0 {
		t.Fatalf("a form of another site: %d %v", evil.StatusCode, jar)
	}
	if r := browser(t, h, jar, "POST", "/ui/login", url.Values{"token": {" reader "}}); r.StatusCode != http.StatusSeeOther || jar["osqueue-8080"] == "" {
		t.Fatalf("sign in: %d %v", r.StatusCode, jar)
	}
	if strings.Contains(jar["osqueue-8080"], "reader") {
		t.Error("the cookie shows the token")
	}
	page := browser(t, h, jar, "GET", "/ui/cluster", nil).Body
	if !strings.Contains(page, "read-only") || !strings.Contains(page, "reader") || !strings.Contains(page, "3 of 5 jobs") || !strings.Contains(page, "Sign out") {
		t.Errorf("the page of a reader:\n%s", page)
	}
	if r := browser(t, h, jar, "GET", "/ui/cluster", nil, "Host", "127.0.0.1:8081"); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the cookie counts on another port: %d", r.StatusCode)
	}
	if r := browser(t, h, jar, "POST", "/ui/logout", nil); r.StatusCode != http.StatusSeeOther || len(jar) != 0 {
		t.Errorf("sign out: %d %v", r.StatusCode, jar)
	}
}

func TestLink(t *testing.T) {
	h, jar := New(Config{API: http.HandlerFunc(guarded)}), map[string]string{}
	if r := browser(t, h, jar, "POST", "/ui/link", nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a link for nobody: %d", r.StatusCode)
	}
	var out struct{ Path string }
	made := browser(t, h, jar, "POST", "/ui/link", nil, "Authorization", "Bearer admin").Body
	if err := json.Unmarshal([]byte(made), &out); err != nil || !strings.HasPrefix(out.Path, "/ui/login?code=") {
		t.Fatalf("%s: %v", made, err)
	}
	code := strings.TrimPrefix(out.Path, "/ui/login?code=")
	for range 2 { // to look at the page does not use the code up
		if page := browser(t, h, jar, "GET", out.Path, nil).Body; !strings.Contains(page, code) || len(jar) != 0 {
			t.Fatalf("%s %v", page, jar)
		}
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if r := browser(t, h, jar, "POST", "/ui/login", url.Values{"code": {code}}); r.StatusCode != want {
			t.Errorf("use %d: %d", i+1, r.StatusCode)
		}
	}
	if page := browser(t, h, jar, "GET", "/ui/cluster", nil).Body; strings.Contains(page, "read-only") {
		t.Errorf("an admin cannot act:\n%s", page)
	}
}

// A cookie that was kept does not outlive the session.
func TestSignOutEndsTheSession(t *testing.T) {
	h, jar := New(Config{API: http.HandlerFunc(guarded)}), map[string]string{}
	browser(t, h, jar, "POST", "/ui/login", url.Values{"token": {"admin"}})
	kept := maps.Clone(jar)
	if r := browser(t, h, kept, "GET", "/ui/cluster", nil); r.StatusCode != http.StatusOK {
		t.Fatalf("before: %d", r.StatusCode)
	}
	browser(t, h, jar, "POST", "/ui/logout", nil)
	if r := browser(t, h, kept, "GET", "/ui/cluster", nil); r.StatusCode != http.StatusSeeOther {
		t.Errorf("after the sign-out the old cookie gets %d", r.StatusCode)
	}
}

func TestTickets(t *testing.T) {
	s := newTickets(time.Hour)
	at := time.Unix(1_000_000, 0)
	s.now = func() time.Time { return at }
	key := s.add("token", "host:1")
	if s.token(key, "host:1") != "token" || s.token(key, "host:2") != "" || s.token(key[1:], "host:1") != "" {
		t.Error("the key counts wrongly")
	}
	if newTickets(time.Hour).token(key, "host:1") != "" {
		t.Error("another process knows it")
	}
	if s.end(key, "host:2") != "" || s.end(key, "host:1") != "token" || s.token(key, "host:1") != "" {
		t.Error("the end counts wrongly")
	}
	key = s.add("token", "")
	at = at.Add(time.Hour + time.Second)
	if s.token(key, "") != "" || len(s.open) != 0 {
		t.Error("it does not end with its time")
	}
	if s.add(strings.Repeat("x", tokenMax+1), "") != "" {
		t.Error("a token without bound")
	}
}

// One user does not end the sessions of others, and all together are bounded.
func TestTicketsAreBounded(t *testing.T) {
	s := newTickets(time.Hour)
	at := time.Unix(1_000_000, 0)
	s.now = func() time.Time { at = at.Add(time.Millisecond); return at }
	first := s.add("alice", "")
	for range 3 * ticketsMax {
		s.add("mallory", "")
	}
	if s.token(first, "") != "alice" || len(s.open) != ticketsEach+1 {
		t.Errorf("%d keys; that of alice: %q", len(s.open), s.token(first, ""))
	}
	for i := range 3 * ticketsMax {
		s.add(strconv.Itoa(i), "")
	}
	if len(s.open) != ticketsMax {
		t.Errorf("%d keys", len(s.open))
	}
}

// The page that a browser asked for comes after the sign-in, also if it is one of the past, and no
// page of another site.
func TestPageAfterTheSignIn(t *testing.T) {
	h := New(Config{API: http.HandlerFunc(guarded)})
	for path, next := range map[string]string{
		"/ui": "", "/ui/jobs?status=dead&notice=retry&lsn=1-2": "/ui/jobs?status=dead", "/ui/queues/a%2Fb": "/ui/queues/a%2Fb",
		"/ui/at/1763700000000/jobs?type=x": "/ui/at/1763700000000/jobs?type=x", "/ui/where": "", "/ui/": "/ui/", "/ui/jobs/j/log": "",
	} {
		jar := map[string]string{}
		r := browser(t, h, jar, "GET", path, nil)
		to, err := url.Parse(r.Header.Get("Location"))
		if err != nil || to.Path != "/ui/login" || to.Query().Get("next") != next || r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: to %s, next %q; want %q; cookie %q", path, to, to.Query().Get("next"), next, r.Header.Get("Set-Cookie"))
		}
		if page := browser(t, h, jar, "GET", to.String(), nil).Body; next != "" && !strings.Contains(page, `name="next" value="`+html.EscapeString(next)+`"`) {
			t.Errorf("%s: %s", path, page)
		}
		want := next
		if next == "" {
			want = "/ui"
		}
		if r := browser(t, h, jar, "POST", "/ui/login", url.Values{"token": {"admin"}, "next": {next}}); r.Header.Get("Location") != want {
			t.Errorf("%s: the sign-in leads to %q", path, r.Header.Get("Location"))
		}
	}
	for _, evil := range []string{
		"https://evil.test/ui", "//evil.test", "/uix", "/v1/jobs", "/\\evil.test", "/ui/../\\evil.test", "/ui//evil.test",
		"/ui/%2e%2e/x", "/ui/..\\x", "/ui/\\..\\..\\x", "/ui/.\t./x", "/ui/%2E./x", "/ui/%zz",
	} {
		if r := browser(t, h, map[string]string{}, "POST", "/ui/login", url.Values{"token": {"admin"}, "next": {evil}}); r.Header.Get("Location") != "/ui" {
			t.Errorf("%s leads to %q", evil, r.Header.Get("Location"))
		}
	}
}

// An action without a valid session says that nothing was changed.
func TestActionAfterTheSession(t *testing.T) {
	h, jar := New(Config{API: http.HandlerFunc(guarded)}), map[string]string{"osqueue-8080": "old"}
	r := browser(t, h, jar, "POST", "/ui/jobs/j/cancel", url.Values{}, "Referer", "http://127.0.0.1:8080/ui/jobs/j")
	if r.StatusCode != http.StatusUnauthorized || !strings.Contains(r.Body, "Nothing was changed") || len(jar) != 0 ||
		!strings.Contains(r.Body, `href="/ui/login?next=%2Fui%2Fjobs%2Fj"`) || strings.Contains(r.Body, "Sign out") {
		t.Errorf("%d %v %s", r.StatusCode, jar, r.Body)
	}
}
