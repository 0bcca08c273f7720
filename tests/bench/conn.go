package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// conn is one client: a connection that carries one request after the other.
type conn struct {
	host string
	net  net.Conn
	in   *bufio.Reader
	body []byte
}

// requestTimeout bounds every request.
const requestTimeout = 30 * time.Second

func dial(host string) (*conn, error) {
	c, err := net.DialTimeout("tcp", host, requestTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{host: host, net: c, in: bufio.NewReader(c)}, nil
}

func (c *conn) close() { _ = c.net.Close() }

// dialect is the form of the requests: header lines that all of them have.
type dialect string

const (
	// legacy requests have no header of their own: the broker reads them as those of a legacy
	// client, if a legacy route has the same path.
	legacy dialect = ""
	// strict requests accept the errors of the HTTP API only, as those of the Go client do.
	strict dialect = "Prefer: handling=strict\r\n"
)

// String returns the name of the dialect.
func (d dialect) String() string {
	if d == strict {
		return "strict"
	}
	return "legacy"
}

// post encodes a request, to be sent any number of times.
func (d dialect) post(host, path string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, host, string(d), len(body))
	b.Write(body)
	return b.Bytes()
}

// errUnavailable is a 503: the broker is not, or no longer, the leader.
var errUnavailable = errors.New("the broker cannot serve")

// do sends an encoded request and returns the answer's body, valid until the
// next call. A status other than 200 or 201 is an error.
func (c *conn) do(request []byte) ([]byte, error) {
	if err := c.net.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.net.Write(request); err != nil {
		return nil, err
	}
	status, length, err := c.head()
	if err != nil {
		return nil, err
	}
	c.body = append(c.body[:0], make([]byte, length)...)
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return nil, err
	}
	if status == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%w: %s: %s", errUnavailable, c.host, c.body)
	}
	if status != http.StatusOK && status != http.StatusCreated {
		return nil, fmt.Errorf("%s answers %d: %s", c.host, status, c.body)
	}
	return c.body, nil
}

var contentLength = []byte("Content-Length: ")

// head reads the head of an answer. The servers measured always give a length.
func (c *conn) head() (status, length int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 {
		return 0, 0, fmt.Errorf("%s answers %q", c.host, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("%s answers %q", c.host, line)
	}
	length = -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if rest, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(rest)); err != nil {
				return 0, 0, err
			}
		}
	}
	if length < 0 {
		return 0, 0, fmt.Errorf("%s gives no length of its answer", c.host)
	}
	return status, length, nil
}
