package link

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// world is a network in which n1 and n2 are processes, each with an echo server
// behind a port, and one of the test itself, called "here".
type world struct {
	t      *testing.T
	net    *Net
	base   string // first three bytes of the addresses
	n1, n2 *peer
}

var bases atomic.Uint32

// freshBase gives addresses that no other test of this machine uses; those of
// tests/cluster begin with other numbers.
func freshBase() string {
	n := uint32(os.Getpid())*8 + bases.Add(1)
	return fmt.Sprintf("127.%d.%d", 251+(n>>8)%4, n%256)
}

func newNet(t *testing.T) *Net {
	n := New()
	t.Cleanup(n.Close)
	return n
}

func (w *world) port(owner string) string { return w.base + "." + owner[1:] + ":7000" }

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: newNet(t), base: freshBase()}
	for _, name := range []string{"n1", "n2"} {
		private := w.base + ".10" + name[1:] + ":7000"
		if err := w.net.Listen(name, Raft, w.port(name), private); err != nil {
			t.Fatal(err)
		}
		p := startPeer(t, w.net, name, private)
		if name == "n1" {
			w.n1 = p
		} else {
			w.n2 = p
		}
	}
	return w
}

// here starts an echo server of the test behind a port of a network of its own, and
// returns the port's address.
func here(t *testing.T, n *Net) string {
	t.Helper()
	base := freshBase()
	l, err := net.Listen("tcp4", base+".101:7000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go echo(l)
	if err := n.Listen("here", HTTP, base+".1:7000", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return base + ".1:7000"
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dialInVain expects a reset, which may come before the dialer sees its connection.
func dialInVain(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp4", addr)
	if err == nil {
		defer c.Close()
		hear(t, c, broken)
	} else if outcome(err) != broken {
		t.Fatal(err)
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	d := 5 * time.Second
	if want == silence {
		d = 150 * time.Millisecond
	}
	if got := receive(c, d); got != want {
		t.Fatalf("heard %q, want %q", got, want)
	}
}

func wantCount(t *testing.T, what string, got, want Count) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// eventually waits for an effect of other goroutines.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

var toHere, fromHere = Link{Client, "here", HTTP}, Link{"here", Client, HTTP}

func TestConnectionsAreKnownByWhoDialed(t *testing.T) {
	w := newWorld(t)
	w.n1.do("open a %s", w.port("n2"))
	w.n1.do("send a 12345")
	w.n1.hears("a", "12345")
	w.n2.do("open b %s", w.port("n1"))
	w.n2.do("send b 123")
	w.n2.hears("b", "123")
	c := dial(t, w.port("n1"))
	say(t, c, "1234567")
	hear(t, c, "1234567")
	for link, passed := range map[Link]int64{
		{"n1", "n2", Raft}:   5 + 3, // its question, and its answer on the other's connection
		{"n2", "n1", Raft}:   5 + 3,
		{Client, "n1", Raft}: 7,
		{"n1", Client, Raft}: 7,
		{"", "", ""}:         30,
		{"n1", "", ""}:       15,
		{"", "", HTTP}:       0,
	} {
		eventually(t, fmt.Sprintf("%d bytes on %v, %v", passed, link, w.net.Count(link)), func() bool {
			return w.net.Count(link) == Count{Passed: passed}
		})
	}
}

// A process that replaces another one has its name from the first connection on.
func TestAProcessIsKnownFromItsFirstConnection(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	const rounds = 20
	for i := range rounds {
		p := startPeer(t, n, "n1", freshBase()+".1:7000")
		p.do("open a %s", addr)
		p.do("send a x")
		p.hears("a", "x")
		eventually(t, fmt.Sprintf("process %d to be known; all: %v", i, n.Count()), func() bool {
			return n.Count(Link{From: "n1"}).Passed == int64(i+1)
		})
	}
}

func TestCutOfOneDirectionWhoeverDialed(t *testing.T) {
	w := newWorld(t)
	w.n1.do("open a %s", w.port("n2"))
	w.n2.do("open b %s", w.port("n1"))
	for _, p := range []struct {
		*peer
		id string
	}{{w.n1, "a"}, {w.n2, "b"}} {
		p.do("send %s before", p.id)
		p.hears(p.id, "before")
	}
	f := w.net.Impose(Condition{Cut: true}, Link{From: "n1", To: "n2"})
	w.n1.do("send a question") // is withheld
	w.n2.do("send b query")    // arrives, and its answer is withheld
	w.n1.hears("a", silence)
	w.n2.hears("b", silence)
	wantCount(t, "n1→n2 while it is cut", w.net.Count(Link{From: "n1", To: "n2"}).Minus(Count{Passed: 12}), Count{Withheld: 13})
	wantCount(t, "n2→n1 meanwhile", w.net.Count(Link{From: "n2", To: "n1"}).Minus(Count{Passed: 12}), Count{Passed: 5})
	// Others are not concerned.
	c := dial(t, w.port("n2"))
	say(t, c, "client")
	hear(t, c, "client")

	f.Heal()
	w.n1.hears("a", "question")
	w.n2.hears("b", "query")
	wantCount(t, "the fault", f.Count(), Count{Withheld: 13})
	if got := f.String(); got != "cut: n1→n2" {
		t.Errorf("the fault is called %q", got)
	}
}

func TestCutOfBothDirections(t *testing.T) {
	w := newWorld(t)
	w.n1.do("open a %s", w.port("n2"))
	w.n1.do("send a before")
	w.n1.hears("a", "before")
	f := w.net.Impose(Condition{Cut: true}, Both("n1", "n2")...)
	w.n1.do("send a one")
	w.n1.hears("a", silence)
	w.n1.do("open new %s", w.port("n2"))
	w.n1.do("send new two")
	w.n1.hears("new", silence)
	wantCount(t, "the cut", f.Count(), Count{Withheld: 6, Held: 1})
	w.net.Heal()
	w.n1.hears("a", "one")
	w.n1.hears("new", "two")
}

func TestCutOfOneService(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	other := n.Impose(Condition{Cut: true}, Both(Client, "here", Raft, Bucket)...)
	say(t, c, "passes")
	hear(t, c, "passes")
	if other.Count().Harmed() {
		t.Errorf("a cut of other services has done something: %v", other.Count())
	}
	n.Impose(Condition{Cut: true}, Both(Client, "here", HTTP)...)
	say(t, c, "does not")
	hear(t, c, silence)
}

// TestDialedDuringACutAndGivenUp: a request must not arrive after its client has given
// up: there would never have been a connection.
func TestDialedDuringACutAndGivenUp(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	f := n.Impose(Condition{Cut: true}, Both(Client, "here")...)
	c := dial(t, addr)
	say(t, c, "late")
	eventually(t, "the bytes to be withheld", func() bool { return f.Count() == Count{Withheld: 4, Held: 1} })
	_ = c.Close()
	eventually(t, "the connection to be dropped", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.conns) == 0
	})
	f.Heal()
	c = dial(t, addr)
	say(t, c, "new")
	hear(t, c, "new")
	if got := n.Count(toHere).Passed; got != 3 {
		t.Errorf("%d bytes arrived, want the 3 of the new connection", got)
	}
}

// The end of a connection is withheld as its bytes are.
func TestTheEndIsWithheldToo(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	say(t, c, "x")
	hear(t, c, "x")
	f := n.Impose(Condition{Cut: true}, fromHere)
	_ = c.(*net.TCPConn).CloseWrite() // the echo server closes, too
	hear(t, c, silence)
	f.Heal()
	hear(t, c, over)
}

func TestDelayKeepsOrderAndThroughput(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	say(t, c, "x")
	hear(t, c, "x")
	const delay = 100 * time.Millisecond
	f := n.Impose(Condition{Delay: delay, Jitter: 20 * time.Millisecond}, toHere)
	began := time.Now()
	say(t, c, "y")
	hear(t, c, "y")
	if took := time.Since(began); took < delay {
		t.Errorf("a byte took %v with a delay of %v", took, delay)
	}
	// One piece after the other would take 100 ms each; a line holds many.
	const size = 2 << 20
	sent := make([]byte, size)
	began = time.Now()
	go func() { _, _ = c.Write(sent) }()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(began), size/pieceMax*delay; took > least/4 {
		t.Errorf("%d bytes took %v: the delay is no line", size, took)
	}
	if got := f.Count(); got.Delayed < size+1 || got.Withheld != 0 {
		t.Errorf("%v; want all of them delayed", got)
	}
	f.Heal()
	before := n.Count().Delayed
	say(t, c, "z")
	hear(t, c, "z")
	if after := n.Count().Delayed; after != before {
		t.Error("bytes are delayed after healing")
	}
}

func TestHealingEndsALongDelay(t *testing.T) {
	n := newNet(t)
	c := dial(t, here(t, n))
	f := n.Impose(Condition{Delay: time.Hour}, toHere)
	say(t, c, "x")
	hear(t, c, silence)
	f.Heal()
	hear(t, c, "x")
}

func TestThrottleIsSharedByConnections(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	a, b := dial(t, addr), dial(t, addr)
	const rate, size = 100_000, 20_000
	f := n.Impose(Condition{Rate: rate}, toHere)
	began := time.Now()
	done := make(chan error, 2)
	for _, c := range []net.Conn{a, b} {
		go func() {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Write(make([]byte, size)); err != nil {
				done <- err
				return
			}
			_, err := io.ReadFull(c, make([]byte, size))
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	// The first and the last piece need not wait for their own time.
	if took, least := time.Since(began), (2*size-2*rate/20)*time.Second/rate; took < least {
		t.Errorf("%d bytes took %v at %d B/s, want %v at least", 2*size, took, rate, least)
	}
	if f.Count().Delayed == 0 {
		t.Error("nothing was delayed")
	}
	f.Heal()
	before := n.Count().Delayed
	say(t, a, "x")
	hear(t, a, "x")
	if after := n.Count().Delayed; after != before {
		t.Error("bytes are delayed after healing")
	}
}

func TestResetEndsPresentAndNewConnections(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	say(t, c, "x")
	hear(t, c, "x")
	f := n.Impose(Condition{Reset: true}, toHere)
	hear(t, c, broken)
	dialInVain(t, addr)
	eventually(t, "one reset and one refused connection", func() bool { return f.Count() == Count{Reset: 1, Refused: 1} })
	f.Heal()
	c = dial(t, addr)
	say(t, c, "y")
	hear(t, c, "y")
}

func TestFaultsAddUpAndHealByThemselves(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	first := n.Impose(Condition{Cut: true}, toHere)
	second := n.Impose(Condition{Cut: true}, Link{})
	say(t, c, "x")
	hear(t, c, silence)
	first.Heal()
	first.Heal()
	hear(t, c, silence)
	second.Heal()
	hear(t, c, "x")
	for _, f := range []*Fault{first, second} {
		if f.Count().Withheld != 1 {
			t.Errorf("%v: %v", f, f.Count())
		}
	}
}

// TestBuffersAreBounded: a sender whose peer does not read waits, as it would behind a
// full window.
func TestBuffersAreBounded(t *testing.T) {
	n := newNet(t)
	c := dial(t, here(t, n))
	f := n.Impose(Condition{Cut: true}, Both(Client, "here")...)
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	const most = 64 << 20
	sent, err := c.Write(make([]byte, most))
	if outcome(err) != silence {
		t.Fatalf("%d of %d bytes were taken: %v", sent, most, err)
	}
	if got := f.Count().Withheld; got < queueBytes || got > queueBytes+2*pieceMax {
		t.Errorf("%d bytes are kept, the bound is %d", got, queueBytes)
	}
	f.Heal()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, sent)); err != nil {
		t.Errorf("what was sent does not come back: %v", err)
	}
}

func TestATargetThatIsNotThere(t *testing.T) {
	n := newNet(t)
	base := freshBase()
	if err := n.Listen("gone", HTTP, base+".1:7000", base+".101:7000"); err != nil {
		t.Fatal(err)
	}
	dialInVain(t, base+".1:7000")
	if got := n.Count(); got != (Count{Absent: 1}) || got.Harmed() {
		t.Errorf("%v; want one in vain, and no harm by the links", got)
	}
}

// The other side detects that a process was killed, although a proxy is between.
func TestTheEndOfAProcessIsSeen(t *testing.T) {
	w := newWorld(t)
	w.n1.do("open a %s", w.port("n2"))
	w.n1.do("send a x")
	w.n1.hears("a", "x")
	_ = w.n2.cmd.Process.Kill()
	if got := w.n1.tell("receive a 5s"); got != over && got != broken {
		t.Errorf("after the other's end: %q", got)
	}
}

// A fault has not hit because another has.
func TestAFaultHitsByItself(t *testing.T) {
	n := newNet(t)
	c := dial(t, here(t, n))
	slow := n.Impose(Condition{Delay: time.Hour}, fromHere)
	cut := n.Impose(Condition{Cut: true}, toHere)
	reset := n.Impose(Condition{Reset: true}, Link{Service: Raft})
	say(t, c, "x")
	eventually(t, "the cut to hit", cut.Hit)
	if slow.Hit() || reset.Hit() {
		t.Errorf("%v: %v; %v: %v", slow, slow.Count(), reset, reset.Count())
	}
}

func TestConditionsAddUp(t *testing.T) {
	for _, c := range []struct{ a, b, want Condition }{
		{Condition{Cut: true}, Condition{Delay: 1}, Condition{Cut: true, Delay: 1}},
		{Condition{Reset: true}, Condition{Rate: 2}, Condition{Reset: true, Rate: 2}},
		{Condition{Rate: 3}, Condition{Rate: 2}, Condition{Rate: 2}},
		{Condition{Delay: 1, Jitter: 2}, Condition{Delay: 3, Jitter: 4}, Condition{Delay: 4, Jitter: 6}},
	} {
		if got := c.a.and(c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
		if got := c.b.and(c.a); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.b, c.a, got, c.want)
		}
	}
}

func TestBetween(t *testing.T) {
	var names []string
	for _, l := range Between([]string{"a", "b"}, []string{"c"}) {
		names = append(names, l.String())
	}
	if got, want := strings.Join(names, " "), "a→c c→a b→c c→b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
