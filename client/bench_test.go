package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	wire "osqueue/client/api/v1/frame"
)

// BenchmarkEnqueue measures the cost of a call, server included, next to a bare
// net/http client that sends the same bytes.
func BenchmarkEnqueue(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case v1.PathStatus:
			io.WriteString(w, `{"state":"leader","term":1}`)
			return
		case wire.Path:
			answerStream(b, w)
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set(v1.HeaderLSN, "1-1")
		io.WriteString(w, `{"jobId":"01a1fd42-1f2c-7154-b322-e415af05b32c","lsn":"1-1"}`)
	}))
	defer srv.Close()
	job := NewJob{Type: "bench", Payload: json.RawMessage(`{"n":1}`)}
	b.Run("client", func(b *testing.B) { benchmarkEnqueue(b, Config{Servers: []string{srv.URL}}, job) })
	b.Run("stream", func(b *testing.B) {
		benchmarkEnqueue(b, Config{Servers: []string{srv.URL}, Protocol: ProtocolStream}, job)
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

func benchmarkEnqueue(b *testing.B, cfg Config, job NewJob) {
	cl, err := New(cfg)
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
}

// answerStream upgrades to a stream, and answers the requests that have arrived together with
// one write, as a node does, until the client ends the connection.
func answerStream(b *testing.B, w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Protocol+"\r\n\r\n")
	out, _ := wire.Append(nil, wire.KindHello, 0, &wire.Hello{Version: wire.Version})
	answer := &wire.Answer{Status: 200, Body: []byte(`{"jobId":"01a1fd42-1f2c-7154-b322-e415af05b32c","lsn":"1-1"}`), LSN: "1-1"}
	var buf [wire.HeadBytes]byte
	for {
		if rw.Reader.Buffered() == 0 {
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		head, err := wire.ReadHead(rw, &buf)
		if err != nil {
			return
		}
		if _, err := rw.Discard(int(head.Length)); err != nil {
			return
		}
		if head.Kind == wire.KindRequest {
			out, _ = wire.Append(out, wire.KindAnswer, head.ID, answer)
		}
	}
}
