package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

func get(conn io.Writer, path string) {
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
}

// Over the bound a client learns why it is refused, health checks are answered, and a
// connection that closes frees its slot.
func TestConnectionsAreBounded(t *testing.T) {
	s := newServed(t, func(c *core.Config) { c.MaxConnections, c.ConnectionsEach = 2, 2 })
	used := []net.Conn{s.dial(), s.dial()}
	for _, c := range used {
		get(c, v1.PathStats)
		ok[v1.Stats](t, s.read(c))
	}
	spare := s.dial()
	for _, path := range []string{v1.PathHealthz, v1.PathReadyz} {
		get(spare, path)
		ok[v1.Health](t, s.read(spare))
	}
	get(spare, v1.PathStats)
	a := s.read(spare)
	refused(t, a, http.StatusServiceUnavailable, v1.TagOverloaded)
	if rest, err := io.ReadAll(spare); err != nil || len(rest) > 0 {
		t.Errorf("the refused connection stays open: %q %v", rest, err)
	}
	if err := used[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room for a connection", func() bool {
		c := s.dial()
		defer c.Close()
		get(c, v1.PathStats)
		return s.read(c).status == http.StatusOK
	})
	open := 1 // used[1]
	for ; open <= 2+spareConnections; open++ {
		c := s.dial()
		get(c, v1.PathHealthz)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			break // closed at once
		}
	}
	if open > 2+spareConnections {
		t.Errorf("%d connections are open, over both bounds", open)
	}
}
