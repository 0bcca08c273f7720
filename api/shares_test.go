package api

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// One address gets its share of the connections, and learns about it; the others stay for others.
func TestConnectionsOfOneAddress(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.MaxConnections = 6 })
	for range 3 {
		c := s.dial()
		get(c, v1.PathHealthz)
		ok[v1.Health](t, s.read(c))
	}
	over := s.dial()
	get(over, v1.PathStats)
	a := s.read(over)
	refused(t, a, http.StatusServiceUnavailable, v1.TagOverloaded)
	if !strings.Contains(string(a.body), "127.0.0.1") {
		t.Errorf("answered %s", a.body)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := other.Dial("tcp", s.addr)
	if err != nil {
		t.Skipf("this machine has one loopback address: %v", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	get(c, v1.PathStats)
	ok[v1.Stats](t, s.read(c))
}

// One token gets half of the streams of events and of the claims that wait.
func TestSharesOfOneToken(t *testing.T) {
	s := newServed(t, func(c *core.Config) {
		c.Security.Mode = core.SecurityOn
		c.Limits.Streams, c.Limits.Waits = 2, 2
	})
	first := s.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	second := s.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	open := func(head []string) int {
		conn := s.dial()
		_, _ = fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", head[0], head[1])
		line := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, line); err != nil {
			t.Fatal(err)
		}
		var status int
		_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status)
		return status
	}
	if got := []int{open(first), open(first), open(second), open(second)}; fmt.Sprint(got) != "[200 503 200 503]" {
		t.Errorf("streams of events: %v", got)
	}
	claim := `{"workerId":"w","types":["idle"],"waitMs":60000}`
	for _, head := range [][]string{first, second} {
		before := s.s.Shares.Waits.Taken()
		conn := s.dial()
		_, _ = fmt.Fprintf(conn, "POST /v1/jobs/claim HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			head[0], head[1], len(claim), claim)
		eventually(t, "the claim waits", func() bool { return s.s.Shares.Waits.Taken() == before+1 })
		refused(t, s.do("POST", "/v1/jobs/claim", claim, head...), http.StatusServiceUnavailable, v1.TagOverloaded)
	}
}

// TestARevokedTokenEndsStreams: streams of both kinds end within a second of the revocation.
func TestARevokedTokenEndsStreams(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.Security.Mode = core.SecurityOn })
	head := s.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	var conns []net.Conn
	for _, text := range []string{
		"GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
		"GET " + frame.Path + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + frame.Protocol + "\r\n",
	} {
		conn := s.dial()
		_, _ = fmt.Fprintf(conn, "%s%s: %s\r\n\r\n", text, head[0], head[1])
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	start := time.Now()
	s.revoke(head)
	for i, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
		if took := time.Since(start); took > 5*time.Second { // one second, and what a busy machine adds
			t.Errorf("stream %d ended after %s", i, took)
		}
	}
}

// A flood of frames that belong to no request is read at the pace of the allowance, and
// requests are answered meanwhile.
func TestFloodsOfControlFramesArePaced(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string]func(*http2.Framer) error{
		"PING":     func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) },
		"SETTINGS": func(f *http2.Framer) error { return f.WriteSettings() },
		"PRIORITY": func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{StreamDep: 3}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServed(t)
			conn := s.dial()
			var b bytes.Buffer
			b.WriteString(http2.ClientPreface)
			f := http2.NewFramer(&b, nil)
			if err := f.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			for b.Len() < 256<<10 {
				if err := frames(f); err != nil {
					t.Fatal(err)
				}
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			const flood = time.Second
			sent := 0
			_ = conn.SetWriteDeadline(time.Now().Add(flood))
			for chunk := b.Bytes(); ; chunk = b.Bytes()[len(http2.ClientPreface)+9:] {
				n, err := conn.Write(chunk)
				if sent += n; err != nil {
					break
				}
			}
			// The kernel buffers some MiB in addition.
			if most := paceBurst + 2*int(flood.Seconds())*paceRate + 10<<20; sent > most {
				t.Errorf("the server has read %d bytes of the flood, more than %d", sent, most)
			}
			other := s.dial()
			get(other, v1.PathHealthz)
			ok[v1.Health](t, s.read(other))
		})
	}
}

func TestPacer(t *testing.T) {
	var p pacer
	p.start()
	r := request("POST", "/v1/jobs", strings.Repeat("x", 1000))
	r.ProtoMajor = 2
	before := p.left.Load()
	p.request(r)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	if before > paceBurst || p.left.Load() > paceBurst+paceHead+2000 {
		t.Errorf("%d, then %d", before, p.left.Load())
	}
	p.read(paceBurst + 4000)
	start := time.Now()
	for range 3 {
		p.read(paceRate / 20)
	}
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("reads beyond the allowance take %s", took)
	}
	r.ProtoMajor = 1
	p.request(r)
	start = time.Now()
	for range 100 {
		p.read(1 << 20)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("HTTP/1 is paced: %s", took)
	}
}
