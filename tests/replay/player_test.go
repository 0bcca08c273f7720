package replay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"osqueue/internal/sleep"
	"osqueue/tests/replay/transcript"
)

// The outcomes of a case.
const (
	pass  = "pass"
	fail  = "fail"
	quirk = "quirk" // it differs, and the recording says that it may
)

// result is the result of a case.
type result struct {
	file    string
	c       *transcript.Case
	outcome string
	request string // its first line, with values in place of variables
	diff    *transcript.Difference
}

// name returns the file and the case.
func (r *result) name() string { return r.file + " " + r.c.Name }

// servers are base URLs, as in http://127.0.0.1:8080.
type servers struct {
	base     string // gets the requests
	leader   string // gets requests that only a leader can answer
	follower string // gets requests for a follower
}

// defaultTimeout bounds an answer of a case without a timeout.
const defaultTimeout = 10 * time.Second

// player plays recorded cases against a running server. The cases of a sequence depend on each
// other, and on an empty queue at the start. A wrong answer must affect as few later cases as
// possible, and a request must equal that of the recorded client: its headers, its path without
// normalization, its chunked encoding, and its connection.
//
//	sequence ── reset, then each case:
//	    wait_ms ──▶ request ──▶ transcript.Check… ──▶ result
//	                   ▲               │ wrong, and eventually_ms not over
//	                   └───────────────┘
//
// A player must be used by one goroutine at a time. Captured values live as long as a sequence,
// and so do WebSocket connections. After a wrong answer on a WebSocket the player opens a new
// connection, so that a late answer is not taken for the next one.
type player struct {
	at  servers
	net dialer
	// reset empties the queue before a sequence.
	reset func(context.Context) error
	// start starts a server on a seed, and returns whether it serves and its addresses.
	start func(seed []byte) (started bool, at servers, err error)

	client  *http.Client // follows no redirects and does not decompress
	vars    transcript.Vars
	conns   map[string]*websocket.Conn
	deflate bool // the sequence's handshake has offered compression
}

// open makes the player ready. The caller calls close, which ends its connections.
func (p *player) open() {
	p.conns = make(map[string]*websocket.Conn)
	p.client = &http.Client{
		Transport:     &http.Transport{DialContext: p.net, DisableCompression: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *player) close() {
	p.endSequence()
	p.client.CloseIdleConnections()
}

// sequence has cases that go in order.
type sequence struct {
	file  string
	cases []*transcript.Case
}

// sequences returns the cases of a file that are played, by sequence.
func sequences(f transcript.File) (all []sequence) {
	seq := ""
	for i := range f.Cases {
		c := &f.Cases[i]
		if !c.Played() {
			continue
		}
		if c.Seq != seq || len(all) == 0 {
			seq = c.Seq
			all = append(all, sequence{file: f.Name})
		}
		last := &all[len(all)-1]
		last.cases = append(last.cases, c)
	}
	return all
}

// play plays a sequence. An error means that it could not be started, not that an answer was
// wrong.
func (p *player) play(ctx context.Context, s sequence) ([]result, error) {
	p.vars = transcript.Vars{}
	p.deflate = slices.ContainsFunc(s.cases, offersDeflate)
	defer p.endSequence()
	if s.cases[0].Transport != transcript.Start {
		if err := p.reset(ctx); err != nil {
			return nil, fmt.Errorf("%s, sequence %s: empty the queue: %w", s.file, s.cases[0].Seq, err)
		}
	}
	var results []result
	for _, c := range s.cases {
		results = append(results, p.repeat(ctx, s.file, c))
	}
	return results, ctx.Err()
}

func (p *player) endSequence() {
	for name, c := range p.conns {
		_ = c.CloseNow()
		delete(p.conns, name)
	}
}

// repeat plays one case, repeatedly if the case allows it.
func (p *player) repeat(ctx context.Context, file string, c *transcript.Case) result {
	sleep.For(ctx, time.Duration(c.WaitMs)*time.Millisecond)
	deadline := time.Now().Add(time.Duration(c.EventuallyMs) * time.Millisecond)
	for {
		line, d := p.try(ctx, c)
		if d == nil || ctx.Err() != nil || !time.Now().Before(deadline) {
			return result{file: file, c: c, outcome: outcomeOf(c, d), request: line, diff: d}
		}
		sleep.For(ctx, retryEvery)
	}
}

// retryEvery is the pause between repetitions of a case.
const retryEvery = 50 * time.Millisecond

func outcomeOf(c *transcript.Case, d *transcript.Difference) string {
	switch {
	case d == nil:
		return pass
	case c.Quirk:
		return quirk
	default:
		return fail
	}
}

func (p *player) try(ctx context.Context, c *transcript.Case) (line string, d *transcript.Difference) {
	timeout := defaultTimeout
	if c.TimeoutMs > 0 {
		timeout = time.Duration(c.TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	switch c.Transport {
	case transcript.HTTP:
		line, d, err = p.http(ctx, c)
	case transcript.WS:
		line, d, err = p.ws(ctx, c)
	case transcript.Handshake:
		line, d, err = p.handshake(ctx, c)
	case transcript.Start:
		line = "start on a document"
		d, err = p.startOn(c)
	}
	if err != nil {
		d = &transcript.Difference{Where: "request", Want: "an answer", Got: err.Error()}
	}
	return line, d
}

// startOn starts a server on the seed of the case. The rest of the sequence uses that server.
func (p *player) startOn(c *transcript.Case) (*transcript.Difference, error) {
	now := transcript.Number(fmt.Sprint(time.Now().UnixMilli()))
	seed, err := transcript.Vars{"now": now}.Value(c.Seed)
	if err != nil {
		return nil, err
	}
	started, at, err := p.start(transcript.Encode(seed))
	if err != nil {
		return nil, err
	}
	p.at = at
	return c.CheckStart(started), nil
}

// leaderOnly are the routes of dtq that a node which does not lead refuses, or answers from its
// own state.
var leaderOnly = []string{"/submit_task", "/get_pending_task", "/complete_task", "/status"}

// server returns the server for a request by HTTP.
func (p *player) server(r *transcript.HTTPRequest) string {
	switch {
	case r.Target == transcript.TargetFollower:
		return p.at.follower
	case slices.Contains(leaderOnly, strings.TrimSuffix(r.Path, "/")):
		return p.at.leader
	default:
		return p.at.base
	}
}
