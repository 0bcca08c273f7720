package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/web"
)

// largeJob is larger than Config.MaxBody is by default.
func largeJob() string { return `{"payload":"` + strings.Repeat("a", core.DefaultBodyBytes) + `"}` }

func postJob(t *testing.T, h http.Handler, header http.Header) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v1.PathJobs, strings.NewReader(largeJob()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestLimitOfBodiesIsForThoseFromOutside(t *testing.T) {
	var native http.Handler
	var calls core.Calls
	s := New(core.Config{Backend: newFake(), Wrap: func(n http.Handler, c core.Calls) http.Handler {
		native, calls = n, c
		return n
	}})
	defer s.Shutdown(context.Background())
	if got := postJob(t, native, http.Header{}); got != http.StatusRequestEntityTooLarge {
		t.Errorf("from outside: %d", got)
	}
	if got := postJob(t, native, http.Header{v1.HeaderForwarded: {"n2"}}); got != http.StatusOK {
		t.Errorf("from another node: %d", got)
	}
	call := func(method, target, body string) *web.Answer {
		a := web.NewAnswer(make(http.Header))
		if !calls.Call(t.Context(), method, target, "192.0.2.1:5", []byte(body), a) {
			t.Errorf("%s %s broke off", method, target)
		}
		return a
	}
	if a := call(http.MethodPost, v1.PathJobs, largeJob()); a.Status != http.StatusOK || a.Header().Get(v1.HeaderLSN) == "" {
		t.Errorf("within the process: %d %v", a.Status, a.Header())
	}
	if a := call(http.MethodGet, v1.PathJobs, ""); a.Status != http.StatusOK || a.Body.Len() < core.DefaultBodyBytes {
		t.Errorf("a list in parts: %d, %d bytes", a.Status, a.Body.Len())
	}
	for _, target := range []string{"/nope", "x y", "/v1/jobs/none"} {
		if a := call(http.MethodGet, target, ""); a.Status < 400 || a.Header().Get("Content-Type") != v1.MediaTypeProblem || a.Body.Len() == 0 {
			t.Errorf("%s: %d %v", target, a.Status, a.Header())
		}
	}
}

// Both versions of HTTP reach the handler that Wrap makes.
func TestServesBothVersionsOfHTTP(t *testing.T) {
	s := New(core.Config{Backend: newFake(), Wrap: func(native http.Handler, _ core.Calls) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Wrapped", r.Proto)
			native.ServeHTTP(w, r)
		})
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	for want, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		p := new(http.Protocols)
		set(p, true)
		tr := &http.Transport{Protocols: p}
		resp, err := (&http.Client{Transport: tr}).Get("http://" + ln.Addr().String() + v1.PathHealthz)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Proto != want || resp.Header.Get("Wrapped") != want {
			t.Errorf("%s: %s, %s, wrapped %q", want, resp.Status, resp.Proto, resp.Header.Get("Wrapped"))
		}
		defer tr.CloseIdleConnections()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
