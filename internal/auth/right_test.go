package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A mux has the routes for one of the rights, behind the guard, which sees no other right; a route
// without a right is not served by accident.
func TestMux(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	routes := []Route{
		{Pattern: "GET /node", Right: Node, Handler: ok},
		{Pattern: "GET /both", Right: Admin | Node, Handler: ok},
		{Pattern: "GET /open", Right: Public, Handler: ok},
	}
	guard := func(r Route) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Right", r.Right.String()) })
	}
	mux := Mux(routes, ^Node, guard)
	for path, want := range map[string]string{"/node": "", "/both": "admin", "/open": "public"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Header().Get("Right"); got != want || (w.Code == http.StatusNotFound) != (want == "") {
			t.Errorf("%s: %d, guarded for %q, want %q", path, w.Code, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a route without a right is served")
		}
	}()
	Mux(append(routes, Route{Pattern: "GET /forgotten", Handler: ok}), Node, nil)
}
