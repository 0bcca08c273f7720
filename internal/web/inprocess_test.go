package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"osqueue/internal/web"
)

func ask(h http.HandlerFunc) (a *web.Answer, whole bool) {
	a = web.NewAnswer(make(http.Header))
	return a, a.Of(h, httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestAnswerIsKept(t *testing.T) {
	a, whole := ask(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "b")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK) // too late
		_, _ = w.Write([]byte("short "))
		_, _ = w.Write([]byte("and stout"))
	})
	if !whole || a.Status != http.StatusTeapot || a.Body.String() != "short and stout" || a.Header().Get("X-A") != "b" {
		t.Errorf("%v %d %q %v", whole, a.Status, a.Body.String(), a.Header())
	}
}

func TestAnswerThatIsNone(t *testing.T) {
	if _, whole := ask(func(http.ResponseWriter, *http.Request) {}); whole {
		t.Error("nothing is an answer")
	}
	if _, whole := ask(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic(http.ErrAbortHandler)
	}); whole {
		t.Error("half of one is an answer")
	}
	defer func() {
		if p := recover(); p != "else" {
			t.Errorf("it ends with %v", p)
		}
	}()
	ask(func(http.ResponseWriter, *http.Request) { panic("else") })
}
