package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// BenchmarkEnqueue measures the cost of a call, server included, next to a bare
// net/http client that sends the same bytes.
func BenchmarkEnqueue(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathStatus {
			io.WriteString(w, `{"state":"leader","term":1}`)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set(v1.HeaderLSN, "1-1")
		io.WriteString(w, `{"jobId":"01a1fd42-1f2c-7154-b322-e415af05b32c","lsn":"1-1"}`)
	}))
	defer srv.Close()
	job := NewJob{Type: "bench", Payload: json.RawMessage(`{"n":1}`)}
	b.Run("client", func(b *testing.B) {
		cl, err := New(Config{Servers: []string{srv.URL}})
		if err != nil {
			b.Fatal(err)
		}
		defer cl.Close()
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := cl.Enqueue(b.Context(), job); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		transport := newTransport(nil)
		defer transport.CloseIdleConnections()
		hc := &http.Client{Transport: transport}
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				body := `{"id":"01a1fd42-1f2c-7154-b322-e415af05b32c","type":"bench","payload":{"n":1}}`
				resp, err := hc.Post(srv.URL+v1.PathJobs, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	})
}
