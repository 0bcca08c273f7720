package replay

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"osqueue/tests/replay/transcript"
)

// answerMax bounds an answer.
const answerMax = 64 << 20

// http sends the request of a case, and checks the answer. It returns a line about the request.
func (p *player) http(ctx context.Context, c *transcript.Case) (line string, d *transcript.Difference, err error) {
	if n := c.HTTPRequest.Parallel; n > 0 {
		statuses, err := p.sendMany(ctx, c.HTTPRequest, n)
		if err != nil {
			return c.HTTPRequest.Path, nil, err
		}
		return fmt.Sprintf("%s, %d at once", c.HTTPRequest.Path, n), c.CheckParallel(statuses), nil
	}
	req, line, err := p.request(ctx, c.HTTPRequest)
	if err != nil {
		return line, nil, err
	}
	a, err := p.send(req)
	if err != nil {
		return line, nil, err
	}
	return line, c.CheckHTTP(a, p.vars), nil
}

// lineMax bounds the part of a body that is shown.
const lineMax = 200

// request returns a request, and a line about it.
func (p *player) request(ctx context.Context, r *transcript.HTTPRequest) (req *http.Request, line string, err error) {
	line = r.Method + " " + r.Path
	path, err := p.vars.Text(r.Path)
	if err != nil {
		return nil, line, err
	}
	body, hasBody, err := r.Bytes(p.vars)
	if err != nil {
		return nil, line, err
	}
	header, err := p.header(r.ClientHeaders, r.Headers)
	if err != nil {
		return nil, line, err
	}
	u, err := url.Parse(p.server(r))
	if err != nil {
		return nil, line, err
	}
	req = (&http.Request{Method: r.Method, URL: u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	u.Opaque = path // as it was written
	line = r.Method + " " + path
	if hasBody || r.Chunked {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		if r.Chunked {
			req.ContentLength = -1
		} else if len(body) == 0 {
			req.Body = http.NoBody
		}
		line += fmt.Sprintf(" %q", body[:min(len(body), lineMax)])
	}
	return req, line, nil
}

// header returns the headers of the client, overridden by those of the case.
func (p *player) header(layers ...map[string]*string) (http.Header, error) {
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

func (p *player) send(req *http.Request) (transcript.Answer, error) {
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
func (p *player) sendMany(ctx context.Context, r *transcript.HTTPRequest, n int) ([]int, error) {
	statuses, errs := make([]int, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			req, _, err := p.request(ctx, r)
			if err == nil {
				var a transcript.Answer
				a, err = p.send(req)
				statuses[i] = a.Status
			}
			errs[i] = err
		})
	}
	group.Wait()
	return statuses, errors.Join(errs...)
}
