package osqueue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// Pages are one list however they arrive, also when a payload looks like the end of a page, and when
// the last page has no job any more.
func TestPagesAreJoined(t *testing.T) {
	const trap = `{"jobId":"%d","payload":{"jobs":[1],"nextCursor":"x"}}`
	job := func(i int) string { return fmt.Sprintf(trap, i) }
	all := []string{job(0) + "," + job(1), job(2), job(3) + "," + job(4), ""}
	for size := 1; size < 300; size++ {
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i := len(r.URL.Query().Get(v1.ParamCursor))
			body := `{"total":5,"jobs":[` + all[i] + `]`
			if i+1 < len(all) {
				body += `,"nextCursor":"` + strings.Repeat("c", i+1) + `"`
			}
			body += "}"
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			for len(body) > 0 {
				n := min(size, len(body))
				_, _ = w.Write([]byte(body[:n]))
				body = body[n:]
			}
		})
		w := httptest.NewRecorder()
		New(Config{Native: api, Calls: api}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, v1.PathJobs, nil))
		want := `{"total":5,"jobs":[` + strings.Join(all[:3], ",") + `]}`
		if got := w.Body.String(); got != want || w.Header().Get("Content-Length") != "" {
			t.Fatalf("in parts of %d bytes, length %q\n got %s\nwant %s", size, w.Header().Get("Content-Length"), got, want)
		}
	}
}

// A list whose later page is missing breaks off: it must not look complete.
func TestAListBreaksOff(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"jobs":[{}],"nextCursor":"c"}`))
	})
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http does not wrap it
			t.Errorf("it ends with %v", p)
		}
	}()
	New(Config{Native: api, Calls: api}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, v1.PathJobs, nil))
}
