package hooks

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"osqueue/fsm"
)

// nameServer answers questions for IPv4 addresses by hand, and counts them.
type nameServer struct {
	net.PacketConn
	asked   atomic.Int64
	answers func(question int64) []netip.Addr
}

func newNameServer(t *testing.T, answers func(question int64) []netip.Addr) (*nameServer, *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{PacketConn: conn, answers: answers}
	done := make(chan struct{})
	go func() { defer close(done); s.serve() }()
	asking := &askers{to: conn.LocalAddr().String()}
	t.Cleanup(func() { asking.end(); _ = conn.Close(); <-done })
	return s, &net.Resolver{PreferGo: true, Dial: asking.dial}
}

// askers are the connections of a resolver. It repeats a question even after its caller has gone.
type askers struct {
	to string

	mu    sync.Mutex
	open  []net.Conn
	ended bool
}

func (a *askers) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, net.ErrClosed
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", a.to)
	if err == nil {
		a.open = append(a.open, c)
	}
	return c, err
}

// end lets all questions fail.
func (a *askers) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, c := range a.open {
		_ = c.Close()
	}
}

func (s *nameServer) serve() {
	buf := make([]byte, 512)
	for {
		n, from, err := s.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		if q.Type == dnsmessage.TypeA {
			for _, addr := range s.answers(s.asked.Add(1)) {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: addr.As4()},
				})
			}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = s.WriteTo(out, from)
		}
	}
}

// A name that is public when it is looked up once, and points to the loopback the next time, or
// that has addresses of both kinds, leads a webhook to no receiver inside.
func TestNamesThatChange(t *testing.T) {
	t.Parallel()
	// At the allowed one no server answers, and a dial fails at once: one that hangs outlives the test.
	public, inside := netip.MustParseAddr("127.9.9.9"), netip.MustParseAddr("127.0.0.1")
	r := newReceiver(t, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	for name, answers := range map[string]func(int64) []netip.Addr{
		"rebound": func(question int64) []netip.Addr {
			if question%2 == 1 {
				return []netip.Addr{public}
			}
			return []netip.Addr{inside}
		},
		"both":   func(int64) []netip.Addr { return []netip.Addr{public, inside} },
		"inside": func(int64) []netip.Addr { return []netip.Addr{inside} },
	} {
		s, resolver := newNameServer(t, answers)
		n := newFake(t)
		n.put(t, hookMutation("h", "http://hook.example:"+port+"/", nil), testEvent("h"), testEvent("h"), testEvent("h"), testEvent("h"))
		sender, stop := start(t, n, Config{
			Resolver: resolver, Timeout: 200 * time.Millisecond,
			Allow: []netip.Prefix{netip.PrefixFrom(public, 32)},
		})
		n.await(t, name+": a failure", func(v *fsm.View) bool { return v.Hook("h").FailingSinceMs != 0 })
		for s.asked.Load() < 4 || len(sender.Attempts("h")) < 4 {
			time.Sleep(time.Millisecond) // an attempt with the error of the last one changes no state
		}
		stop()
		for _, a := range sender.Attempts("h") {
			if a.Status != 0 || a.Error == "" {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
	if ids, _ := r.count(); ids != 0 {
		t.Errorf("%d deliveries arrived inside", ids)
	}
}

// A URL whose name has no allowed address is known when the hook is made.
func TestUnreachable(t *testing.T) {
	_, resolver := newNameServer(t, func(int64) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.2.3")} })
	s := New(Config{Resolver: resolver, Allow: prefixes("127.0.0.0/8")})
	for url, want := range map[string]string{
		"http://127.0.0.1:9/x":       "",
		"https://93.184.216.34/":     "",
		"http://192.168.1.1/":        "--hook-allow",
		"https://receiver.test/hook": "10.1.2.3: the address is not public",
	} {
		if err := s.Unreachable(t.Context(), url); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
