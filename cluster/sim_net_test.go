package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"osqueue/cluster/transport"

	"github.com/hashicorp/raft"
)

// simNet is the network of a simulation. Between any two nodes there are two links, one
// for each direction. A link that is cut holds the messages back, like a firewall that
// drops packets: a message arrives when the link is restored, if the sender still waits,
// as TCP would send it again. Or the link refuses them, like a host that is down.
//
// A message may also come late: a copy of it arrives up to simLateMost after it was sent, whether
// the message itself has arrived or not, and after its sender has given up, has sent others, or
// is gone. Its answer is lost.
type simNet struct {
	mu    sync.Mutex
	r     *rand.Rand
	ends  map[string]*simEnd // by node name; nil or missing: the node is down
	cuts  map[simLink]*simCut
	slow  time.Duration           // longest delay that is added to each direction
	flaky float64                 // probability that a connection breaks
	bad   int                     // messages that were delayed or lost
	rate  int                     // bytes of entries that a link carries per second; 0: no limit
	most  int                     // bytes of entries in the largest request
	keep  func(simLink, any) bool // requests that keep holds back; nil: none
	kept  []*simLate
	lates simLateness
}

// simLink is one direction between two nodes.
type simLink struct{ from, to string }

// simCut is the reason why links are cut. Several links share one.
type simCut struct {
	refuse   bool
	mended   chan struct{}
	withheld int // number of messages; under simNet.mu
}

var (
	errSimCut     = errors.New("connection refused")
	errSimTimeout = errors.New("i/o timeout")
	errSimDown    = errors.New("the node is down")
	errSimReset   = errors.New("connection reset by peer")
)

func newSimNet(r *rand.Rand) *simNet {
	return &simNet{r: r, ends: make(map[string]*simEnd), cuts: make(map[simLink]*simCut), lates: newSimLateness()}
}

// cut cuts links. The returned function restores those that no other call has cut or
// restored since, and returns how many messages were withheld.
func (n *simNet) cut(refuse bool, links ...simLink) (mend func() int) {
	c := &simCut{refuse: refuse, mended: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		if old := n.cuts[l]; old != nil && old.refuse == refuse {
			continue // the link stays with the earlier cut
		}
		n.cuts[l] = c
	}
	return sync.OnceValue(func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		for l, by := range n.cuts {
			if by == c {
				delete(n.cuts, l)
			}
		}
		close(c.mended)
		return c.withheld
	})
}

func (n *simNet) setWeather(slow time.Duration, flaky float64) (affected int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow, n.flaky = slow, flaky
	affected, n.bad = n.bad, 0
	return affected
}

// setRate limits the bytes of entries per second on each link; 0: no limit. It returns
// the most bytes of entries in one request since the last call.
func (n *simNet) setRate(rate int) (most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	most, n.rate, n.most = n.most, rate, 0
	return most
}

// end returns the endpoint of a node that is up.
func (n *simNet) end(name string) *simEnd {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ends[name]
}

// pass carries a message over a link, as long as its sender lives and waits.
func (n *simNet) pass(l simLink, gone <-chan struct{}, timeout <-chan time.Time) error {
	for {
		c, delay, broken := n.outcome(l)
		switch {
		case c == nil && broken:
			return errSimReset
		case c == nil:
			return simWait(delay, gone, timeout)
		case c.refuse:
			return errSimCut
		}
		select {
		case <-c.mended:
		case <-gone:
			return errSimDown
		case <-timeout:
			return errSimTimeout
		}
	}
}

// carry returns how long a link needs for entries.
func (n *simNet) carry(entries []*raft.Log) time.Duration {
	size := 0
	for _, l := range entries {
		size += len(l.Data)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.most = max(n.most, size)
	if n.rate == 0 {
		return 0
	}
	return time.Duration(size) * time.Second / time.Duration(n.rate)
}

func (n *simNet) outcome(l simLink) (c *simCut, delay time.Duration, broken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c = n.cuts[l]; c != nil {
		c.withheld++
		return c, 0, false
	}
	delay = 100*time.Microsecond + time.Duration(n.r.Int64N(int64(900*time.Microsecond)))
	if n.slow > 0 {
		n.bad++
		delay += time.Duration(n.r.Int64N(int64(n.slow)))
	}
	broken = n.flaky > 0 && n.r.Float64() < n.flaky
	if broken {
		n.bad++
	}
	return nil, delay, broken
}

func simWait(d time.Duration, gone <-chan struct{}, timeout <-chan time.Time) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-gone:
		return errSimDown
	case <-timeout:
		return errSimTimeout
	}
}

// simEnd is a node's endpoint of the network: raft's transport, and the HTTP server for
// its peers. It behaves as raft's TCP transport does with one request in flight.
type simEnd struct {
	net  *simNet
	name string
	in   chan raft.RPC
	dead chan struct{} // closed when the node is gone
	// confirms is called with each request with entries that the node has accepted, at that time.
	confirms func(*raft.AppendEntriesRequest)

	mu        sync.Mutex
	heartbeat func(raft.RPC)
	peers     http.Handler
}

var _ transport.Transport = (*simEnd)(nil)

// plug creates a new endpoint for a node.
func (n *simNet) plug(name string, confirms func(*raft.AppendEntriesRequest)) *simEnd {
	e := &simEnd{net: n, name: name, in: make(chan raft.RPC), dead: make(chan struct{}), confirms: confirms}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[name] = e
	return e
}

// kill ends all requests of this endpoint at once.
func (e *simEnd) kill() {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	select {
	case <-e.dead:
		return
	default:
	}
	close(e.dead)
	if e.net.ends[e.name] == e {
		delete(e.net.ends, e.name)
	}
}

func simRaftAddr(name string) string { return name + ":7080" }

func simHTTPAddr(name string) string { return name + ":8080" }

func simHost(addr string) string {
	host, _, _ := strings.Cut(addr, ":")
	return host
}

// Consumer implements raft.Transport.
func (e *simEnd) Consumer() <-chan raft.RPC { return e.in }

// LocalAddr implements raft.Transport.
func (e *simEnd) LocalAddr() raft.ServerAddress { return raft.ServerAddress(simRaftAddr(e.name)) }

// EncodePeer implements raft.Transport.
func (e *simEnd) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// DecodePeer implements raft.Transport.
func (e *simEnd) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (e *simEnd) SetHeartbeatHandler(h func(raft.RPC)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heartbeat = h
}

// AppendEntriesPipeline implements raft.Transport.
func (e *simEnd) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (e *simEnd) AppendEntries(
	_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	if d := e.net.carry(args.Entries); d > transport.ConnTimeout {
		return errors.Join(simWait(transport.ConnTimeout, e.dead, nil), errSimTimeout)
	} else if d > 0 {
		if err := simWait(d, e.dead, nil); err != nil {
			return err
		}
	}
	return simCall(e, to, args, resp, nil, transport.ConnTimeout)
}

// RequestVote implements raft.Transport.
func (e *simEnd) RequestVote(
	_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return simCall(e, to, args, resp, nil, transport.ConnTimeout)
}

// RequestPreVote implements raft.WithPreVote.
func (e *simEnd) RequestPreVote(
	_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return simCall(e, to, args, resp, nil, transport.ConnTimeout)
}

// TimeoutNow implements raft.Transport.
func (e *simEnd) TimeoutNow(
	_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return simCall(e, to, args, resp, nil, transport.ConnTimeout)
}

// InstallSnapshot implements raft.Transport.
func (e *simEnd) InstallSnapshot(
	_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	r := &simStream{Reader: data, link: simLink{e.name, simHost(string(to))}, net: e.net, gone: e.dead}
	return simCall(e, to, args, resp, r, 10*transport.ConnTimeout)
}

// simStream fails when its link is cut or its sender is gone.
type simStream struct {
	io.Reader
	link simLink
	net  *simNet
	gone <-chan struct{}
}

// Read implements io.Reader.
func (s *simStream) Read(p []byte) (int, error) {
	if err := s.net.pass(s.link, s.gone, time.After(transport.ConnTimeout)); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// simCall is a request and its answer, either of which may get lost.
func simCall[T any](e *simEnd, to raft.ServerAddress, cmd any, answer *T, data io.Reader, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	there := simHost(string(to))
	data = e.net.copyLate(simLink{e.name, there}, cmd, data)
	if e.net.keeps(simLink{e.name, there}, cmd, data) {
		return errors.Join(simWait(limit, e.dead, nil), errSimTimeout)
	}
	if err := e.net.pass(simLink{e.name, there}, e.dead, timer.C); err != nil {
		return err
	}
	peer := e.net.end(there)
	if peer == nil {
		return errSimCut
	}
	reply := make(chan raft.RPCResponse, 1)
	if err := peer.take(raft.RPC{Command: cmd, Reader: data, RespChan: reply}, e.dead, timer.C); err != nil {
		return err
	}
	select {
	case r := <-reply:
		peer.confirmed(cmd, r.Response)
		if err := e.net.pass(simLink{there, e.name}, e.dead, timer.C); err != nil {
			return err
		}
		if got, ok := r.Response.(*T); ok {
			*answer = *got
		}
		return r.Error
	case <-peer.dead:
		return errSimReset
	case <-e.dead:
		return errSimDown
	case <-timer.C:
		return errSimTimeout
	}
}

// confirmed calls confirms if an answer confirms entries.
func (e *simEnd) confirmed(request, answer any) {
	sent, isAppend := request.(*raft.AppendEntriesRequest)
	got, ok := answer.(*raft.AppendEntriesResponse)
	if isAppend && ok && got.Success && len(sent.Entries) > 0 {
		e.confirms(sent)
	}
}

// take delivers a request to this node's raft.
func (e *simEnd) take(rpc raft.RPC, gone <-chan struct{}, timeout <-chan time.Time) error {
	if h := e.heartbeatHandler(); h != nil && isHeartbeat(rpc.Command) {
		h(rpc)
		return nil
	}
	select {
	case e.in <- rpc:
		return nil
	case <-e.dead:
		return errSimReset
	case <-gone:
		return errSimDown
	case <-timeout:
		return errSimTimeout
	}
}

func (e *simEnd) heartbeatHandler() func(raft.RPC) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heartbeat
}

// isHeartbeat reports whether a request is a heartbeat, by the rule of raft's TCP
// transport.
func isHeartbeat(cmd any) bool {
	a, ok := cmd.(*raft.AppendEntriesRequest)
	return ok && a.Term != 0 && len(a.Addr) > 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 &&
		len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// CloseStreams implements transport. There is no stream to close: each request has a
// connection of its own.
func (e *simEnd) CloseStreams() {}

// Close implements transport.
func (e *simEnd) Close() error {
	e.kill()
	return nil
}

// serve sets the HTTP handler for the peers.
func (e *simEnd) serve(h http.Handler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peers = h
}

func (e *simEnd) handler() http.Handler {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peers
}

// RoundTrip implements http.RoundTripper, for the requests between nodes.
func (e *simEnd) RoundTrip(req *http.Request) (*http.Response, error) {
	there := simHost(req.URL.Host)
	e.net.copyLateHTTP(simLink{e.name, there}, req)
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	gone := simEither(ctx, e.dead)
	if err := e.net.pass(simLink{e.name, there}, gone, nil); err != nil {
		return nil, err
	}
	peer := e.net.end(there)
	if peer == nil {
		return nil, errSimCut
	}
	h := peer.handler()
	if h == nil {
		return nil, errSimCut
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req.WithContext(ctx))
	select {
	case <-peer.dead:
		return nil, errSimReset
	default:
	}
	if err := e.net.pass(simLink{there, e.name}, gone, nil); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = req
	resp.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	return resp, nil
}

// simEither returns a channel that is closed when ctx ends or dead is closed. ctx must
// end at some time.
func simEither(ctx context.Context, dead <-chan struct{}) <-chan struct{} {
	both := make(chan struct{})
	go func() {
		defer close(both)
		select {
		case <-ctx.Done():
		case <-dead:
		}
	}()
	return both
}
