package link

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// peerEnv makes this test binary a peer: an echo server on that address, which also dials the
// addresses on its standard input.
const peerEnv = "OSQUEUE_LINK_PEER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(peerEnv); addr != "" {
		os.Exit(servePeer(addr))
	}
	goleak.VerifyTestMain(m)
}

func servePeer(addr string) int {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go echo(l)
	fmt.Println("ready")
	conns := make(map[string]net.Conn)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		fmt.Println(obey(conns, words[0], words[1:]))
	}
	return 0
}

// obey does one of: open ID ADDR, send ID TEXT, receive ID DURATION, close ID.
func obey(conns map[string]net.Conn, what string, args []string) string {
	c := conns[args[0]]
	switch what {
	case "open":
		var err error
		if conns[args[0]], err = net.Dial("tcp4", args[1]); err != nil {
			return err.Error()
		}
		return "ok"
	case "send":
		if _, err := io.WriteString(c, args[1]); err != nil {
			return outcome(err)
		}
		return "ok"
	case "receive":
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err.Error()
		}
		return receive(c, d)
	case "close":
		_ = c.Close()
		return "ok"
	}
	return "no such command"
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

// peer is a process with an echo server.
type peer struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func startPeer(t *testing.T, n *Net, name, addr string) *peer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, name: name, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), peerEnv+"="+addr, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := n.Start(name, p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close() // ends it
		_ = p.cmd.Wait()
	})
	p.expect("ready", p.line())
	return p
}

func (p *peer) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return strings.TrimSpace(s)
}

func (p *peer) tell(format string, args ...any) string {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	return p.line()
}

func (p *peer) expect(want, got string) {
	p.t.Helper()
	if got != want {
		p.t.Fatalf("%s says %q, want %q", p.name, got, want)
	}
}

// do sends a peer a command that succeeds.
func (p *peer) do(format string, args ...any) {
	p.t.Helper()
	p.expect("ok", p.tell(format, args...))
}

// hears expects to receive just that text, or silence, broken, over.
func (p *peer) hears(id, want string) {
	p.t.Helper()
	wait := "5s"
	if want == silence {
		wait = "150ms"
	}
	p.expect(want, p.tell("receive %s %s", id, wait))
}
