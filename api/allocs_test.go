package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// An enqueue over HTTP allocates little more than a handler that does nothing: the rest is net/http's
// own.
func TestAllocationsOfAnEnqueue(t *testing.T) {
	if underRace {
		t.Skip("the race detector empties pools")
	}
	const most = 6 // the body, the id, the mutation, two of the fake backend, and one to spare
	g := newRig(t, func(c *core.Config) { c.Backend = newInstant() })
	ours := allocationsOf(t, g.s.Serve)
	bare := allocationsOf(t, (&http.Server{Handler: http.HandlerFunc(answerAsBare)}).Serve)
	t.Logf("%.1f allocations an enqueue, %.1f of net/http", ours, bare)
	if ours > bare+most {
		t.Errorf("an enqueue takes %.1f allocations, net/http alone takes %.1f: want at most %d more", ours, bare, most)
	}
}

// answerAsBare reads the body and answers with as many headers as the API.
func answerAsBare(w http.ResponseWriter, r *http.Request) {
	var body [1024]byte
	for {
		if _, err := r.Body.Read(body[:]); err != nil {
			break
		}
	}
	_ = r.Body.Close()
	h := w.Header()
	h["Content-Type"], h[headerLSN], h["Preference-Applied"] = jsonType, jsonType, preferStrict
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:64])
}

// allocationsOf returns the allocations of one enqueue over a connection, those of the client
// excluded: it makes none.
func allocationsOf(t *testing.T, serve func(net.Listener) error) float64 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { _ = serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"type":"mail","payload":` + benchPayload + `}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nPrefer: %s\r\nContent-Length: %d\r\n\r\n%s",
		v1.PathJobs, v1.PreferStrict, len(body), body)
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	// All answers have the length of the first.
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	rest, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	var again [4096]byte
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(again[:])
	if err != nil || n <= len(rest) {
		t.Fatal(n, err)
	}
	return testing.AllocsPerRun(2000, func() {
		_, err := conn.Write(request)
		if err == nil {
			_, err = io.ReadFull(conn, again[:n])
		}
		if err != nil {
			t.Error(err)
		}
	})
}
