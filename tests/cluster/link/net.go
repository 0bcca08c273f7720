package link

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Net is a network of ports. Its methods are safe for concurrent use.
type Net struct {
	owners owners
	wg     sync.WaitGroup

	mu     sync.Mutex
	ports  []net.Listener
	lanes  map[Link]*lane
	faults []*Fault
	conns  map[*conn]bool
	sent   []*record // newest last
	closed bool
}

// New makes a network without ports.
func New() *Net {
	return &Net{
		owners: owners{pids: make(map[int]string)},
		lanes:  make(map[Link]*lane),
		conns:  make(map[*conn]bool),
	}
}

// Close ends all ports and connections, and waits for that.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	for _, p := range n.ports {
		_ = p.Close()
	}
	for c := range n.conns {
		c.abort()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

// Start starts a process whose connections are known as those of name from its first
// one. A name may have several processes, one after the other or at once. Processes that
// the process starts are not known.
func (n *Net) Start(name string, cmd *exec.Cmd) error { return n.owners.start(name, cmd) }

// Listen opens a port: connections to listen (host:port of IPv4) reach target, which
// belongs to owner. The target need not be open yet.
func (n *Net) Listen(owner string, s Service, listen, target string) error {
	l, err := net.Listen("tcp4", listen)
	if err != nil {
		return fmt.Errorf("port of %s for %s: %w", owner, s, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = l.Close()
		return net.ErrClosed
	}
	n.ports = append(n.ports, l)
	n.wg.Go(func() { n.serve(l, owner, s, target) })
	return nil
}

// acceptPause is how long a port rests after it could not accept.
const acceptPause = 10 * time.Millisecond

func (n *Net) serve(l net.Listener, owner string, s Service, target string) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause) // out of files: some will be closed
			continue
		}
		n.wg.Go(func() { n.carry(c.(*net.TCPConn), owner, s, target) })
	}
}

// carry takes a connection through.
func (n *Net) carry(dialer *net.TCPConn, owner string, s Service, target string) {
	name, ok := n.owners.dialer(dialer)
	if !ok {
		_ = dialer.Close() // its dialer has closed it before it was known
		return
	}
	c := n.admit(dialer, Link{name, owner, s})
	if c == nil {
		return
	}
	defer n.dismiss(c)
	c.sent = n.record(Link{name, owner, s}, target)
	c.run(target)
}

// admit makes a connection of it, unless a reset is in force.
func (n *Net) admit(dialer *net.TCPConn, link Link) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	up := n.laneLocked(link)
	down := n.laneLocked(Link{link.To, link.From, link.Service})
	c := newConn(dialer, up, down)
	refused := false
	for _, l := range []*lane{up, down} {
		if l.effect.Load().Reset {
			l.refused.Add(1)
			refused = true
		}
	}
	if refused || n.closed {
		c.abort()
		return nil
	}
	n.conns[c] = true
	return c
}

func (n *Net) dismiss(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func (n *Net) laneLocked(link Link) *lane {
	l := n.lanes[link]
	if l == nil {
		l = newLane(link, n.conditionLocked(link))
		n.lanes[link] = l
	}
	return l
}

// conditionLocked returns the condition of a link under all faults together.
func (n *Net) conditionLocked(link Link) Condition {
	var c Condition
	for _, f := range n.faults {
		if anyCovers(f.links, link) {
			c = c.and(f.cond)
		}
	}
	return c
}

// Impose puts a condition on links, in addition to others, until the fault is
// healed.
func (n *Net) Impose(c Condition, links ...Link) *Fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := &Fault{net: n, cond: c, links: slices.Clone(links), before: make(map[*lane]Count)}
	for _, l := range n.lanes {
		f.before[l] = l.read()
	}
	n.faults = append(n.faults, f)
	n.refreshLocked()
	if c.Reset {
		n.resetLocked(links)
	}
	return f
}

// resetLocked ends the connections that have such a direction.
func (n *Net) resetLocked(links []Link) {
	for c := range n.conns {
		hit := false
		for _, l := range []*lane{c.up.lane, c.down.lane} {
			if anyCovers(links, l.link) {
				l.reset.Add(1)
				hit = true
			}
		}
		if hit {
			c.abort()
			delete(n.conns, c) // it is counted once
		}
	}
}

// Heal heals all faults.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range slices.Clone(n.faults) {
		n.healLocked(f)
	}
}

func (n *Net) healLocked(f *Fault) {
	i := slices.Index(n.faults, f)
	if i < 0 {
		return
	}
	count := f.countLocked()
	f.healed = &count
	n.faults = slices.Delete(n.faults, i, i+1)
	n.refreshLocked()
}

func (n *Net) refreshLocked() {
	for link, l := range n.lanes {
		l.set(n.conditionLocked(link))
	}
}

// Count returns the counts of these links, all if none are named, since New.
func (n *Net) Count(links ...Link) Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum Count
	for link, l := range n.lanes {
		if len(links) == 0 || anyCovers(links, link) {
			sum = sum.plus(l.read())
		}
	}
	return sum
}
