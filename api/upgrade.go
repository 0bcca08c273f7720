package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"osqueue/api/core"
	"osqueue/api/stream"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// The stream protocol (docs/stream.md) begins with an upgrade of an HTTP connection. Package
// stream moves the frames, and frames.go answers the requests.

// openStreams are the streams that a server serves. The zero value is ready.
type openStreams struct {
	mu      sync.Mutex
	conns   map[*stream.Conn]struct{}
	serving sync.WaitGroup
	closing bool
	stop    context.CancelFunc // of the watch; nil: no stream is open
}

// openStream is GET /v1/stream.
func (s *Server) openStream(c *httpCall) error {
	if c.r.ProtoMajor != 1 || !web.Upgrades(c.r, frame.Protocol) {
		c.Header().Set("Upgrade", frame.Protocol)
		c.Header().Set("Connection", "Upgrade")
		return core.Fail(core.UpgradeRequired, "this route opens a stream; send Connection: Upgrade and Upgrade: %s with HTTP/1.1", frame.Protocol)
	}
	if c.r.ContentLength != 0 { // -1: chunked
		return core.Fail(core.BadRequest, "the request for a stream has a body: frames begin after the answer 101")
	}
	if origin := c.r.Header.Get("Origin"); origin != "" {
		return core.Fail(core.BadRequest, "the header Origin is %q: a stream is for programs, and not for the pages of browsers", origin)
	}
	if err := s.Interrupted(&c.Call); err != nil {
		return err
	}
	leave, err := c.Enter(s.Shares.Streams, core.OverConnections, "streams")
	if err != nil {
		return err
	}
	defer leave()
	if !s.frames.reserve() {
		return core.Fail(core.Closing, "this node is shutting down; use another node")
	}
	defer s.frames.serving.Done()
	leader, self := s.Node.Leader()
	conn, buf, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return core.Fail(core.UpgradeRequired, "this connection cannot be upgraded to a stream; use HTTP/1.1")
	}
	c.Status, c.Begun = http.StatusSwitchingProtocols, true
	_ = conn.SetDeadline(time.Time{}) // those of net/http
	if _, err := io.WriteString(conn, switching); err != nil {
		_ = conn.Close()
		return nil // the client has gone, and nothing else is lost
	}
	limits := stream.DefaultLimits(s.Config.MaxBody)
	limits.Ping = s.Config.Timeouts.KeepAlive
	one := stream.New(conn, buf, s.Name, limits, s.Config.Inflight, &framed{s: s, remote: c.r.RemoteAddr})
	if !self && leader != "" {
		one.Move(leader)
	}
	s.frames.add(s, one)
	if now, _ := s.Node.Leader(); now != leader { // the watch may have seen that before
		one.Move(now)
	}
	stop := endWithToken(c.Context(), one)
	defer stop()
	err = one.Serve(context.WithoutCancel(c.Context()))
	s.frames.remove(one)
	s.Log.Debug("a stream has ended", "client", c.r.RemoteAddr, "reason", err)
	return nil
}

// switching is the answer to the request for an upgrade.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + frame.Protocol + "\r\n\r\n"

// revokedGrace is the time in which a stream may still answer requests after the end of its token.
const revokedGrace = 500 * time.Millisecond

// endWithToken ends a stream soon after its token, if ctx ends for that reason. The client
// learns why from the answers, or when it opens the next stream. The caller calls stop.
func endWithToken(ctx context.Context, one *stream.Conn) (stop func()) {
	var cut *time.Timer
	ended := make(chan struct{})
	unused := context.AfterFunc(ctx, func() {
		defer close(ended)
		if cause := context.Cause(ctx); errors.Is(cause, core.ErrRevoked) || errors.Is(cause, core.ErrReplaced) {
			one.Drain()
			cut = time.AfterFunc(revokedGrace, one.Close)
		}
	})
	return func() {
		if unused() {
			return
		}
		if <-ended; cut != nil {
			cut.Stop()
		}
	}
}

// reserve counts a stream that is about to open, unless the server shuts down. The caller calls serving.Done at its end.
func (o *openStreams) reserve() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	o.serving.Add(1)
	return true
}

// add registers a stream. The first one starts the watch of the leader.
func (o *openStreams) add(s *Server, c *stream.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = make(map[*stream.Conn]struct{})
	}
	o.conns[c] = struct{}{}
	if o.closing {
		c.Drain()
		return
	}
	if o.stop == nil {
		ctx, cancel := context.WithCancel(s.Closing)
		o.stop = cancel
		leader, _ := s.Node.Leader()
		o.serving.Go(func() { s.watchLeader(ctx, leader) })
	}
}

// remove forgets a stream. The last one ends the watch.
func (o *openStreams) remove(c *stream.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, c)
	if len(o.conns) == 0 && o.stop != nil {
		o.stop()
		o.stop = nil
	}
}

// each calls f for every open stream.
func (o *openStreams) each(f func(*stream.Conn)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		f(c)
	}
}

// drain lets the streams end after their requests in progress, and refuses new streams.
func (o *openStreams) drain() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	o.each((*stream.Conn).Drain)
}

// close waits for the end of the streams. When ctx ends, it closes those that are still open.
func (o *openStreams) close(ctx context.Context) {
	done := make(chan struct{})
	go func() { o.serving.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		o.each((*stream.Conn).Close)
		<-done
	}
}

// watchStreams is the interval at which a node with open streams looks for a new leader.
const watchStreams = 50 * time.Millisecond

// watchLeader sends the address of every new leader to the clients of all streams.
func (s *Server) watchLeader(ctx context.Context, before string) {
	for sleep.For(ctx, watchStreams) {
		if leader, _ := s.Node.Leader(); leader != before {
			before = leader
			s.frames.each(func(c *stream.Conn) { c.Move(leader) })
		}
	}
}
