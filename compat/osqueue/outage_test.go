package osqueue

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"osqueue/compat/compattest"
)

// The reads of the legacy broker, and no others, are answered while the bucket takes no writes.
func TestOutageReads(t *testing.T) {
	for request, want := range map[string]string{
		"GET /v1/jobs":             "/v1/jobs?limit=all&consistency=legacy",
		"HEAD /v1/jobs":            "/v1/jobs?consistency=legacy",
		"GET /v1/stats?cache=no":   "/v1/stats?consistency=legacy",
		"GET /state":               "/state?consistency=legacy",
		"GET /v1/jobs?cursor=c":    "/v1/jobs?cursor=c",
		"GET /v1/jobs?status=all":  "/v1/jobs?status=all",
		"GET /v1/healthz":          "/v1/healthz",
		"GET /v1/batches":          "/v1/batches",
		"POST /v1/jobs?something=": "/v1/jobs",
	} {
		got := ""
		api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RequestURI() })
		method, target, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, target, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		New(Config{Native: api, Calls: compattest.API{Handler: api}}).ServeHTTP(httptest.NewRecorder(), r)
		if got != want {
			t.Errorf("%s asks for %s, want %s", request, got, want)
		}
	}
}
