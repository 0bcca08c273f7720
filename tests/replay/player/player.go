package player

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"osqueue/internal/sleep"
	"osqueue/tests/replay/transcript"
)

// Outcome is the outcome of a case.
type Outcome string

// The outcomes.
const (
	Pass  Outcome = "pass"
	Fail  Outcome = "fail"
	Quirk Outcome = "quirk" // it differs, and the recording says that it may
)

// Result is the result of a case.
type Result struct {
	File    string
	Case    *transcript.Case
	Outcome Outcome
	Request string // its first line, with values in place of variables
	Diff    *transcript.Difference
}

// Name returns the file and the case.
func (r *Result) Name() string { return r.File + " " + r.Case.Name }

// Servers are base URLs, as in http://127.0.0.1:8080.
type Servers struct {
	Base     string // gets the requests
	Leader   string // gets requests that only a leader can answer
	Follower string // gets requests for a follower
}

// Options configure a Player.
type Options struct {
	Servers Servers
	// Reset empties the queue before a sequence.
	Reset func(context.Context) error
	// Start starts a server on a seed, and returns whether it serves and its addresses.
	Start func(ctx context.Context, seed []byte) (started bool, at Servers, err error)
}

// defaultTimeout bounds an answer of a case without a timeout.
const defaultTimeout = 10 * time.Second

// Player plays cases.
type Player struct {
	o      Options
	client *http.Client
	dialer *http.Client // of WebSockets

	at      Servers // of this sequence
	vars    transcript.Vars
	conns   map[string]*conn
	deflate bool // the sequence's handshake has offered compression
}

// New makes a Player. Close ends its connections.
func New(o Options) *Player {
	return &Player{o: o, at: o.Servers, client: newClient(), dialer: newClient(), conns: make(map[string]*conn)}
}

// newClient returns a client that follows no redirects and does not decompress.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close ends all connections.
func (p *Player) Close() {
	p.endSequence()
	p.client.CloseIdleConnections()
	p.dialer.CloseIdleConnections()
}

// sequences returns the cases of a file that are played, by sequence.
func sequences(f transcript.File) [][]*transcript.Case {
	var all [][]*transcript.Case
	seq := ""
	for i := range f.Cases {
		c := &f.Cases[i]
		if !c.Played() {
			continue
		}
		if c.Seq != seq || len(all) == 0 {
			seq = c.Seq
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], c)
	}
	return all
}

// Play plays the sequences of a file that keep selects. An error means that a sequence could
// not be started, not that an answer was wrong.
func (p *Player) Play(ctx context.Context, f transcript.File, keep func(*transcript.Case) bool) ([]Result, error) {
	var results []Result
	for _, cases := range sequences(f) {
		if keep != nil && !keep(cases[0]) {
			continue
		}
		some, err := p.sequence(ctx, f.Name, cases)
		results = append(results, some...)
		if err != nil {
			return results, fmt.Errorf("%s, sequence %s: %w", f.Name, cases[0].Seq, err)
		}
	}
	return results, nil
}

func (p *Player) sequence(ctx context.Context, file string, cases []*transcript.Case) ([]Result, error) {
	var results []Result
	p.at, p.vars = p.o.Servers, transcript.Vars{}
	p.deflate = slices.ContainsFunc(cases, offersDeflate)
	defer p.endSequence()
	if cases[0].Transport != transcript.Start {
		if err := p.o.Reset(ctx); err != nil {
			return nil, fmt.Errorf("empty the queue: %w", err)
		}
	}
	for _, c := range cases {
		results = append(results, p.play(ctx, file, c))
	}
	return results, ctx.Err()
}

func (p *Player) endSequence() {
	for name, c := range p.conns {
		c.close()
		delete(p.conns, name)
	}
}

// play plays one case, repeatedly if the case allows it.
func (p *Player) play(ctx context.Context, file string, c *transcript.Case) Result {
	sleep.For(ctx, time.Duration(c.WaitMs)*time.Millisecond)
	deadline := time.Now().Add(time.Duration(c.EventuallyMs) * time.Millisecond)
	for {
		line, d := p.try(ctx, c)
		r := Result{File: file, Case: c, Outcome: outcomeOf(c, d), Request: line, Diff: d}
		if d == nil || ctx.Err() != nil || !time.Now().Before(deadline) {
			return r
		}
		sleep.For(ctx, retryEvery)
	}
}

// retryEvery is the pause between repetitions of a case.
const retryEvery = 50 * time.Millisecond

func outcomeOf(c *transcript.Case, d *transcript.Difference) Outcome {
	switch {
	case d == nil:
		return Pass
	case c.Quirk:
		return Quirk
	default:
		return Fail
	}
}

func (p *Player) try(ctx context.Context, c *transcript.Case) (line string, d *transcript.Difference) {
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
		d, err = p.start(ctx, c)
	}
	if err != nil {
		d = &transcript.Difference{Where: "request", Want: "an answer", Got: err.Error()}
	}
	return line, d
}

// start starts a server on the seed of the case. The rest of the sequence uses that server.
func (p *Player) start(ctx context.Context, c *transcript.Case) (*transcript.Difference, error) {
	now := transcript.Number(fmt.Sprint(time.Now().UnixMilli()))
	seed, err := transcript.Vars{"now": now}.Value(c.Seed)
	if err != nil {
		return nil, err
	}
	started, at, err := p.o.Start(context.WithoutCancel(ctx), transcript.Encode(seed))
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
func (p *Player) server(file *transcript.HTTPRequest) string {
	switch {
	case file.Target == transcript.TargetFollower:
		return p.at.Follower
	case slices.Contains(leaderOnly, strings.TrimSuffix(file.Path, "/")):
		return p.at.Leader
	default:
		return p.at.Base
	}
}
