package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	wire "osqueue/client/api/v1/frame"
	shared "osqueue/client/internal/stream"
)

// Protocol selects how a client sends its writes and claims.
type Protocol string

// The protocols.
const (
	// ProtocolAuto uses a stream for a client that makes several calls, and HTTP for the first call,
	// while a stream opens, and when a server opens none. With Config.Transport it uses HTTP only.
	ProtocolAuto Protocol = ""
	// ProtocolHTTP uses HTTP only.
	ProtocolHTTP Protocol = "http"
	// ProtocolStream waits for a stream before the first call too. It uses HTTP when a server opens none.
	ProtocolStream Protocol = "stream"
)

// Bounds of the streams of a client.
const (
	// streamConns is the most connections to one server that callers share.
	streamConns = 4
	// streamShare is the number of requests in progress on every connection from which another
	// one is opened.
	streamShare = 64
	// streamBody is the largest body that goes over a stream. A larger one would delay the
	// requests behind it.
	streamBody = 1 << 20
	// dialStream is the time limit for opening a stream.
	dialStream = 2 * time.Second
	// refusedFor is how long a client does not ask a server again that does not know streams, and
	// failedFor after another failure.
	refusedFor = time.Minute
	failedFor  = time.Second
)

// streams are the streams of a client. They are safe for concurrent use.
type streams struct {
	dial   func(ctx context.Context, server string) (*shared.Conn, error)
	always bool // ProtocolStream

	mu      sync.Mutex
	servers map[string]*serverStreams
	closed  bool
	wg      sync.WaitGroup
	base    context.Context // ends with close
	cancel  context.CancelFunc
}

// serverStreams are the streams to one server.
type serverStreams struct {
	conns   []*shared.Conn
	calls   int           // before the first stream
	dialing chan struct{} // closed when the running dial ends; nil: none runs
	again   time.Time     // no dial before
}

func newStreams(always bool, dial func(context.Context, string) (*shared.Conn, error)) *streams {
	base, cancel := context.WithCancel(context.Background())
	return &streams{dial: dial, always: always, servers: make(map[string]*serverStreams), base: base, cancel: cancel}
}

// newStreamsOf returns the streams of c, or nil if it uses HTTP only.
func newStreamsOf(c *caller, rt http.RoundTripper) *streams {
	always := c.cfg.Protocol == ProtocolStream
	if c.cfg.Protocol == ProtocolHTTP || c.cfg.Transport != nil && !always {
		return nil
	}
	return newStreams(always, func(ctx context.Context, server string) (*shared.Conn, error) {
		moved := func(m wire.Moved) { c.tracker.moved(server, m.Leader) }
		return shared.Dial(ctx, rt, server, c.cfg.UserAgent, c.cfg.Token, moved)
	})
}

// close ends all streams and waits for their goroutines.
func (s *streams) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait() // no stream opens from here on
	for _, one := range s.servers {
		for _, c := range one.conns {
			c.Close()
		}
	}
}

// pick returns the stream for a call to tgt, or nil if it has to use HTTP.
func (s *streams) pick(ctx context.Context, tgt *target, k *call) *shared.Conn {
	if s == nil || !k.write || k.stream || len(k.body)+len(k.proto) > streamBody {
		return nil
	}
	c, dialing := s.choose(tgt)
	if c == nil && dialing != nil && s.always {
		select {
		case <-dialing:
			c, _ = s.choose(tgt)
		case <-ctx.Done():
		}
	}
	if c != nil && !c.Takes(len(k.body)+len(k.proto)) {
		return nil
	}
	return c
}

// choose returns the stream with the fewest requests, and starts a dial if there are too few.
func (s *streams) choose(tgt *target) (best *shared.Conn, dialing chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	if tgt.leader {
		s.leave(tgt.url)
	}
	one := s.servers[tgt.url]
	if one == nil {
		one = new(serverStreams)
		s.servers[tgt.url] = one
	}
	best, load := one.least()
	one.calls++
	few := best == nil && (one.calls > 1 || s.always) || best != nil && load >= streamShare
	if few && len(one.conns) < streamConns && one.dialing == nil && !time.Now().Before(one.again) {
		one.dialing = make(chan struct{})
		s.wg.Go(func() { s.open(tgt.url, one) })
	}
	return best, one.dialing
}

// least returns the stream with the fewest requests, and forgets those that have ended.
func (o *serverStreams) least() (best *shared.Conn, load int) {
	open := o.conns[:0]
	for _, c := range o.conns {
		if c.Ended() {
			continue
		}
		open = append(open, c)
		if n, usable := c.Load(); usable && (best == nil || n < load) {
			best, load = c, n
		}
	}
	clear(o.conns[len(open):])
	o.conns = open
	return best, load
}

// leave lets the streams to other servers than the leader end.
func (s *streams) leave(leader string) {
	for url, one := range s.servers {
		if url == leader {
			continue
		}
		for _, c := range one.conns {
			c.Retire()
		}
		one.conns = nil
	}
}

// open opens a stream to server.
func (s *streams) open(server string, one *serverStreams) {
	ctx, cancel := context.WithTimeout(s.base, dialStream)
	defer cancel()
	c, err := s.dial(ctx, server)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(one.dialing)
	one.dialing = nil
	if err == nil {
		one.conns = append(one.conns, c) // also after close, which waits for this dial
		return
	}
	one.again = time.Now().Add(failedFor)
	if refused := (*shared.RefusedError)(nil); errors.As(err, &refused) && !refused.Known() {
		one.again = time.Now().Add(refusedFor)
	}
}

// overStream sends a call over a stream. again reports that nothing was sent, so that the call
// can use HTTP.
func (c *caller) overStream(
	ctx context.Context, conn *shared.Conn, tgt *target, k call, limit time.Duration, accept func(answer) error,
) (o outcome, again bool) {
	req := wire.Request{Target: k.path, Body: k.body, Key: k.key, Prefer: k.prefer()}
	if k.proto != nil {
		req.Body, req.Proto = k.proto, true
	}
	if query := k.ackQuery(); len(query) > 0 {
		req.Target += "?" + query.Encode()
	}
	if k.method != http.MethodPost {
		req.Method = k.method
	}
	began := time.Now()
	got, sent, err := conn.Do(ctx, shared.Cut{After: limit, When: tgt.gone.Done()}, &req, c.answerLimit(k))
	switch {
	case errors.Is(err, shared.ErrTooLarge):
		return outcome{sent: true, err: errLarge}, false
	case errors.Is(err, shared.ErrSlow):
		conn.EndIfSilent(began)
		return outcome{sent: sent, err: errSlow}, false
	case errors.Is(err, shared.ErrCut):
		return outcome{sent: sent, err: errGone}, false
	case err != nil && !sent && c.ended(ctx) == nil:
		return outcome{}, true
	case err != nil:
		return outcome{sent: sent, err: err}, false
	}
	o = outcome{status: int(got.Status), sent: true, lsn: got.LSN, committed: got.Committed}
	c.readAnswer(&o, k, answer{bytes: got.Body, proto: got.Proto}, accept)
	return o, false
}
