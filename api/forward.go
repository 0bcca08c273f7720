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

	"github.com/go-json-experiment/json"

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
		Transport:    s.cfg.Transport,
		BufferPool:   copyBuffers{},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { hopOf(r).err = err },
		ErrorLog:     newErrorLog(s.log),
	}
	return f
}

func (f *forwarder) close() {
	if t, ok := f.s.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
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
	p.Out.Header.Set(v1.HeaderForwarded, f.s.node)
	p.Out.Header.Del(v1.HeaderCertificate)
	if cred, ok := p.In.Context().Value(credentialKey{}).(*credential); ok {
		if cred.text != "" {
			p.Out.Header["Authorization"] = []string{"Bearer " + cred.text} // the leader checks it again
		}
		if cred.cert != "" {
			p.Out.Header[v1.HeaderCertificate] = []string{cred.cert}
		}
		if cred.text == "" && cred.cert == "" && cred.p != nil {
			p.Out.Header.Set(v1.HeaderPrincipal, cred.p.Text())
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

// passOn forwards the request to the active leader, unless this node is the leader. If done is
// true the request has been answered. The leader may take wait longer than usual.
func (s *Core) passOn(c *call, wait time.Duration) (done bool, err error) {
	leader, self := s.b.Leader()
	switch {
	case self:
		return false, nil
	case leader == "":
		return true, noLeaderKnown(c)
	case c.forwardedBy != nil:
		f := fail(notLeader, "this node is no longer the leader; %s forwarded the request",
			shown(first(c.forwardedBy)))
		f.leader = leader
		return true, f
	}
	err = s.forward.send(c, leader, wait)
	if c.method != http.MethodGet || !errors.Is(err, errDeposed) {
		return true, err
	}
	switch leader, self = s.b.Leader(); { // a read can be sent again
	case self:
		return false, nil
	case leader == "":
		return true, noLeaderKnown(c)
	}
	return true, s.forward.send(c, leader, wait)
}

// errDeposed means that the node to which a request was forwarded no longer leads.
var errDeposed = errors.New("another node is the leader now")

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
		leader, self := f.s.b.Leader()
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

func noLeaderKnown(c *call) error {
	const text = "no active leader is known: the cluster is electing one, has no majority, or does not own the bucket"
	if c.route.at == leaderOnly || c.route.path == pathLSNWait {
		return fail(noLeader, text)
	}
	return fail(noLeader, text+"; %s=%s shows what this node has", v1.ParamConsistency, v1.ConsistencyLocal)
}

// send lets the leader answer c. After an error nothing has been answered yet. The body is read
// before: so a slow client costs the leader nothing, and a dead connection is replaced as long
// as no byte was written to it.
func (f *forwarder) send(c *call, leader string, wait time.Duration) error {
	if err := c.readBody(); err != nil {
		return err
	}
	if c.route.waits {
		if wait = f.s.waitOf(c.in); wait > 0 { // many may come over one stream, and each takes a connection to the leader
			leave, err := c.enter(f.s.shares.waits, tooManyStreams, waiting)
			if err != nil {
				return err
			}
			defer leave()
		}
	}
	timeout := f.s.cfg.Timeouts.Forward + wait + c.ack.patience()
	c.holdOff(timeout)
	h := &hop{leader: leader}
	ctx, cancel := f.context(c, timeout, wait > 0, h)
	defer cancel()
	stop := f.cutWhenDeposed(h, cancel)
	defer stop()
	w, r := c.peer.exchange()
	out := r.WithContext(ctx)
	body := c.in
	c.in = nil // the transport may read it when the answer is there already
	out.ContentLength, out.TransferEncoding = int64(len(body)), nil
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = out.GetBody()
	f.proxy.ServeHTTP(w, out)
	err := f.outcome(c, h, timeout)
	f.s.metrics.forwarded(h.sent.Load(), err)
	return err
}

// waitOf returns how long a request with that body asks the leader to wait.
func (s *Core) waitOf(body []byte) time.Duration {
	var in struct {
		WaitMs int64 `json:"waitMs"`
	}
	if json.Unmarshal(body, &in, lenient) != nil {
		return 0 // the leader refuses the body
	}
	return s.boundedWait(max(in.WaitMs, 0))
}

// context returns a context that ends with the request and after timeout. If the request waits,
// it ends with the server too.
func (f *forwarder) context(c *call, timeout time.Duration, waits bool, h *hop) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.context(), timeout)
	if waits {
		end := cancel
		stop := context.AfterFunc(f.s.closing, end)
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
func (f *forwarder) outcome(c *call, h *hop, timeout time.Duration) error {
	if h.err == nil {
		return nil
	}
	why := f.s.interrupted(c)
	sent := h.sent.Load()
	var out *failure
	switch {
	case why != nil:
		end := *failureOf(why)
		end.unknown = sent
		out = &end
	case h.cut.Load():
		out = fail(brokeOff, "%s stopped being the leader before it answered", h.leader)
		out.unknown = sent
	case !sent:
		out = fail(unreachable, "cannot connect to the leader at %s; nothing was sent", h.leader)
	case errors.Is(h.err, context.DeadlineExceeded):
		out = fail(brokeOff, "the leader at %s did not answer within %s", h.leader, timeout)
	default:
		out = fail(brokeOff, "the connection to the leader at %s broke before it answered", h.leader)
	}
	out.cause = h.err
	if h.cut.Load() {
		out.cause = errors.Join(errDeposed, h.err)
	}
	f.s.log.Debug("the leader did not answer a request", "leader", h.leader, "sent", sent, "error", h.err)
	return out
}

// copyBuffers are the buffers for copying answers.
type copyBuffers struct{}

var copyPool = sync.Pool{New: func() any { return new([copyBufferSize]byte) }}

// Get implements httputil.BufferPool.
func (copyBuffers) Get() []byte { return copyPool.Get().(*[copyBufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (copyBuffers) Put(b []byte) { copyPool.Put((*[copyBufferSize]byte)(b)) }
