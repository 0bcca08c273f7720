package queue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHookTestSaysWhyNothingIsSent tests hooks that deliver nothing.
func TestHookTestSaysWhyNothingIsSent(t *testing.T) {
	t.Parallel()
	for hook, want := range map[string]string{
		`{"name":"h","paused":true,"failingSince":1000,"lastError":"refused"}`: "osqueue: hook h is paused: event evt_1-2.1 stays in the outbox until",
		`{"name":"h","failingSince":1000,"lastError":"refused"}`:               "event evt_1-2.1 is in the outbox and was not answered yet; hook h has failed since 1970-01-01",
		`{"name":"h"}`: "event evt_1-2.1 is in the outbox and was not answered yet: see osqueue hook show h",
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/hooks/h/test", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"evt_1-2.1"}`) })
		mux.HandleFunc("GET /v1/hooks/h", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, hook) })
		mux.HandleFunc("GET /v1/hooks/h/deliveries", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"attempts":[],"pending":[]}`) })
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		timeout := "--timeout=300ms"
		if strings.Contains(hook, "paused") {
			timeout = "--timeout=1m" // it is not waited for
		}
		if r := newTestCommand(t, s.URL).Run("hook", "test", "h", timeout); r.Code != 1 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d\n%s%s", hook, r.Code, r.Out, r.Err)
		}
	}
}

// A hook that no event can reach is stored with a warning, and one that has delivered nothing is not called ok.
func TestHooksThatDeliverNothing(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/hooks/h", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"lsn":"1-2","warning":"no event can reach the URL: 10.0.0.1: the address is not public"}`)
	})
	mux.HandleFunc("GET /v1/hooks", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hooks":[{"name":"h"}],"lsn":"1-2"}`) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	if r := newTestCommand(t, s.URL).Run("hook", "put", "h", "--url", "https://in.example/", "--on", "job.dead"); r.Code != 0 || !strings.Contains(r.Err, "warning: no event can reach the URL") {
		t.Errorf("%+v", r)
	}
	if r := newTestCommand(t, s.URL).Run("hook", "ls"); !strings.Contains(r.Out, "none delivered") {
		t.Errorf("%+v", r)
	}
}
