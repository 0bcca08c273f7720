package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	v1 "osqueue/client/api/v1"
)

var (
	errSlow  = errors.New("no answer in time")
	errGone  = errors.New("another node leads now")
	errLarge = errors.New("the answer is larger than MaxAnswerBytes")
)

// drainBytes is the most that drain reads of an unwanted body to keep its
// connection.
const drainBytes = 64 << 10

// attempt sends the call to tgt once.
func (c *caller) attempt(ctx context.Context, tgt *target, k call, accept func(answer) error) outcome {
	k.bucket = c.ackWait(ctx, k)
	began := time.Now()
	limit := c.cfg.AttemptTimeout + k.wait + k.ownWait()
	var o outcome
	again := true
	if conn := c.streams.pick(ctx, tgt, &k); conn != nil {
		o, again = c.overStream(ctx, conn, tgt, k, limit, accept)
	}
	if again {
		o = c.overHTTP(ctx, tgt, k, limit-time.Since(began), accept)
	}
	o.bucketLeft = k.ownWait() - time.Since(began)
	return o
}

// overHTTP sends the call to tgt in a request of its own, for at most limit.
func (c *caller) overHTTP(ctx context.Context, tgt *target, k call, limit time.Duration, accept func(answer) error) outcome {
	ctx, end := c.whileOpen(ctx)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errSlow) })
	defer timer.Stop()
	stay := context.AfterFunc(tgt.gone, func() { cancel(errGone) })
	defer stay()

	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	o := c.exchange(httptrace.WithClientTrace(ctx, trace), tgt.url, k, accept)
	if o.err != nil {
		o.sent = o.sent || o.status != 0 || sent.Load()
		if cause := context.Cause(ctx); cause != nil {
			o.err = cause
		}
	}
	return o
}

// exchange sends one request and reads its answer.
func (c *caller) exchange(ctx context.Context, server string, k call, accept func(answer) error) outcome {
	req, err := c.request(ctx, server, k)
	if err != nil {
		return outcome{err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return outcome{err: plain(err)}
	}
	defer resp.Body.Close()
	defer drain(resp.Body)
	o := outcome{
		status: resp.StatusCode, lsn: resp.Header.Get(v1.HeaderLSN), committed: resp.Header.Get(v1.HeaderCommitted),
		retry: resp.Header.Get("Retry-After"),
	}
	body, err := readBody(resp, c.answerLimit(k))
	switch {
	case errors.Is(err, errLarge):
		o.err = err
	case err != nil:
		o.err = fmt.Errorf("answered %d, but the connection broke in its body: %w", o.status, err)
	default:
		c.readAnswer(&o, k, answer{bytes: body}, accept)
	}
	return o
}

// readAnswer reads the body of an answer whose status and headers are in o.
func (c *caller) readAnswer(o *outcome, k call, body answer, accept func(answer) error) {
	if o.status/100 != 2 {
		if o.problem = readProblem(body.bytes); o.problem.tag == v1.TagLSNGone {
			c.lsn.forget(k.query.Get(v1.ParamMinLSN)) // only the next read can succeed
		}
		return
	}
	if err := accept(body); err != nil {
		o.err = fmt.Errorf("answered %d with a body that is not from an osqueue node: %w", o.status, err)
		return
	}
	c.lsn.note(o.lsn)
}

func (c *caller) request(ctx context.Context, server string, k call) (*http.Request, error) {
	target := server + k.path
	if query := k.ackQuery(); len(query) > 0 {
		target += "?" + query.Encode()
	}
	var body io.Reader
	in := k.json()
	if in != nil {
		body = bytes.NewReader(in)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if k.key != "" {
		req.Header.Set(v1.HeaderIdempotencyKey, k.key)
	}
	if k.after != "" {
		req.Header.Set(v1.HeaderLastEventID, k.after)
	}
	accept := "application/json"
	if k.stream {
		accept = mediaTypeEvents
	}
	req.Header.Set("Accept", accept+", "+v1.MediaTypeProblem)
	req.Header.Set("Prefer", k.prefer())
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	return req, nil
}

// answerLimit returns the most bytes to read of the answer to k. The server bounds
// answers to claims, and the client always reads them whole: otherwise the jobs
// would be leased to a worker that does not know them.
func (c *caller) answerLimit(k call) int64 {
	if k.leases {
		return max(c.cfg.MaxAnswerBytes, DefaultMaxAnswerBytes)
	}
	return c.cfg.MaxAnswerBytes
}

// readBody reads the whole body. It returns errLarge if the body is longer than
// limit bytes.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%w (%d)", errLarge, limit)
	}
	return buf.Bytes(), err
}

// drain reads the rest of a short body, so that the connection can be used again.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, drainBytes) // an error costs only the connection
}

// plain removes the method and the URL that net/http adds to errors. The caller
// knows them.
func plain(err error) error {
	var wrapped interface{ Unwrap() error }
	if errors.As(err, &wrapped) {
		if inner := wrapped.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}
