package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/api/core"
	"osqueue/api/work"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/web"
)

// Bounds of the connections to the leader. This node closes idle connections before the leader
// does, so that no request uses a connection that is being closed.
const (
	dialTimeout    = 2 * time.Second
	idleToLeader   = time.Minute
	idlePerLeader  = 512
	keepAliveEvery = 15 * time.Second
	readBytes      = 512      // room for the next bytes of an answer
	partBytes      = 32 << 10 // of an answer that are passed on at a time
)

// newTransport returns the pool of connections to other nodes, which dial makes; nil makes
// plain ones. It knows no proxies.
func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveEvery}).DialContext
	}
	return &http.Transport{
		DialContext:         dial,
		MaxIdleConnsPerHost: idlePerLeader,
		IdleConnTimeout:     idleToLeader,
		DisableCompression:  true,
	}
}

// forwarder forwards calls to the leader.
type forwarder struct{ s *Server }

func (f *forwarder) close() {
	if t, ok := f.s.Config.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// hop is one call that is being forwarded to the leader.
type hop struct {
	leader string
	sent   atomic.Bool // its head was written: the leader may act on it
	began  atomic.Bool // its answer has begun
	cut    atomic.Bool // another node leads
}

// request returns the request to the leader. The body is read before, so a slow client costs the leader nothing, and a
// dead connection is replaced as long as no byte was written to it.
func (f *forwarder) request(ctx context.Context, c *core.Call, leader string) *http.Request {
	body := c.In
	c.In = nil // the transport may read it when the answer is there already
	r := (&http.Request{
		Method: c.Method, URL: &url.URL{Scheme: "http", Host: leader, Path: c.PathText(), RawPath: c.Path, RawQuery: c.RawQuery},
		Header: f.header(c), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	r.Body, _ = r.GetBody()
	return r
}

// header returns the head of a call for the leader, which marks the call and names its client and its principal.
func (f *forwarder) header(c *core.Call) http.Header {
	h := http.Header{v1.HeaderForwarded: {f.s.Name}, "X-Forwarded-For": {web.HostOf(c.Remote)}}
	if c.Keys != nil {
		// Under its own name the key would let the transport repeat the request by itself, and it would be unknown whether
		// the first one reached the leader. The case means nothing in HTTP.
		h[hiddenKey] = c.Keys
	}
	if c.Prefer != nil {
		h["Prefer"] = c.Prefer
	}
	for name, value := range map[string]string{
		"Content-Type": c.ContentType, "Content-Encoding": c.Encoding, "Authorization": c.Bearer,
		core.HeaderTraceparent: c.Traceparent, "X-Request-Id": c.RequestID,
	} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	if cred, ok := c.Ctx.Value(core.CredentialKey{}).(*core.Credential); ok {
		if cred.Text != "" {
			h["Authorization"] = []string{"Bearer " + cred.Text} // the leader checks it again
		}
		if cred.Cert != "" {
			h[v1.HeaderCertificate] = []string{cred.Cert}
		}
		if cred.Text == "" && cred.Cert == "" && cred.P != nil {
			h.Set(v1.HeaderPrincipal, cred.P.Text())
		}
	}
	return h
}

var hiddenKey = strings.ToLower(v1.HeaderIdempotencyKey)

// lookForLeader is the interval at which a request that waits for the leader's answer checks
// whether that node still leads. The request is cut at the second check that fails: after an
// orderly change of leader the old one has time to answer.
const lookForLeader = 250 * time.Millisecond

// cutWhenDeposed ends h, by calling cancel, when another node than h.leader leads and
// the answer has not begun. A leader that is frozen, or that the network hides, would
// keep h waiting for its whole timeout. The caller must call stop.
func (f *forwarder) cutWhenDeposed(h *hop, cancel context.CancelFunc) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped, before := false, false
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped || h.began.Load() {
			return
		}
		leader, self := f.s.Node.Leader()
		deposed := self || leader != "" && leader != h.leader
		if deposed && before {
			h.cut.Store(true)
			cancel()
			return
		}
		before = deposed
		timer.Reset(lookForLeader)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(lookForLeader, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// Send lets the leader answer c. After an error nothing has been answered yet.
func (f *forwarder) Send(c *core.Call, leader string, wait time.Duration) error {
	if err := c.ReadBody(); err != nil {
		return err
	}
	if c.Route.Waits {
		if wait = f.s.WaitOf(c); wait > 0 { // many may come over one stream, and each takes a connection to the leader
			leave, err := c.Enter(f.s.Shares.Waits, core.TooManyStreams, work.Waiting)
			if err != nil {
				return err
			}
			defer leave()
		}
	}
	timeout := f.s.Config.Timeouts.Forward + wait + c.Ack.Patience()
	c.HoldOff(timeout)
	h := &hop{leader: leader}
	ctx, cancel := f.context(c, timeout, wait > 0, h)
	defer cancel()
	stop := f.cutWhenDeposed(h, cancel)
	defer stop()
	resp, err := f.s.Config.Transport.RoundTrip(f.request(ctx, c, leader))
	if err != nil {
		err = f.failed(c, h, timeout, err)
		f.s.Metrics.Forwarded(h.sent.Load(), err)
		return err
	}
	h.began.Store(true)
	f.s.Metrics.Forwarded(true, nil)
	defer resp.Body.Close()
	readHead(&c.Answered, resp)
	f.answer(c, resp.Body)
	return nil
}

// answer passes on the body of an answer, in parts. If it breaks off, that of c does.
func (f *forwarder) answer(c *core.Call, body io.Reader) {
	c.Out = c.Out[:0]
	for {
		c.Out = slices.Grow(c.Out, readBytes)
		n, err := body.Read(c.Out[len(c.Out):cap(c.Out)])
		c.Out = c.Out[:len(c.Out)+n]
		switch {
		case err == io.EOF:
			c.Ready = true
			return
		case err != nil, len(c.Out) >= partBytes && c.Peer.SendPart() != nil:
			c.Broken = true
			return
		}
	}
}

// context returns a context that ends with the request and after timeout. If the request waits,
// it ends with the server too.
func (f *forwarder) context(c *core.Call, timeout time.Duration, waits bool, h *hop) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	if waits {
		end := cancel
		stop := context.AfterFunc(f.s.Closing, end)
		cancel = func() { stop(); end() }
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// A second call means that another connection replaces one to which nothing was
		// written.
		GetConn:      func(string) { h.sent.Store(false) },
		WroteHeaders: func() { h.sent.Store(true) },

		GotFirstResponseByte: func() { h.began.Store(true) },
	}), cancel
}

// failed returns the error of a call that got no answer because of err.
func (f *forwarder) failed(c *core.Call, h *hop, timeout time.Duration, err error) error {
	why := f.s.Interrupted(c)
	sent := h.sent.Load()
	var out *core.Failure
	switch {
	case why != nil:
		end := *core.FailureOf(why)
		end.Unknown = sent
		out = &end
	case h.cut.Load():
		out = core.Fail(core.BrokeOff, "%s stopped being the leader before it answered", h.leader)
		out.Unknown = sent
	case !sent:
		out = core.Fail(core.Unreachable, "cannot connect to the leader at %s; nothing was sent", h.leader)
	case errors.Is(err, context.DeadlineExceeded):
		out = core.Fail(core.BrokeOff, "the leader at %s did not answer within %s", h.leader, timeout)
	default:
		out = core.Fail(core.BrokeOff, "the connection to the leader at %s broke before it answered", h.leader)
	}
	out.Cause = err
	if h.cut.Load() {
		out.Cause = errors.Join(core.ErrDeposed, err)
	}
	f.s.Log.Debug("the leader did not answer a request", "leader", h.leader, "sent", sent, "error", err)
	return out
}
