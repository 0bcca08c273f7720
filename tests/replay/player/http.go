package player

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"osqueue/tests/replay/transcript"
)

// answerMax bounds an answer.
const answerMax = 64 << 20

// message is a request that can be sent several times.
type message struct {
	method  string
	server  string
	path    string
	header  http.Header
	body    []byte
	hasBody bool
	chunked bool
}

func (p *Player) http(ctx context.Context, c *transcript.Case) (string, *transcript.Difference, error) {
	m, err := p.message(c.HTTPRequest)
	line := c.HTTPRequest.Method + " " + c.HTTPRequest.Path
	if err != nil {
		return line, nil, err
	}
	line = m.line()
	if n := c.HTTPRequest.Parallel; n > 0 {
		statuses, err := p.sendMany(ctx, m, n)
		if err != nil {
			return line, nil, err
		}
		return fmt.Sprintf("%s, %d at once", line, n), c.CheckParallel(statuses), nil
	}
	a, err := p.send(ctx, m)
	if err != nil {
		return line, nil, err
	}
	return line, c.CheckHTTP(a, p.vars), nil
}

// lineMax bounds the part of a body that is shown.
const lineMax = 200

func (m *message) line() string {
	text := m.method + " " + m.path
	if !m.hasBody {
		return text
	}
	body := m.body[:min(len(m.body), lineMax)]
	if strings.Contains(m.header.Get("Content-Type"), "proto") {
		return fmt.Sprintf("%s %q", text, body)
	}
	return text + " " + string(body)
}

func (p *Player) message(r *transcript.HTTPRequest) (*message, error) {
	path, err := p.vars.Text(r.Path)
	if err != nil {
		return nil, err
	}
	m := &message{method: r.Method, server: p.server(r), path: path, chunked: r.Chunked}
	if m.body, m.hasBody, err = r.Bytes(p.vars); err != nil {
		return nil, err
	}
	m.header, err = p.header(r.ClientHeaders, r.Headers)
	return m, err
}

// header returns the headers of the client, overridden by those of the case.
func (p *Player) header(layers ...map[string]*string) (http.Header, error) {
	h := http.Header{}
	for _, layer := range layers {
		for name, value := range layer {
			switch {
			case ofConnection[http.CanonicalHeaderKey(name)]:
			case value == nil:
				h[http.CanonicalHeaderKey(name)] = nil // not even a default
			default:
				text, err := p.vars.Text(*value)
				if err != nil {
					return nil, err
				}
				h.Set(name, text)
			}
		}
	}
	return h, nil
}

// ofConnection are headers that the transport writes itself.
var ofConnection = map[string]bool{"Connection": true, "Content-Length": true, "Host": true, "Transfer-Encoding": true}

func (p *Player) send(ctx context.Context, m *message) (transcript.Answer, error) {
	u, err := url.Parse(m.server)
	if err != nil {
		return transcript.Answer{}, err
	}
	req := (&http.Request{Method: m.method, URL: u, Host: u.Host, Header: m.header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	u.Opaque = m.path // as it was written
	if m.hasBody || m.chunked {
		req.Body = io.NopCloser(bytes.NewReader(m.body))
		req.ContentLength = int64(len(m.body))
		if m.chunked {
			req.ContentLength = -1
		} else if len(m.body) == 0 {
			req.Body = http.NoBody
		}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return transcript.Answer{}, err
	}
	defer resp.Body.Close()
	return answerOf(resp)
}

func answerOf(resp *http.Response) (transcript.Answer, error) {
	a := transcript.Answer{Status: resp.StatusCode, Header: resp.Header}
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return a, err
	}
	a.Body, err = unpack(resp.Header.Get("Content-Encoding"), body)
	return a, err
}

// unpack decompresses a body, for encodings that the recorded clients accept and Go supports.
func unpack(encoding string, body []byte) ([]byte, error) {
	if len(body) == 0 { // HEAD
		return body, nil
	}
	var r io.Reader
	var err error
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		err = fmt.Errorf("the content-encoding %q is not known here", encoding)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, answerMax))
}

// sendMany sends a request n times at once.
func (p *Player) sendMany(ctx context.Context, m *message, n int) ([]int, error) {
	statuses, errs := make([]int, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			a, err := p.send(ctx, m)
			statuses[i], errs[i] = a.Status, err
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return statuses, nil
}
