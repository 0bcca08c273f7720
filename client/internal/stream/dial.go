package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"osqueue/client/api/v1/frame"
)

// RefusedError is the error of a server that does not open a stream.
type RefusedError struct {
	Status int // of its HTTP answer
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server answered %d instead of opening a stream", e.Status)
}

// Known reports whether the server knows the route, so that a later attempt can succeed.
func (e *RefusedError) Known() bool { return e.Status >= http.StatusInternalServerError }

var errNoWriter = errors.New("the transport does not support upgrades of HTTP/1.1")

// handshakeMax bounds the bytes of the first frame of a server.
const handshakeMax = 4 << 10

// Dial opens a stream to server, a base URL. token is the client's access token; "" means none.
// moved is called, in the goroutine that reads, when
// the server reports that another node leads. The caller must close the connection.
func Dial(ctx context.Context, rt http.RoundTripper, server, agent, token string, moved func(frame.Moved)) (*Conn, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+frame.Path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", frame.Protocol)
	req.Header.Set("User-Agent", agent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return nil, &RefusedError{Status: resp.StatusCode}
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		_ = resp.Body.Close()
		return nil, errNoWriter
	}
	return begin(ctx, rw, frame.Hello{Version: frame.Version, Agent: agent}, moved)
}

// begin exchanges the hellos on a connection, which it closes if that fails.
func begin(ctx context.Context, rw io.ReadWriteCloser, own frame.Hello, moved func(frame.Moved)) (*Conn, error) {
	in := bufio.NewReaderSize(rw, readBuffer)
	hello, err := greet(ctx, rw, in, own)
	if err != nil {
		_ = rw.Close()
		return nil, err
	}
	return newConn(rw, in, hello, moved), nil
}

// greet exchanges the hellos.
func greet(ctx context.Context, rw io.ReadWriteCloser, in io.Reader, own frame.Hello) (frame.Hello, error) {
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	defer stop()
	var hello frame.Hello
	b, err := frame.Append(nil, frame.KindHello, 0, &own)
	if err != nil {
		return hello, err
	}
	if _, err := rw.Write(b); err != nil {
		return hello, fmt.Errorf("send the hello: %w", err)
	}
	var buf [frame.HeadBytes]byte
	head, err := frame.ReadHead(in, &buf)
	if err != nil {
		return hello, fmt.Errorf("read the hello of the server: %w", err)
	}
	if head.Kind != frame.KindHello || head.Length > handshakeMax {
		return hello, fmt.Errorf("the first frame of the server has the kind %d and %d bytes; must be a hello (%d)", head.Kind, head.Length, frame.KindHello)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(in, body); err != nil {
		return hello, fmt.Errorf("read the hello of the server: %w", err)
	}
	return hello, hello.Parse(body)
}

// pingOr returns the interval of the server's pings.
func pingOr(hello frame.Hello, otherwise time.Duration) time.Duration {
	if hello.PingMillis == 0 {
		return otherwise
	}
	return time.Duration(hello.PingMillis) * time.Millisecond
}
