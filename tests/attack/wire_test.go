package attack

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// answer is the answer to a request that was written by hand.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       string
}

// request writes bytes to an address and reads one HTTP answer.
func request(address, text string, within time.Duration) (*answer, error) {
	c, err := net.DialTimeout("tcp", address, within)
	if err != nil {
		return nil, err
	}
	return exchange(c, text, within)
}

// exchange writes bytes to a connection, which it closes, and reads one HTTP answer.
func exchange(c net.Conn, text string, within time.Duration) (*answer, error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	_, writeErr := io.WriteString(c, text) // the node may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return &answer{resp.StatusCode, resp.Header, string(body)}, err
}

// dial connects to an address until the test ends.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
