package web_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	plainBranch = iota
	tlsBranch
)

// wait bounds everything that the tests wait for.
const wait = 20 * time.Second

func byTLS(_ context.Context, c *web.Conn) (int, net.Conn, error) {
	first, err := c.First()
	if first == web.TLSByte {
		return tlsBranch, c, err
	}
	return plainBranch, c, err
}

// listen starts a mux with two branches. It ends with the test.
func listen(t *testing.T, change func(*web.MuxConfig)) *web.Mux {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	cfg := web.MuxConfig{Sort: byTLS, Branches: 2, Patience: wait, Max: 100}
	if change != nil {
		change(&cfg)
	}
	m := web.NewMux(ln, cfg)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func dial(t *testing.T, m *web.Mux, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", m.Branch(0).Addr().String())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t *testing.T, m *web.Mux, branch int) net.Conn {
	t.Helper()
	c, err := m.Branch(branch).Accept()
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait))
	return c
}

// wantClosed checks that the other end has closed a connection.
func wantClosed(t *testing.T, c net.Conn, why string) {
	t.Helper()
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s: the connection is open (%v)", why, err)
	}
}

func TestConnectionsAreSorted(t *testing.T) {
	m := listen(t, nil)
	texts := []string{plainBranch: "GET /", tlsBranch: "\x16\x03\x01 hello"}
	for branch, text := range texts {
		dial(t, m, text)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(accept(t, m, branch), got); err != nil || string(got) != text {
			t.Errorf("branch %d reads %q (%v), want %q", branch, got, err, text)
		}
	}
}

// A client that sends nothing delays no other one, and is closed when the patience ends.
func TestASilentClientDelaysNoOther(t *testing.T) {
	m := listen(t, func(c *web.MuxConfig) { c.Patience = 200 * time.Millisecond })
	silent := dial(t, m, "")
	dial(t, m, "x")
	accept(t, m, plainBranch)
	wantClosed(t, silent, "a silent client")
}

// A connection that no branch accepts is closed when the patience ends; so is one that Sort
// refuses, at once.
func TestConnectionsThatNobodyAcceptsAreClosed(t *testing.T) {
	m := listen(t, func(c *web.MuxConfig) {
		c.Patience = 200 * time.Millisecond
		c.Sort = func(ctx context.Context, c *web.Conn) (int, net.Conn, error) {
			if first, _ := c.First(); first == '!' {
				return 0, nil, errors.New("refused")
			}
			return byTLS(ctx, c)
		}
	})
	wantClosed(t, dial(t, m, "x"), "a client that is not accepted")
	wantClosed(t, dial(t, m, "!"), "a refused client")
}

// Max bounds the connections that are being sorted. A further one is closed at once, and those
// that wait are not affected.
func TestTooManyAreClosed(t *testing.T) {
	sorting := make(chan struct{})
	m := listen(t, func(c *web.MuxConfig) {
		c.Max = 2
		c.Sort = func(ctx context.Context, c *web.Conn) (int, net.Conn, error) {
			sorting <- struct{}{}
			return byTLS(ctx, c)
		}
	})
	first := dial(t, m, "")
	<-sorting
	dial(t, m, "")
	<-sorting
	wantClosed(t, dial(t, m, ""), "the third client")
	if _, err := io.WriteString(first, "x"); err != nil {
		t.Fatal(err)
	}
	accept(t, m, plainBranch)
	for again := true; again; { // there is a place again, soon after the branch has accepted
		c := dial(t, m, "")
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_, _ = c.Read(make([]byte, 1))
		}()
		select {
		case <-sorting:
			again = false
			_, err := io.WriteString(c, "x")
			check(t, err)
		case <-closed:
		}
	}
	accept(t, m, plainBranch)
}

// Close ends connections that are being sorted and those that wait for Accept, and Accept itself.
func TestClose(t *testing.T) {
	sorted := make(chan struct{}, 2)
	m := listen(t, func(c *web.MuxConfig) {
		c.Sort = func(ctx context.Context, c *web.Conn) (int, net.Conn, error) {
			sorted <- struct{}{}
			return byTLS(ctx, c)
		}
	})
	silent, waiting := dial(t, m, ""), dial(t, m, "\x16")
	<-sorted
	<-sorted
	ended := make(chan error)
	go func() {
		_, err := m.Branch(plainBranch).Accept()
		ended <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returns %v", err)
	}
	wantClosed(t, silent, "a silent client")
	wantClosed(t, waiting, "a client that waits for Accept")
	if err := m.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// A branch that is closed refuses its connections, and the other one continues. The last one
// closes the mux.
func TestBranchesAreClosedOneByOne(t *testing.T) {
	m := listen(t, nil)
	check(t, m.Branch(tlsBranch).Close())
	wantClosed(t, dial(t, m, "\x16"), "a client of a closed branch")
	if _, err := m.Branch(tlsBranch).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed branch: %v", err)
	}
	dial(t, m, "x")
	accept(t, m, plainBranch)
	check(t, m.Branch(plainBranch).Close())
	if c, err := net.Dial("tcp", m.Branch(0).Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the listener is open")
	}
}

// faultyListener returns errors from Accept.
type faultyListener struct {
	net.Listener
	errs chan error
}

func (l *faultyListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }

// A temporary error of the listener is survived; another one ends all branches with it.
func TestErrorsOfTheListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	broken := errors.New("broken")
	l := &faultyListener{Listener: ln, errs: make(chan error, 2)}
	l.errs <- temporary{errors.New("too many open files")}
	m := web.NewMux(l, web.MuxConfig{Sort: byTLS, Branches: 2, Patience: wait, Max: 10})
	defer func() { _ = m.Close() }()
	dial(t, m, "x")
	accept(t, m, plainBranch)
	l.errs <- broken
	dial(t, m, "") // Accept of the listener returns, and is called again
	for branch := range 2 {
		if _, err := m.Branch(branch).Accept(); !errors.Is(err, broken) {
			t.Errorf("branch %d ends with %v", branch, err)
		}
	}
}

// Many clients come and go while branches accept and the mux is closed: no goroutine is left
// (TestMain), and no connection is handed out after Close.
func TestCloseUnderLoad(t *testing.T) {
	m := listen(t, nil)
	address := m.Branch(0).Addr().String()
	var clients, servers sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for j := range 50 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				_, _ = c.Write([]byte{byte(web.TLSByte * ((i + j) % 2))})
				_ = c.Close()
			}
		})
	}
	accepted := make(chan struct{}, 1000)
	for branch := range 2 {
		servers.Go(func() {
			for {
				c, err := m.Branch(branch).Accept()
				if err != nil {
					return
				}
				_ = c.Close()
				accepted <- struct{}{}
			}
		})
	}
	for range 50 {
		<-accepted
	}
	_ = m.Close()
	servers.Wait()
	clients.Wait()
}

// readConn is a connection that reads from r.
type readConn struct {
	net.Conn
	r io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// FuzzConn reads what a client sends in pieces of a size, with calls of First in between: every
// byte arrives once, in order, and First tells the first one.
func FuzzConn(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"), byte(3), byte(0))
	f.Add([]byte{web.TLSByte, 3, 1}, byte(1), byte(1))
	f.Add([]byte{}, byte(0), byte(2))
	f.Add([]byte("x"), byte(4), byte(3))
	f.Fuzz(func(t *testing.T, sent []byte, size, kind byte) {
		readers := []io.Reader{bytes.NewReader(sent), iotest.OneByteReader(bytes.NewReader(sent)), iotest.DataErrReader(bytes.NewReader(sent)), &emptyReader{r: bytes.NewReader(sent)}}
		c := &web.Conn{Conn: readConn{r: readers[int(kind)%len(readers)]}}
		for range 2 {
			first, err := c.First()
			if len(sent) == 0 {
				if err == nil {
					t.Fatal("First returns a byte of a client that sent none")
				}
				return
			}
			if err != nil || first != sent[0] {
				t.Fatalf("First is %d (%v), want %d", first, err, sent[0])
			}
		}
		var got []byte
		p := make([]byte, int(size)%8)
		if len(p) == 0 && int(kind)%len(readers) == 2 {
			return // iotest.DataErrReader does not return from a read of no bytes
		}
		for len(got) < len(sent) {
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if err != nil || len(p) == 0 {
				break
			}
		}
		if len(p) > 0 && !bytes.Equal(got, sent) {
			t.Fatalf("read %q, want %q", got, sent)
		}
	})
}

// emptyReader returns no byte and no error at every second call, as io.Reader allows.
type emptyReader struct {
	r     io.Reader
	empty bool
}

func (e *emptyReader) Read(p []byte) (int, error) {
	if e.empty = !e.empty; e.empty {
		return 0, nil
	}
	return e.r.Read(p)
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
