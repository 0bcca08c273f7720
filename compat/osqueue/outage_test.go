package osqueue

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// TestOutageReads checks which requests are repeated on the state of the node that gets them.
func TestOutageReads(t *testing.T) {
	lag := `{"_tag":"` + v1.TagFlushLag + `"}`
	tests := []struct {
		name, method, target, problem string
		want                          string // what the client gets
	}{
		{"list", "GET", "/v1/jobs", lag, "local: consistency=local"},
		{"page", "GET", "/v1/jobs?cursor=c", lag, "local: cursor=c&consistency=local"},
		{"stats", "GET", "/v1/stats", lag, "local: consistency=local"},
		{"another problem", "GET", "/v1/stats", `{"_tag":"no_leader"}`, `{"_tag":"no_leader"}`},
		{"a read of the API", "GET", "/v1/jobs?status=all", lag, lag},
		{"a write", "POST", "/v1/jobs", lag, lag},
		{"another route", "GET", "/v1/batches", lag, lag},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.RawQuery, "consistency=local") {
					if w.Header().Get("Retry-After") != "" {
						t.Error("the refusal's header is in the answer")
					}
					_, _ = w.Write([]byte("local: " + r.URL.RawQuery))
					return
				}
				w.Header().Set("Content-Type", v1.MediaTypeProblem)
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(tt.problem))
			})
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, tt.target, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			New(Config{Native: api, Calls: fakeAPI{api}}).ServeHTTP(w, r)
			status := http.StatusServiceUnavailable
			if strings.HasPrefix(tt.want, "local") {
				status = http.StatusOK
			}
			if original := !strings.HasPrefix(tt.want, "local") && tt.name != "another route"; original { // in the words of the contract
				if !strings.Contains(w.Body.String(), storageError) {
					t.Errorf("got %d %q", w.Code, w.Body)
				}
				return
			}
			if w.Code != status || w.Body.String() != tt.want {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, status, tt.want)
			}
		})
	}
}
