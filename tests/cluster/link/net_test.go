package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// callEnv makes this test binary a process that sends a byte to that address, and wants it back.
const callEnv = "OSQUEUE_LINK_CALL"

func TestMain(m *testing.M) {
	if addr := os.Getenv(callEnv); addr != "" {
		c, err := net.Dial("tcp4", addr)
		if err == nil {
			_, err = io.WriteString(c, "x")
		}
		if err != nil || receive(c, 5*time.Second) != "x" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// receive returns the bytes that arrive within d, or the reason why none does.
func receive(c net.Conn, d time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(d))
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil {
		return outcome(err)
	}
	return string(buf[:n])
}

const (
	silence = "silence"
	broken  = "reset"
	over    = "end"
)

func outcome(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silence
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return broken
	case errors.Is(err, io.EOF):
		return over
	}
	return err.Error()
}

// echo echoes the bytes of every connection.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
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

// A process that replaces another one has its name from the first connection on.
func TestAProcessIsKnownFromItsFirstConnection(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), callEnv+"="+addr, "GORACE=atexit_sleep_ms=0")
		if err := n.Start("n1", cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("process %d to be known; all: %v", i, n.Count()), func() bool {
			return n.Count(Link{From: "n1", To: "here"}).Passed == int64(i+1) && n.Count(Link{From: "here", To: "n1"}).Passed == int64(i+1)
		})
	}
}

func TestCutOfOneDirection(t *testing.T) {
	n := newNet(t)
	c := dial(t, here(t, n))
	say(t, c, "before")
	hear(t, c, "before")
	f := n.Impose(Condition{Cut: true}, fromHere)
	say(t, c, "question") // arrives, and its answer is withheld
	hear(t, c, silence)
	wantCount(t, "there while it is cut", n.Count(toHere), Count{Passed: 14})
	wantCount(t, "back meanwhile", n.Count(fromHere), Count{Passed: 6, Withheld: 8})
	f.Heal()
	hear(t, c, "question")
	wantCount(t, "the fault", f.Count(), Count{Withheld: 8})
	if got := f.String(); got != "cut: here→client http" {
		t.Errorf("the fault is called %q", got)
	}
}

func TestCutOfBothDirections(t *testing.T) {
	n := newNet(t)
	addr := here(t, n)
	c := dial(t, addr)
	say(t, c, "before")
	hear(t, c, "before")
	f := n.Impose(Condition{Cut: true}, Both(Client, "here")...)
	say(t, c, "one")
	hear(t, c, silence)
	fresh := dial(t, addr)
	say(t, fresh, "two")
	hear(t, fresh, silence)
	wantCount(t, "the cut", f.Count(), Count{Withheld: 6, Held: 1})
	n.Heal()
	hear(t, c, "one")
	hear(t, fresh, "two")
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
