package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An error of a request between nodes does not show a URL with http.
func TestErrorsHaveNoURL(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Do(http.DefaultClient, req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if err == nil || strings.Contains(err.Error(), "http://") || !strings.Contains(err.Error(), req.URL.Host) {
		t.Errorf("%v", err)
	}
}

func TestAnswers(t *testing.T) {
	w := httptest.NewRecorder()
	WriteJSON(w, http.StatusMisdirectedRequest, Refusal{Message: "not the leader", Leader: "n2:8080"})
	if w.Code != http.StatusMisdirectedRequest || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if got := ReadRefusal(w.Body.Bytes()); got != (Refusal{"not the leader", "n2:8080"}) {
		t.Errorf("%+v", got)
	}
	for _, body := range []string{"<html>", "{}", "[1]"} {
		if got := ReadRefusal([]byte(body + "\n")); got.Message != body || got.Leader != "" {
			t.Errorf("%s: %+v", body, got)
		}
	}
}
