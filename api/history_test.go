package api

import (
	"net/http"
	"testing"

	v1 "osqueue/client/api/v1"
)

// The history has the minutes that are asked for, of one type or of all.
func TestHistory(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{`{"type":"a"}`, `{"type":"a"}`, `{"type":"b"}`, `{}`} {
		ok[v1.Enqueued](t, g.do(http.MethodPost, v1.PathJobs, body))
	}
	for query, want := range map[string]uint64{"": 4, "?type=a": 2, "?type=b&minutes=1440": 1, "?type=~&minutes=1": 1, "?type=c": 0} {
		h := ok[v1.History](t, g.do(http.MethodGet, v1.PathHistory+query, ""))
		if got := h.Minutes[len(h.Minutes)-1].Enqueued; got != want {
			t.Errorf("%s: %d jobs in the last minute, want %d", query, got, want)
		}
	}
	for _, query := range []string{"?minutes=0", "?minutes=1441", "?minutes=x", "?type=~x"} {
		refused(t, g.do(http.MethodGet, v1.PathHistory+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}
