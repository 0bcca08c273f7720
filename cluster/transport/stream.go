package transport

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/plane"
	"osqueue/internal/limit"
)

// inboundMax bounds the connections from other nodes. A node needs about four; further
// connections are closed at once.
const inboundMax = 128

// stream is raft's TCP layer. Unlike raft's own one it advertises the address as the
// operator gave it: the IP address of a container changes when it restarts, its name does
// not. It also bounds the connections that it accepts, and closes them when it is closed.
type stream struct {
	net.Listener // of raft's connections of port
	port         *plane.Port
	advertise    streamAddr
	budget       *limit.Budget // of the requests of all connections

	mu      sync.Mutex
	inbound map[*inboundConn]struct{} // nil once closed
}

type streamAddr string

// Network implements net.Addr.
func (streamAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a streamAddr) String() string { return string(a) }

// New returns the transport over the port of a node, which it owns. The other nodes dial
// advertise; "" is the address on which the port listens.
func New(port *plane.Port, advertise string, log hclog.Logger) Transport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newStream(port, advertise),
		// With more than one, replication hangs after a failed append on a follower. Group
		// commit makes up for the lost throughput.
		MaxRPCsInFlight: 1,
		MaxPool:         connPool,
		Timeout:         ConnTimeout,
		Logger:          NewLogger(log),
	})
}

// ConnTimeout is the deadline of a request of ordinary size.
const ConnTimeout = 5 * time.Second

// connPool is the number of idle connections that are kept to each node.
const connPool = 3

func newStream(port *plane.Port, advertise string) *stream {
	return &stream{
		Listener: port.Raft(), port: port, advertise: streamAddr(cmp.Or(advertise, port.Addr().String())),
		budget: limit.NewBudget(inboundBytes), inbound: make(map[*inboundConn]struct{}),
	}
}

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := s.admit(c); in != nil {
			return in, nil
		}
		_ = c.Close() // too many connections; the peer dials again
	}
}

func (s *stream) admit(c net.Conn) *inboundConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inbound == nil || len(s.inbound) >= inboundMax {
		return nil
	}
	in := &inboundConn{Conn: c, stream: s, held: s.budget.Hold(), in: message{from: plane.NodeOf(c)}}
	s.inbound[in] = struct{}{}
	return in
}

// Close implements net.Listener; it closes the port and ends the accepted connections too.
func (s *stream) Close() error {
	err := s.port.Close()
	s.mu.Lock()
	inbound := s.inbound
	s.inbound = nil
	s.mu.Unlock()
	for in := range inbound {
		_ = in.Conn.Close() // it may be closed already
	}
	return err
}

// Addr implements net.Listener with the address that the others dial.
func (s *stream) Addr() net.Addr { return s.advertise }

// Dial implements raft.StreamLayer.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := s.port.Security().OpenRaft(ctx, string(address))
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: c}, nil
}

// pacedConn is a connection to another node whose deadline follows the size of the
// request. The deadline moves on with each part that the connection takes, so that a
// large request does not time out while it makes progress. The answer has more time
// after a large request: the parts may wait in buffers of the network, where progress
// cannot be seen. One goroutine uses it at a time.
type pacedConn struct {
	net.Conn
	patience time.Duration // from the last progress; 0: the deadline stays as it is
	written  int           // bytes since SetDeadline
}

const (
	// pacedBytes must be taken within the connection's patience.
	pacedBytes = 256 << 10
	// slowestLink is the rate, in bytes a second, at which requests may travel.
	slowestLink = 64 << 10
)

// SetDeadline implements net.Conn.
func (c *pacedConn) SetDeadline(t time.Time) error {
	c.patience, c.written = 0, 0
	if d := time.Until(t); !t.IsZero() && d <= ConnTimeout { // raft reckons with the size of a snapshot
		c.patience = max(d, time.Millisecond)
	}
	return c.Conn.SetDeadline(t)
}

// Write implements net.Conn. It sets the deadline of the answer, too.
func (c *pacedConn) Write(p []byte) (n int, err error) {
	for first := true; first || n < len(p); first = false {
		if c.patience > 0 {
			if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
				return n, err
			}
		}
		m, err := c.Conn.Write(p[n:min(len(p), n+pacedBytes)])
		n += m
		c.written += m
		if err != nil {
			return n, err
		}
	}
	if c.patience > 0 {
		travel := time.Duration(c.written) * time.Second / slowestLink
		err = c.SetReadDeadline(time.Now().Add(c.patience + travel))
	}
	return n, err
}

// The bounds of the requests of other nodes.
const (
	// freeBytes is the part of a request that takes nothing of the budget, so that a
	// stranger who uses up the budget does not stop heartbeats and ordinary entries.
	freeBytes = 256 << 10
	// inboundBytes is the budget of all connections for the rest of their requests.
	inboundBytes = 24 << 20
	// requestPatience is the time for a request of ordinary size to arrive, once it has
	// begun. Larger requests have time in proportion.
	requestPatience = 2 * ConnTimeout
	// snapshotPatience is added for the bytes of a snapshot: its sender may have to read
	// them from the bucket first.
	snapshotPatience = 50 * time.Second
)

// inboundConn is an accepted connection. It refuses requests that are too large or too
// slow, and removes itself from its stream when it is closed. One goroutine uses it at a
// time: raft reads a request, answers it and reads the next one.
type inboundConn struct {
	net.Conn
	stream *stream
	in     message
	held   limit.Hold
	began  time.Time // of the request that arrives
	bytes  int64     // of the request that arrives, with those of a snapshot
}

// Read implements net.Conn. It fails if a request does not arrive at the rate of the
// slowest link. Between requests it waits without limit.
func (c *inboundConn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	if c.bytes == 0 {
		c.began = time.Now()
	}
	c.bytes += int64(n)
	if over := c.in.read(p[:n]); over != nil {
		return 0, over
	}
	if over := c.count(); over != nil {
		return 0, over
	}
	return n, err
}

// deadline returns the time until which the next bytes must arrive.
func (c *inboundConn) deadline() time.Time {
	if c.bytes == 0 || !c.in.under() {
		return time.Time{}
	}
	patience := requestPatience
	if c.in.raw {
		patience += snapshotPatience
	}
	return c.began.Add(patience + time.Duration(c.bytes/slowestLink)*time.Second)
}

// count takes the bytes of the request from the budget. The bytes of a snapshot go to the
// disk.
func (c *inboundConn) count() error {
	if more := c.in.bytes - freeBytes - c.held.Taken(); more > 0 {
		return c.held.Take(int(more))
	}
	return nil
}

// Write implements net.Conn. Raft writes an answer when it has handled the request.
func (c *inboundConn) Write(p []byte) (int, error) {
	if c.in.raw {
		c.in.answered()
	}
	c.held.Release()
	c.bytes = 0
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *inboundConn) Close() error {
	c.held.Release()
	c.stream.mu.Lock()
	delete(c.stream.inbound, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}
