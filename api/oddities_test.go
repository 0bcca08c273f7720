package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCharsets(t *testing.T) {
	g := newRig(t)
	for media, want := range map[string]int{
		"application/json":                     http.StatusOK,
		"application/json; charset=utf-8":      http.StatusOK,
		`application/json; charset="UTF-8"`:    http.StatusOK,
		"application/json;charset=us-ascii":    http.StatusOK,
		"application/json; profile=x":          http.StatusOK,
		"application/json; charset=utf-16":     http.StatusUnsupportedMediaType,
		"application/json; charset=iso-8859-1": http.StatusUnsupportedMediaType,
		"application/json; charset=":           http.StatusUnsupportedMediaType,
	} {
		if a := g.do("POST", "/v1/jobs", `{"type":"mail"}`, "Content-Type", media); a.status != want {
			t.Errorf("%s: %d %s, want %d", media, a.status, a.body, want)
		}
	}
}

func TestIDsThatLeaveADirectory(t *testing.T) {
	g := newRig(t)
	for id, want := range map[string]int{
		"../../etc/passwd": http.StatusBadRequest, "/etc/passwd": http.StatusBadRequest, "a/../b": http.StatusBadRequest,
		`..\\x`: http.StatusBadRequest, "a/.": http.StatusBadRequest, ".": http.StatusBadRequest, "..": http.StatusBadRequest,
		"a/b": http.StatusOK, "a..b": http.StatusOK, "...": http.StatusOK, "-rf": http.StatusOK, ".x": http.StatusOK,
	} {
		if a := g.do("POST", "/v1/jobs", `{"id":"`+id+`"}`); a.status != want {
			t.Errorf("%s: %d %s, want %d", id, a.status, a.body, want)
		}
	}
}

func TestZonesWithLeapSeconds(t *testing.T) {
	g := newRig(t)
	for zone, want := range map[string]int{
		"right/UTC": http.StatusBadRequest, "posix/Europe/Berlin": http.StatusBadRequest, "posixrules": http.StatusBadRequest,
		"Europe/Berlin": http.StatusOK,
	} {
		if a := g.do("PUT", "/v1/crons/c", `{"spec":"0 4 * * *","timeZone":"`+zone+`","job":{"type":"x"}}`); a.status != want {
			t.Errorf("%s: %d %s, want %d", zone, a.status, a.body, want)
		}
	}
}

// TestChunkedBodiesCloseTheConnection: bytes after a request with both lengths are never taken
// for a second request.
func TestChunkedBodiesCloseTheConnection(t *testing.T) {
	g := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.s.Serve(ln) }()
	t.Cleanup(func() { _ = g.s.Shutdown(t.Context()) })
	for _, length := range []string{"", "Content-Length: 4\r\n"} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		body := `{"type":"x"}`
		_, _ = fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"+
			"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", length, len(body), body)
		text, err := io.ReadAll(bufio.NewReader(conn))
		if n := strings.Count(string(text), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(text), "HTTP/1.1 200") || err != nil {
			t.Errorf("%q: %d answers, %v: %s", length, n, err, text)
		}
	}
}
