package client

import (
	"context"
	"net/http"
	"sync"

	v1 "osqueue/client/api/v1"
)

// Client calls the HTTP API of one cluster. Create one with New and share it. It is
// safe for concurrent use.
type Client struct {
	Admin
}

// Admin has the calls about queues, schedules, webhooks, tokens, workers and the cluster.
type Admin struct {
	*caller
}

// caller sends the calls of a Client.
type caller struct {
	cfg     Config
	http    *http.Client
	tracker *tracker
	streams *streams // nil: HTTP only
	lsn     lsnMark

	base   context.Context // ends with Close
	cancel context.CancelCauseFunc
	once   sync.Once
}

// New returns a client for the cluster in cfg. It does not connect yet. It returns
// an error if cfg is invalid.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	rt := cfg.Transport
	if rt == nil {
		rt = newTransport(cfg.TLS)
	}
	base, cancel := context.WithCancelCause(context.Background())
	c := &Client{Admin{&caller{cfg: cfg, http: newHTTPClient(rt), base: base, cancel: cancel}}}
	c.tracker = newTracker(cfg.Servers, c.ask)
	c.streams = newStreamsOf(c.caller, rt)
	return c, nil
}

// Servers returns the base URLs of the servers, in the order given to New.
func (c *caller) Servers() []string { return append([]string(nil), c.cfg.Servers...) }

// Close cancels the running calls, which return an error that wraps ErrClosed, and
// closes idle connections. You can call it more than once.
func (c *Client) Close() {
	c.once.Do(func() {
		c.cancel(ErrClosed)
		if c.streams != nil {
			c.streams.close() // its readers use the tracker
		}
		c.tracker.close()
		c.http.CloseIdleConnections()
	})
}

// whileOpen returns a context that also ends, with ErrClosed as its cause, when the
// client is closed.
func (c *caller) whileOpen(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.base, func() { cancel(ErrClosed) })
	if c.base.Err() != nil {
		cancel(ErrClosed) // at once, because AfterFunc would run after the request is sent
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ended returns why a call must end: the cause of ctx, or ErrClosed after Close. It returns nil
// while the call may go on.
func (c *caller) ended(ctx context.Context) error {
	if ctx.Err() == nil && c.base.Err() != nil {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// ask asks one node which node leads.
func (c *caller) ask(ctx context.Context, server string) view {
	st, err := c.statusOf(ctx, server)
	if err != nil {
		return view{server: server, err: err}
	}
	v := view{server: server, leader: st.State == v1.StateLeader, term: st.Term}
	for _, p := range st.Peers {
		if m := memberURL(server, p.HTTPAddress); m != "" {
			v.members = append(v.members, m)
		}
	}
	return v
}
