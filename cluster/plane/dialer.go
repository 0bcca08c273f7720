package plane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"osqueue/internal/web"
)

// Dialer connects to the calls of peers of nodes that are known by their HTTP address. It asks
// each node once where its port for nodes is. It is safe for concurrent use.
type Dialer struct {
	cfg    DialerConfig
	client *http.Client
	asking singleflight.Group // by HTTP address

	mu    sync.Mutex
	known map[string]place // by HTTP address
}

// DialerConfig configures a Dialer.
type DialerConfig struct {
	Security Security
	// StatusPath is the path at the HTTP port that answers with the field node_address.
	StatusPath string
}

// place is where a node answers the calls of peers, and until when the dialer believes it.
type place struct {
	address string
	until   time.Time
}

const (
	believe  = time.Hour
	knownMax = 256
)

// NewDialer returns a dialer.
func NewDialer(cfg DialerConfig) *Dialer {
	d := &Dialer{cfg: cfg, known: make(map[string]place)}
	d.client = &http.Client{
		Timeout:   dialTimeout,
		Transport: &http.Transport{DialContext: d.openHTTP, DisableKeepAlives: true},
		// A node answers by itself.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d
}

// DialContext connects to the peer calls of the node with an HTTP address.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	p, err := d.locate(address)
	if err != nil {
		return nil, err
	}
	c, err := d.cfg.Security.open(ctx, p.address, PeerProtocol, begin)
	if err != nil {
		d.forget(address)
		return nil, fmt.Errorf("the node port %s of %s: %w", p.address, address, err)
	}
	return c, nil
}

// begin greets a node without TLS.
func begin(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, peerGreeting); err != nil {
		return err
	}
	if err := hear(c); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// openHTTP connects to the HTTP port of a node.
func (d *Dialer) openHTTP(ctx context.Context, _, address string) (net.Conn, error) {
	return d.cfg.Security.open(ctx, address, "http/1.1", func(net.Conn) error { return nil })
}

func (d *Dialer) forget(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, address)
}

// locate returns where a node answers the calls of peers, within dialTimeout. Callers of an
// unknown node wait for one question: thousands of clients may be connecting through this node.
func (d *Dialer) locate(address string) (place, error) {
	d.mu.Lock()
	p, ok := d.known[address]
	d.mu.Unlock()
	if ok && time.Now().Before(p.until) {
		return p, nil
	}
	found, err, _ := d.asking.Do(address, func() (any, error) { return d.learn(address) })
	if err != nil {
		return place{}, err
	}
	return found.(place), nil
}

// learn asks a node where it answers the calls of peers, and remembers the place.
func (d *Dialer) learn(address string) (place, error) {
	at, err := d.ask(address)
	if err != nil {
		return place{}, err
	}
	if at == "" {
		return place{}, fmt.Errorf("the status of %s names no node port (node_address): is it a node of this cluster?", address)
	}
	p := place{address: at, until: time.Now().Add(believe)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= knownMax {
		clear(d.known)
	}
	d.known[address] = p
	return p, nil
}

// statusMax bounds the answer of a node, in bytes.
const statusMax = 1 << 20

// ask asks the node at an HTTP address for the address of its port for nodes. The context is
// not that of the caller: its httptrace hooks would take this request for the caller's own.
func (d *Dialer) ask(address string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+d.cfg.StatusPath, nil)
	if err != nil {
		return "", err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		var failed *url.Error // its URL has http, although the connection may have TLS
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", fmt.Errorf("read the node port from the status of %s: %w", address, err)
	}
	defer resp.Body.Close()
	var status struct {
		NodeAddress string `json:"node_address"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, statusMax))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err != nil {
		return "", fmt.Errorf("the status of the node at %s: %w", address, err)
	}
	return status.NodeAddress, nil
}

// The ALPN names of the protocols between nodes.
const (
	RaftProtocol = "osqueue-raft/1"
	PeerProtocol = "osqueue-peer/1"
)

// Security protects the connections between nodes. The zero value protects nothing.
type Security struct {
	// Accept is the configuration of incoming connections. It must require a certificate of a
	// node, and offer both protocols. Nil means plain TCP.
	Accept *tls.Config
	// Peer returns the node that has opened a connection. It is required with Accept.
	Peer func(tls.ConnectionState) (p Peer, ok bool)
	// Dial returns a protected connection over conn to the node at address, for a protocol of
	// ALPN. It closes conn if that fails. It is required with Accept.
	Dial func(ctx context.Context, conn net.Conn, address, protocol string) (net.Conn, error)
	// Plain allows connections without TLS in addition, while a cluster gets certificates.
	Plain bool
	// Fallback, unless nil, is called when a node could not be reached with TLS and is dialed
	// without it.
	Fallback func(address string, err error)
	// Network is that of the nodes.
	Network web.Network
}

// protected reports whether nodes have certificates.
func (s *Security) protected() bool { return s.Accept != nil }

const (
	dialTimeout    = 2 * time.Second
	keepAliveEvery = 15 * time.Second
)

// open connects to a node, and makes the connection one of the protocol.
func (s *Security) open(ctx context.Context, address, protocol string, begin func(net.Conn) error) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveEvery}
	c, err := s.Network.Dial(ctx, dialer, "tcp", address)
	if err != nil {
		return nil, err
	}
	if s.protected() {
		secured, err := s.Dial(ctx, c, address, protocol)
		if err == nil || !s.Plain || ctx.Err() != nil {
			return secured, err
		}
		if s.Fallback != nil {
			s.Fallback(address, err)
		}
		if c, err = s.Network.Dial(ctx, dialer, "tcp", address); err != nil {
			return nil, err
		}
	}
	if err := begin(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// OpenRaft connects to raft of the node at a raft address.
func (s *Security) OpenRaft(ctx context.Context, address string) (net.Conn, error) {
	return s.open(ctx, address, RaftProtocol, func(net.Conn) error { return nil })
}
