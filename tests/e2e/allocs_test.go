package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"osqueue/client/api/v1/frame"
)

// allocsMax bounds the allocations of an enqueue on the leader, from the socket to the answer. The
// server of net/http allocates about 27 times more, also for a handler that does nothing.
const allocsMax = 18

// TestAllocationsOfAnEnqueue counts the allocations of a whole node: server, group commit, raft, machine
// and flusher. The clients of this process allocate nothing per request.
func TestAllocationsOfAnEnqueue(t *testing.T) {
	c, err := startLive(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	bare := bareServer(t)
	floor := 0.0
	for _, way := range []struct {
		name    string
		address string
		open    func(t *testing.T, address string) caller
	}{
		{"bare", bare, openHTTP}, {"http", c.Servers()[0], openHTTP}, {"stream", c.Servers()[0], openStream},
	} {
		t.Run(way.name, func(t *testing.T) {
			const callers, calls = 64, 300
			open := make([]caller, callers)
			for i := range open {
				open[i] = way.open(t, way.address)
				defer open[i].conn.Close()
			}
			runCallers(t, open, 20)
			// The costs of an entry and of time are shared by fewer calls on a busy machine, so the least of three counts.
			per := math.Inf(1)
			for range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				runCallers(t, open, calls)
				runtime.ReadMemStats(&after)
				per = min(per, float64(after.Mallocs-before.Mallocs)/(callers*calls))
				t.Logf("%.1f allocations, %.0f bytes an enqueue", per, float64(after.TotalAlloc-before.TotalAlloc)/(callers*calls))
			}
			switch {
			case way.name == "bare":
				floor = per
			case way.name == "stream" && per > allocsMax, way.name == "http" && per > floor+allocsMax:
				t.Errorf("%.1f allocations an enqueue, at most %d (and %.1f of net/http) are allowed", per, allocsMax, floor)
			}
		})
	}
}

// bareServer starts an HTTP server that reads its requests and answers with a few headers.
func bareServer(t *testing.T) (address string) {
	t.Helper()
	buffers := sync.Pool{New: func() any { return new([4096]byte) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := buffers.Get().(*[4096]byte)
		defer buffers.Put(b)
		for err := error(nil); err == nil; {
			_, err = r.Body.Read(b[:])
		}
		w.Header()["Content-Type"] = jsonType
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

var (
	jsonType = []string{"application/json"}
	answer   = []byte("{}")
)

// caller is one connection with one request at a time.
type caller struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte // with a number that makes its job's id unique
	number  []byte // within request
	read    func(*caller) error
}

// called counts the requests of all callers.
var called atomic.Uint64

func runCallers(t *testing.T, open []caller, calls int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range open {
		wg.Go(func() {
			for range calls {
				if err := open[i].call(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (c *caller) call() error {
	n := called.Add(1)
	for i := len(c.number) - 1; i >= 0; i-- {
		c.number[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	return c.read(c)
}

const idFormat = "0193c0de-0000-7000-8000-000000000000"

func jobBody() string {
	return `{"id":"` + idFormat + `","type":"mail","payload":"` + strings.Repeat("x", 198) + `"}`
}

// withNumber finds the place of the number in the request.
func (c *caller) withNumber() caller {
	at := strings.Index(string(c.request), idFormat) + len(idFormat)
	c.number = c.request[at-12 : at]
	return *c
}

func openHTTP(t *testing.T, address string) caller {
	t.Helper()
	body := jobBody()
	c := dial(t, address)
	c.request = fmt.Appendf(nil, "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nPrefer: handling=strict\r\nContent-Length: %d\r\n\r\n%s",
		address, len(body), body)
	c.read = readHTTP
	return c.withNumber()
}

func dial(t *testing.T, address string) caller {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return caller{conn: conn, in: bufio.NewReader(conn)}
}

// readHTTP reads one answer.
func readHTTP(c *caller) error {
	length, status := 0, ""
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case string(line) == "\r\n":
			_, err := c.in.Discard(length)
			if err == nil && status != "" {
				err = fmt.Errorf("answered %s", status)
			}
			return err
		case len(line) > 12 && string(line[:5]) == "HTTP/" && string(line[9:12]) != "200":
			status = string(line)
		case len(line) > 16 && string(line[:16]) == "Content-Length: ":
			length = 0
			for _, b := range line[16 : len(line)-2] {
				length = length*10 + int(b-'0')
			}
		}
	}
}

func openStream(t *testing.T, address string) caller {
	t.Helper()
	c := dial(t, address)
	hello, err := frame.Append(nil, frame.KindHello, 0, &frame.Hello{Version: frame.Version})
	if err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", frame.Path, address, frame.Protocol)
	if _, err := c.conn.Write(append([]byte(head), hello...)); err != nil {
		t.Fatal(err)
	}
	for line := ""; line != "\r\n"; {
		if line, err = c.in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if c.request, err = frame.Append(nil, frame.KindRequest, 1, &frame.Request{Target: "/v1/jobs", Body: []byte(jobBody()), Prefer: "handling=strict"}); err != nil {
		t.Fatal(err)
	}
	c.read = readFrame
	return c.withNumber()
}

// readFrame reads frames up to an answer, which must be a success.
func readFrame(c *caller) error {
	for {
		head, err := c.in.Peek(frame.HeadBytes)
		if err != nil {
			return err
		}
		length := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		kind := frame.Kind(head[4])
		if _, err := c.in.Discard(frame.HeadBytes); err != nil {
			return err
		}
		body, err := c.in.Peek(min(length, 3))
		if err != nil {
			return err
		}
		refused := kind == frame.KindAnswer && string(body) != "\x08\xc8\x01" // the field status with the value 200
		if _, err := c.in.Discard(length); err != nil {
			return err
		}
		switch {
		case refused:
			return io.ErrUnexpectedEOF
		case kind == frame.KindAnswer:
			return nil
		}
	}
}
