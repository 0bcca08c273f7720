package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "osqueue/client/api/v1"
)

// The headers of nodes do not get past the HTTP port and the admin socket.
func TestClientsCannotForward(t *testing.T) {
	names := []string{v1.HeaderForwarded, v1.HeaderPrincipal, v1.HeaderCertificate}
	var got http.Header
	h := outside(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	r := httptest.NewRequest(http.MethodPost, "/v1/jobs", nil)
	for _, name := range names {
		r.Header.Set(name, "local-admin")
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	for _, name := range names {
		if v := got.Get(name); v != "" {
			t.Errorf("%s reaches the API as %q", name, v)
		}
	}
}
