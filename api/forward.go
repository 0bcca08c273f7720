package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/api/core"
	"osqueue/api/work"
	v1 "osqueue/client/api/v1"
)

// Bounds of the connections to the leader. This node closes idle connections before the leader
// does, so that no request uses a connection that is being closed.
const (
	dialTimeout    = 2 * time.Second
	idleToLeader   = time.Minute
	idlePerLeader  = 512
	keepAliveEvery = 15 * time.Second
	copyBufferSize = 32 << 10
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

// forwarder forwards requests to the leader.
type forwarder struct {
	s     *Server
	proxy *httputil.ReverseProxy
}

func newForwarder(s *Server) *forwarder {
	f := &forwarder{s: s}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:      f.rewrite,
		Transport:    s.Config.Transport,
		BufferPool:   copyBuffers{},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { hopOf(r).err = err },
		ErrorLog:     newErrorLog(s.Log),
	}
	return f
}

func (f *forwarder) close() {
	if t, ok := f.s.Config.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// hop is one request that is being forwarded to the leader.
type hop struct {
	leader string
	sent   atomic.Bool // its head was written: the leader may act on it
	began  atomic.Bool // its answer has begun
	cut    atomic.Bool // another node leads
	err    error       // it got no answer
}

type hopKey struct{}

func hopOf(r *http.Request) *hop { return r.Context().Value(hopKey{}).(*hop) }

// rewrite addresses the request to the leader and marks it. The client's
// address is added to those of the proxies before this node.
func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host = "http", hopOf(p.In).leader
	p.Out.Host = ""
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	p.Out.Header.Set(v1.HeaderForwarded, f.s.Name)
	p.Out.Header.Del(v1.HeaderCertificate)
	if cred, ok := p.In.Context().Value(core.CredentialKey{}).(*core.Credential); ok {
		if cred.Text != "" {
			p.Out.Header["Authorization"] = []string{"Bearer " + cred.Text} // the leader checks it again
		}
		if cred.Cert != "" {
			p.Out.Header[v1.HeaderCertificate] = []string{cred.Cert}
		}
		if cred.Text == "" && cred.Cert == "" && cred.P != nil {
			p.Out.Header.Set(v1.HeaderPrincipal, cred.P.Text())
		}
	}
	p.Out.URL.RawQuery = p.In.URL.RawQuery // as it was: the leader reads it by the same rules
	hideKey(p.Out.Header)
}

// hideKey keeps the idempotency key from the transport, which would otherwise
// repeat the request by itself. It would then be unknown whether the first request
// reached the leader. Only the case of the name changes, which means nothing in
// HTTP.
func hideKey(h http.Header) {
	h.Del("X-Idempotency-Key")
	if key, given := h[v1.HeaderIdempotencyKey]; given {
		delete(h, v1.HeaderIdempotencyKey)
		h[hiddenKey] = key
	}
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

// Send lets the leader answer c. After an error nothing has been answered yet. The body is read
// before: so a slow client costs the leader nothing, and a dead connection is replaced as long
// as no byte was written to it.
func (f *forwarder) Send(c *core.Call, leader string, wait time.Duration) error {
	if err := c.ReadBody(); err != nil {
		return err
	}
	if c.Route.Waits {
		if wait = f.s.WaitOf(c.In); wait > 0 { // many may come over one stream, and each takes a connection to the leader
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
	w, r := c.Peer.Exchange()
	out := r.WithContext(ctx)
	body := c.In
	c.In = nil // the transport may read it when the answer is there already
	out.ContentLength, out.TransferEncoding = int64(len(body)), nil
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = out.GetBody()
	f.proxy.ServeHTTP(w, out)
	err := f.outcome(c, h, timeout)
	f.s.Metrics.Forwarded(h.sent.Load(), err)
	return err
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
	ctx = context.WithValue(ctx, hopKey{}, h)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// A second call means that another connection replaces one to which nothing was
		// written.
		GetConn:      func(string) { h.sent.Store(false) },
		WroteHeaders: func() { h.sent.Store(true) },

		GotFirstResponseByte: func() { h.began.Store(true) },
	}), cancel
}

// outcome returns the error of a request that got no answer.
func (f *forwarder) outcome(c *core.Call, h *hop, timeout time.Duration) error {
	if h.err == nil {
		return nil
	}
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
	case errors.Is(h.err, context.DeadlineExceeded):
		out = core.Fail(core.BrokeOff, "the leader at %s did not answer within %s", h.leader, timeout)
	default:
		out = core.Fail(core.BrokeOff, "the connection to the leader at %s broke before it answered", h.leader)
	}
	out.Cause = h.err
	if h.cut.Load() {
		out.Cause = errors.Join(core.ErrDeposed, h.err)
	}
	f.s.Log.Debug("the leader did not answer a request", "leader", h.leader, "sent", sent, "error", h.err)
	return out
}

// copyBuffers are the buffers for copying answers.
type copyBuffers struct{}

var copyPool = sync.Pool{New: func() any { return new([copyBufferSize]byte) }}

// Get implements httputil.BufferPool.
func (copyBuffers) Get() []byte { return copyPool.Get().(*[copyBufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (copyBuffers) Put(b []byte) { copyPool.Put((*[copyBufferSize]byte)(b)) }
