package client

import (
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "osqueue/client/api/v1"
)

// After the cluster came back from the bucket, a read of the client's own writes says
// so once; the next ones are answered.
func TestReadsAfterTheLSNWasLost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		if r.URL.Query().Has(v1.ParamMinLSN) {
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"_tag":"` + v1.TagLSNGone + `","status":410}`))
			return
		}
		w.Header().Set(v1.HeaderLSN, "2-1")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	c, err := New(Config{Servers: []string{s.URL}, Reads: ReadOwnWrites})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, lost := range []bool{false, true, false} {
		if _, err := c.Stats(bounded(t)); HasTag(err, v1.TagLSNGone) != lost || err != nil && !lost {
			t.Errorf("read %d: %v", i, err)
		}
	}
}
