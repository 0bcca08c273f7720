package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
)

// A client that sends its whole request before it reads gets the answer to a body that is
// refused, however it ends the request.
func TestAnswerToARefusedBody(t *testing.T) {
	s := newServed(t)
	body := strings.Repeat("x", 12<<20)
	for name, head := range map[string]string{
		"kept":    fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)),
		"closed":  fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n", len(body)),
		"chunked": "Transfer-Encoding: chunked\r\n\r\n",
	} {
		for path, want := range map[string]int{"/v1/jobs": http.StatusRequestEntityTooLarge, "/nowhere": http.StatusNotFound} {
			t.Run(name+path, func(t *testing.T) {
				conn := s.dial()
				_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+head)
				to := io.WriteCloser(nopCloser{conn})
				if name == "chunked" {
					to = httputil.NewChunkedWriter(conn)
				}
				if _, err := io.WriteString(to, body); err != nil {
					t.Fatalf("the server closed the connection before it had read the body: %v", err)
				}
				_ = to.Close()
				if name == "chunked" {
					_, _ = io.WriteString(conn, "\r\n")
				}
				if got := s.read(conn); got.status != want {
					t.Errorf("answered %d %s", got.status, got.body)
				}
			})
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// The answer does not wait for a body that may never arrive.
func TestAnswerBeforeTheBody(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.Timeouts.Body = time.Hour })
	for _, head := range []string{"Content-Length: 12000000", "Connection: close\r\nContent-Length: 12000000", "Transfer-Encoding: chunked"} {
		conn := s.dial()
		_, _ = io.WriteString(conn, "POST /nowhere HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n")
		if got := s.read(conn); got.status != http.StatusNotFound || len(got.body) == 0 {
			t.Errorf("%s: answered %d %q", head, got.status, got.body)
		}
		_ = conn.Close()
	}
}
