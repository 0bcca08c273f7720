package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"osqueue/client/api/v1/frame"
)

// A client with TLS can name the stream protocol in the handshake. Its first frame, a Hello with its token, then
// replaces the request for an upgrade. serveDirect makes that request from the frame, so one handler opens all
// streams: with the same bounds, credentials, shares and audit.

// serveDirect serves a connection whose client chose frame.ALPN. It is for http.Server.TLSNextProto: the server closes
// the connection when it returns.
func (s *Server) serveDirect(_ *http.Server, conn *tls.Conn, next http.Handler) {
	_ = conn.SetReadDeadline(time.Now().Add(s.cfg.Timeouts.Header))
	hello, err := readHello(conn)
	if err != nil {
		s.log.Debug("a client of the stream protocol sent no hello", "client", conn.RemoteAddr(), "reason", err)
		return
	}
	s.fresh.track(conn, http.StateActive) // net/http does not call the hook for other protocols
	_ = conn.SetDeadline(time.Now().Add(s.cfg.Timeouts.Answer))
	w := &directWriter{conn: conn, header: make(http.Header)}
	w.first, err = frame.Append(nil, frame.KindHello, 0, &frame.Hello{Version: hello.Version, Agent: hello.Agent})
	if err != nil {
		return
	}
	ctx := context.Background()
	if of, ok := next.(interface{ BaseContext() context.Context }); ok {
		ctx = of.BaseContext() // it has the connection
	}
	next.ServeHTTP(w, directRequest(ctx, conn, hello.Token))
	if !w.taken {
		w.refuse()
	}
}

// readHello reads the first frame of a client.
func readHello(conn io.Reader) (hello frame.Hello, err error) {
	var buf [frame.HeadBytes]byte
	head, err := frame.ReadHead(conn, &buf)
	switch {
	case err != nil:
		return hello, err
	case head.Kind != frame.KindHello || head.Length > frame.FirstMax:
		return hello, fmt.Errorf("the first frame has the kind %d and %d bytes; must be a hello (%d)", head.Kind, head.Length, frame.KindHello)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(conn, body); err != nil {
		return hello, err
	}
	return hello, hello.Parse(body)
}

// directRequest returns the request that opens the stream.
func directRequest(ctx context.Context, conn *tls.Conn, token string) *http.Request {
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: frame.Path}, RequestURI: frame.Path,
		Proto: frame.ALPN, ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header),
		// The check of the host protects browsers, which cannot make such connections. The own address passes it.
		Host: conn.LocalAddr().String(),
	}
	if token != "" {
		r.Header["Authorization"] = []string{"Bearer " + token}
	}
	return r.WithContext(ctx)
}

// isDirect reports whether directRequest made r: no request over HTTP has such a version.
func isDirect(r *http.Request) bool { return r.Proto == frame.ALPN }

// directWriter is the http.ResponseWriter of such a request. It keeps an answer, which is a refusal.
type directWriter struct {
	conn   net.Conn
	first  []byte // the hello of the client, without its token
	taken  bool   // the stream has the connection
	header http.Header
	answer frame.Answer
}

// refusalMax bounds the body of a refusal.
const refusalMax = 64 << 10

// errRefusalLong means that a handler answers more than a refusal.
var errRefusalLong = errors.New("the answer is too long for a client of the stream protocol")

// Header implements http.ResponseWriter.
func (w *directWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *directWriter) WriteHeader(status int) {
	if w.answer.Status == 0 {
		w.answer.Status = uint32(status)
	}
}

// Write implements http.ResponseWriter.
func (w *directWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(w.answer.Body)+len(b) > refusalMax {
		return 0, errRefusalLong
	}
	w.answer.Body = append(w.answer.Body, b...)
	return len(b), nil
}

// Hijack implements http.Hijacker.
func (w *directWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.taken = true
	in := bufio.NewReader(io.MultiReader(bytes.NewReader(w.first), w.conn))
	return w.conn, bufio.NewReadWriter(in, bufio.NewWriter(w.conn)), nil
}

// SetWriteDeadline is for http.ResponseController.
func (w *directWriter) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// refuse sends the answer of the handler.
func (w *directWriter) refuse() {
	b, err := frame.Append(nil, frame.KindAnswer, 0, &w.answer)
	if err != nil {
		return
	}
	_, _ = w.conn.Write(b) // the client may have gone
}
