package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"osqueue/internal/auth/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority makes a CA in a new directory.
func authority(t *testing.T) (*certs.Authority, string) {
	t.Helper()
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a, dir
}

// secured returns the security of a node with a certificate for a host.
func secured(t *testing.T, a *certs.Authority, dir, name, host string, plain bool) Security {
	t.Helper()
	if _, err := a.Issue(certs.Request{Kind: certs.Node, Name: name, Hosts: []string{host}, Lifetime: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	id, err := certs.Load(certs.Files{
		CA: filepath.Join(dir, certs.CAFile), Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Security{
		Accept: id.Server(tls.RequireAndVerifyClientCert, certs.VerifyNode, RaftProtocol, PeerProtocol),
		Dial: func(ctx context.Context, conn net.Conn, address, protocol string) (net.Conn, error) {
			return id.ToNode(ctx, conn, address, protocol)
		},
		Peer: func(state tls.ConnectionState) (Peer, bool) {
			s, ok := certs.PeerOf(&state)
			return Peer{Name: s.Name}, ok && s.Kind == certs.Node
		},
		Plain: plain,
	}
}

// serving opens a port whose peer calls answer "peer" and whose raft connections get "raft". Its
// HTTP address tells where the port is, unless silent.
func serving(t *testing.T, s Security, silent bool) (port *Port, address string) {
	t.Helper()
	opened, err := Listen("127.0.0.1:0", s, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	port = opened
	peers := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "peer") })}
	done := make(chan struct{}, 2)
	go func() { _ = peers.Serve(opened.Peers()); done <- struct{}{} }()
	go func() {
		for {
			c, err := opened.Raft().Accept()
			if err != nil {
				done <- struct{}{}
				return
			}
			_, _ = io.WriteString(c, "raft")
			_ = c.Close()
		}
	}()
	status := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/status":
			fmt.Fprint(w, "client port")
		case silent:
			fmt.Fprint(w, "{}")
		default:
			fmt.Fprintf(w, `{"node_address":%q}`, port.Addr())
		}
	}))
	t.Cleanup(func() {
		status.Close()
		_ = peers.Close()
		if err := port.Close(); err != nil {
			t.Error(err)
		}
		<-done
		<-done
	})
	return port, status.Listener.Addr().String()
}

// call makes a call of peers to the node with an HTTP address.
func call(t *testing.T, s Security, address string) (string, error) {
	t.Helper()
	d := NewDialer(DialerConfig{Security: s, StatusPath: "/status"})
	hc := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := hc.Get("http://" + address + "/cluster/v1/identity")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// raftAnswer connects to raft of a port.
func raftAnswer(s Security, port *Port) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := s.OpenRaft(ctx, port.Addr().String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte{0}); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

// Every combination of a caller and a node: only those that --security=off, log and on allow
// reach each other, on both protocols.
func TestWhoReachesTheNodePort(t *testing.T) {
	a, dir := authority(t)
	on := secured(t, a, dir, "n1", "127.0.0.1", false)
	log := secured(t, a, dir, "n2", "127.0.0.1", true)
	other, otherDir := authority(t)
	foreign := secured(t, other, otherDir, "n1", "127.0.0.1", false)
	for name, c := range map[string]struct {
		from, to Security
		reaches  bool
	}{
		"off to off":              {Security{}, Security{}, true},
		"off to log":              {Security{}, log, true},
		"log to off":              {log, Security{}, true},
		"log to on":               {log, on, true},
		"on to log":               {on, log, true},
		"on to on":                {on, on, true},
		"off to on":               {Security{}, on, false},
		"on to off":               {on, Security{}, false},
		"another CA to on":        {foreign, on, false},
		"on to another CA":        {on, foreign, false},
		"wrong host name to dial": {on, secured(t, a, dir, "n9", "192.0.2.1", false), false},
	} {
		t.Run(name, func(t *testing.T) {
			port, address := serving(t, c.to, false)
			if c.to.protected() || c.from.protected() { // the HTTP port of this test has no TLS
				d := c.from
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				conn, err := d.open(ctx, port.Addr().String(), PeerProtocol, begin)
				if err == nil {
					_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
					var text []byte
					if err == nil {
						text, err = io.ReadAll(conn)
					}
					if err == nil && !strings.HasSuffix(string(text), "peer") {
						err = fmt.Errorf("got %q", text)
					}
					_ = conn.Close()
				}
				if (err == nil) != c.reaches {
					t.Errorf("peers: %v", err)
				}
			} else if text, err := call(t, c.from, address); (err == nil && text == "peer") != c.reaches {
				t.Errorf("peers: %q, %v", text, err)
			}
			if text, err := raftAnswer(c.from, port); (err == nil && text == "raft") != c.reaches {
				t.Errorf("raft: %q, %v", text, err)
			}
		})
	}
}

// A server that names no node port is no node. A dial that fails forgets the place of the node.
func TestPlacesOfNodes(t *testing.T) {
	_, address := serving(t, Security{}, true)
	if _, err := call(t, Security{}, address); err == nil || !strings.Contains(err.Error(), "names no node port") {
		t.Errorf("got %v", err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { // it closes all connections
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	_, address = serving(t, Security{}, false)
	d := NewDialer(DialerConfig{StatusPath: "/status"})
	d.known[address] = place{address: other.Addr().String(), until: time.Now().Add(time.Hour)}
	if c, err := d.DialContext(t.Context(), "tcp", address); err == nil {
		_ = c.Close()
		t.Fatal("a server that does not answer the greeting was taken for a node")
	}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("the next dial: %v", err)
	}
	_ = c.Close()
}

// Many dials to an unknown node ask it once, and the question is not counted as the request for
// which the connection is made: a trace that says that it was sent would make its outcome unknown.
func TestQuestionsOfDials(t *testing.T) {
	const dials = 50
	var asked atomic.Int64
	var dialing sync.WaitGroup
	dialing.Add(dials)
	port, _ := serving(t, Security{}, false)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		dialing.Wait()
		fmt.Fprintf(w, `{"node_address":%q}`, port.Addr())
	}))
	defer node.Close()
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) }, GotFirstResponseByte: func() { sent.Store(true) },
	})
	d := NewDialer(DialerConfig{StatusPath: "/status"})
	var ended sync.WaitGroup
	for range dials {
		ended.Go(func() {
			dialing.Done()
			c, err := d.DialContext(ctx, "tcp", node.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		})
	}
	ended.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	if sent.Load() {
		t.Error("the trace of the request saw the question")
	}
}

// A node that may no longer have connections loses the open ones, and gets no new ones.
func TestNodesThatAreNotAllowed(t *testing.T) {
	a, dir := authority(t)
	n1, n2 := secured(t, a, dir, "n1", "127.0.0.1", false), secured(t, a, dir, "n2", "127.0.0.1", false)
	port, _ := serving(t, n1, false)
	c, err := n2.open(t.Context(), port.Addr().String(), PeerProtocol, begin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	port.Allow(func(p Peer) error {
		if p.Name == "n2" {
			return errors.New("revoked")
		}
		return nil
	})
	if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the open connection is not closed within 1s: %v", err)
	}
	if text, err := raftAnswer(n2, port); err == nil && text != "" {
		t.Errorf("a new connection gets %q", text)
	}
	if text, err := raftAnswer(n1, port); err != nil || text != "raft" {
		t.Errorf("another node gets %q, %v", text, err)
	}
}

// A client that sends nothing, and one that speaks HTTP, get no further.
func TestStrangersAtTheNodePort(t *testing.T) {
	port, _ := serving(t, Security{}, false)
	silent, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "osqueue-peer/2\n", "\x16\x03\x01", "\xff"} {
		c, err := net.Dial("tcp", port.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, text)
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("%q gets %q", text, got)
		}
		_ = c.Close()
	}
	_ = silent.SetDeadline(time.Now().Add(handshakeTimeout + 5*time.Second))
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a silent client: %v", err)
	}
}
