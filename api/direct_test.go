package api

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// direct is a server with TLS.
type direct struct {
	*served
	roots *x509.CertPool
	opens atomic.Pointer[string] // version of the newest request for a stream
}

// newDirect returns a server that knows the protocols of ALPN.
func newDirect(t *testing.T, protocols []string, change ...func(*Config)) *direct {
	t.Helper()
	example := httptest.NewUnstartedServer(nil)
	example.StartTLS()
	t.Cleanup(example.Close)
	d := &direct{roots: x509.NewCertPool()}
	d.roots.AddCert(example.Certificate())
	each := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: example.TLS.Certificates, NextProtos: protocols}
	secured := func(c *Config) {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return each, nil }}
		c.Wrap = func(_, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == frame.Path {
					d.opens.Store(&r.Proto)
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	d.served = newServed(t, append(change, secured)...)
	return d
}

// everyProtocol is what a node knows.
var everyProtocol = []string{frame.ALPN, "h2", "http/1.1"}

func (d *direct) client(change ...func(*client.Config)) *client.Client {
	d.t.Helper()
	cfg := client.Config{
		Servers: []string{d.addr}, RetryFor: -1, Protocol: client.ProtocolStream,
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: d.roots},
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

// open makes a connection with a protocol, and says nothing on it.
func (d *direct) open(protocol string) *rawStream {
	d.t.Helper()
	conn, err := tls.Dial("tcp", d.addr, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: d.roots, NextProtos: []string{protocol}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &rawStream{t: d.t.(*testing.T), conn: conn, in: bufio.NewReader(conn)}
}

// ended fails the test unless the server ends the connection without an answer.
func (r *rawStream) ended() {
	r.t.Helper()
	if b, err := io.ReadAll(r.in); errors.Is(err, os.ErrDeadlineExceeded) || len(b) > 0 {
		r.t.Errorf("read %q, %v; want the end", b, err)
	}
}

// The SDK opens a stream without an upgrade, and with one if the server does not know better.
func TestTheClientNamesTheStreamInTheHandshake(t *testing.T) {
	for _, one := range []struct {
		name      string
		protocols []string
		version   string
	}{
		{"a node", everyProtocol, frame.ALPN},
		{"a proxy", []string{"h2", "http/1.1"}, "HTTP/1.1"},
		{"no ALPN", nil, "HTTP/1.1"},
	} {
		t.Run(one.name, func(t *testing.T) {
			d := newDirect(t, one.protocols)
			converse(t, d.client())
			if n := d.streamsOpen(); n != 1 {
				t.Errorf("%d streams are open, want 1", n)
			}
			if v := d.opens.Load(); v == nil || *v != one.version {
				t.Errorf("the stream began with %v, want %s", v, one.version)
			}
		})
	}
}

// Clients of HTTP notice nothing.
func TestHTTPBesideTheStream(t *testing.T) {
	d := newDirect(t, everyProtocol)
	for want, set := range map[string]func(*http.Protocols, bool){"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetHTTP2} {
		p := new(http.Protocols)
		set(p, true)
		tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: d.roots}}
		res, err := (&http.Client{Transport: tr}).Get("https://" + d.addr + v1.PathHealthz)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		tr.CloseIdleConnections()
		if res.StatusCode != http.StatusOK || res.Proto != want {
			t.Errorf("answered %s over %s, want %s", res.Status, res.Proto, want)
		}
	}
}

// The first requests may follow the hello at once.
func TestRequestsRightBehindTheHello(t *testing.T) {
	d := newDirect(t, everyProtocol)
	r := d.open(frame.ALPN)
	r.write(frame.KindHello, 0, &frame.Hello{Version: 1, Agent: "a"})
	r.request(1, v1.PathJobs, `{}`)
	r.request(2, v1.PathJobs, `{}`)
	r.read(frame.KindHello)
	for range 2 {
		if _, a := r.answer(); a.Status != http.StatusOK {
			t.Errorf("%+v %s", a, a.Body)
		}
	}
}

// The token is in the hello. A stream is refused as over HTTP, in an answer with the id 0.
func TestTokenOfTheHello(t *testing.T) {
	d := newDirect(t, everyProtocol, func(c *Config) { c.Security.Mode = SecurityOn })
	head := d.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer), Types: []string{"mail"}})
	token := strings.TrimPrefix(head[1], "Bearer ")
	for _, one := range []struct {
		name, token string
		status      uint32
	}{
		{"none", "", http.StatusUnauthorized},
		{"a wrong one", token[:len(token)-1], http.StatusUnauthorized},
		{"a line of HTTP", "x\r\nHost: y", http.StatusUnauthorized},
		{"a right one", token, 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := d.open(frame.ALPN)
			r.t = t
			r.write(frame.KindHello, 0, &frame.Hello{Version: 1, Token: one.token})
			if one.status != 0 {
				if id, a := r.answer(); id != 0 || a.Status != one.status || !strings.Contains(string(a.Body), v1.TagUnauthorized) {
					t.Errorf("answered %d %+v %s", id, a, a.Body)
				}
				r.ended()
				return
			}
			r.read(frame.KindHello)
			r.request(1, v1.PathJobs, `{"type":"mail"}`)
			r.request(2, v1.PathJobs, `{"type":"other"}`)
			for range 2 {
				if id, a := r.answer(); a.Status != map[uint32]uint32{1: http.StatusOK, 2: http.StatusForbidden}[id] {
					t.Errorf("answered %d %+v %s", id, a, a.Body)
				}
			}
		})
	}
	c := d.client(func(cfg *client.Config) { cfg.Token = token })
	if _, err := c.Enqueue(t.Context(), client.NewJob{Type: "mail"}); err != nil {
		t.Error(err)
	}
	if v := d.opens.Load(); v == nil || *v != frame.ALPN {
		t.Errorf("the stream began with %v", v)
	}
}

// A client that does not begin with a hello, or not in time, is disconnected.
func TestFirstFramesThatAreNone(t *testing.T) {
	d := newDirect(t, everyProtocol, func(c *Config) {
		c.Timeouts = DefaultTimeouts()
		c.Timeouts.Header = 200 * time.Millisecond
	})
	request, _ := frame.Append(nil, frame.KindRequest, 1, &frame.Request{Target: v1.PathJobs, Body: []byte("{}")})
	hello, _ := frame.Append(nil, frame.KindHello, 0, &frame.Hello{Version: 1})
	long, _ := frame.Append(nil, frame.KindHello, 0, &frame.Hello{Version: 1, Token: strings.Repeat("x", frame.FirstMax)})
	for name, first := range map[string]string{
		"nothing":           "",
		"half a head":       string(hello[:4]),
		"half a hello":      string(hello[:len(hello)-1]),
		"a request":         string(request),
		"a large hello":     string(long),
		"no message":        string(append(frame.AppendHead(nil, frame.Head{Length: 1, Kind: frame.KindHello}), 0xff)),
		"a request of HTTP": "GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: osqueue-stream\r\n\r\n",
		"a preface of h2":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := d.open(frame.ALPN)
			r.t = t
			_, _ = io.WriteString(r.conn, first)
			r.ended()
		})
	}
	if n := d.streamsOpen(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

// The bound of the connections holds, and the client learns why it is refused.
func TestStreamsWithoutUpgradeCountAsConnections(t *testing.T) {
	d := newDirect(t, everyProtocol, func(c *Config) { c.MaxConnections, c.ConnectionsEach = 2, 2 })
	var last *rawStream
	for range 3 {
		last = d.open(frame.ALPN)
		last.write(frame.KindHello, 0, &frame.Hello{Version: 1})
	}
	if id, a := last.answer(); id != 0 || a.Status != http.StatusServiceUnavailable {
		t.Errorf("answered %d %+v %s", id, a, a.Body)
	}
	last.ended()
}

// A shutdown waits for the answers, and for no connection that says nothing.
func TestShutdownOfStreamsWithoutUpgrade(t *testing.T) {
	d := newDirect(t, everyProtocol)
	d.open(frame.ALPN)
	r := d.open(frame.ALPN)
	r.write(frame.KindHello, 0, &frame.Hello{Version: 1})
	r.request(1, v1.PathClaim, `{"workerId":"w","waitMs":20000}`)
	eventually(t, "the claim waits", func() bool { return d.inFlight() == 2 }) // the stream is one
	done := make(chan error, 1)
	go func() { done <- d.s.Shutdown(t.Context()) }()
	if id, a := r.answer(); id != 1 || a.Status != http.StatusServiceUnavailable {
		t.Errorf("answered %d %+v", id, a)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.ended()
}

// A follower relays such a stream.
func TestAFollowerRelaysAStreamWithoutUpgrade(t *testing.T) {
	p := newPair(t)
	d := newDirect(t, everyProtocol)
	d.node.set(func(f *fakeNode) { f.leader, f.lead = p.address, false })
	r := d.open(frame.ALPN)
	r.write(frame.KindHello, 0, &frame.Hello{Version: 1, Token: "osq_x_y"})
	r.read(frame.KindMoved)
	r.request(1, v1.PathJobs, `{}`)
	if id, a := r.answer(); id != 1 || a.Status != http.StatusOK {
		t.Errorf("answered %d %+v %s", id, a, a.Body)
	}
}
