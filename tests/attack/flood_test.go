package attack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
	"osqueue/tests/cluster"
)

// floodTime is how long a flood lasts.
const floodTime = time.Second

// h2 is an HTTP/2 connection of a client that keeps no rule.
type h2 struct {
	conn   net.Conn
	framer *http2.Framer
	out    bytes.Buffer
	next   uint32
}

// dialH2 opens an HTTP/2 connection with the given settings. Its answers are read and dropped if
// reads is true.
func dialH2(t *testing.T, n *cluster.Node, reads bool, settings ...http2.Setting) *h2 {
	t.Helper()
	c := &h2{conn: dial(t, n.HTTP), next: 1}
	c.framer = http2.NewFramer(&c.out, nil)
	c.framer.AllowIllegalWrites = true
	c.out.WriteString(http2.ClientPreface)
	if err := c.framer.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	c.flush()
	if reads {
		go func() { _, _ = io.Copy(io.Discard, c.conn) }() // ends with the connection
	}
	return c
}

// flush writes what is there. It returns false if the node has closed the connection, or reads no more.
func (c *h2) flush() bool {
	_ = c.conn.SetWriteDeadline(time.Now().Add(floodTime))
	_, err := c.conn.Write(c.out.Bytes())
	c.out.Reset()
	return err == nil
}

// headers begins a request.
func (c *h2) headers(method, path, host string, end bool) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", host}, {":path", path}, {"content-type", "application/json"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true})
	c.next += 2
}

// flood repeats frames until floodTime is over or the node does not take them.
func (c *h2) flood(frames func()) {
	for until := time.Now().Add(floodTime); time.Now().Before(until); {
		for c.out.Len() < 16<<10 {
			frames()
		}
		if !c.flush() {
			return
		}
	}
}

// openMany opens connections that each send the same bytes and then nothing, until the node grows no
// further.
func openMany(t *testing.T, n *cluster.Node, count int, text string) {
	t.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range count / 8 {
				c, err := net.DialTimeout("tcp", n.HTTP, answerMax)
				if err != nil {
					return // the node has enough
				}
				t.Cleanup(func() { _ = c.Close() })
				_, _ = io.WriteString(c, text)
			}
		})
	}
	wg.Wait()
	awaitGrowth(t, n) // the connections are open until the node has done what it does with them
}

// awaitGrowth waits until a node grows no further.
func awaitGrowth(t *testing.T, n *cluster.Node) {
	t.Helper()
	for before, until := int64(0), time.Now().Add(patience); time.Now().Before(until); time.Sleep(floodTime) {
		now := resident(t, n, "VmHWM")
		if now == before {
			return
		}
		before = now
	}
}

// Floods of connections, frames and bytes cost bounded memory, and others are served meanwhile.
func TestFloodsOfTheHTTPPort(t *testing.T) {
	// The bystander shares the address with the attacker, so the address gets all connections.
	g := newTarget(t, 1, "--max-connections", "4096", "--max-connections-per-address", "4096")
	n := g.Nodes[0]
	fill(t, n)
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\n\r\n" }
	post := func(length int, body string) string {
		return fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n.HTTP, length, body)
	}
	upgrade := func(path, protocol string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\nConnection: Upgrade\r\nUpgrade: " + protocol +
			"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	}
	// socket opens a WebSocket and sends a message that announces length bytes.
	socket := func(length int, sent string) string {
		return upgrade("/v1/ws", "websocket") + "\x81\xff" + string(binary.BigEndian.AppendUint64(nil, uint64(length))) + "\x00\x00\x00\x00" + sent
	}
	const list = `{"id":1,"method":"listJobs","params":{}}`
	lists := upgrade("/v1/ws", "websocket") + strings.Repeat("\x81"+string([]byte{0x80 | byte(len(list))})+"\x00\x00\x00\x00"+list, 16)
	rpc := func(contentType, body string) string {
		return fmt.Sprintf("POST /osqueue.v1.QueueService/ListJobs HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			n.HTTP, contentType, len(body), body)
	}
	stream := upgrade(frame.Path, frame.Protocol) + string(helloFrame)
	announced := string(frame.AppendHead(nil, frame.Head{Length: core.DefaultBodyBytes, Kind: frame.KindRequest, ID: 1}))
	for _, row := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"slow heads", func(t *testing.T) { openMany(t, n, 800, "GET /v1/stats HTTP/1.1\r\nHost: ") }},
		{"silent connections", func(t *testing.T) { openMany(t, n, 800, "") }},
		{"slow bodies", func(t *testing.T) { openMany(t, n, 800, post(900, "{")) }},
		{"announced bodies", func(t *testing.T) { openMany(t, n, 800, post(1<<20, "{")) }},
		{"bodies that stop after 600 KiB", func(t *testing.T) { openMany(t, n, 800, post(1<<20, strings.Repeat("x", 600<<10))) }},
		{"announced bodies over the limit", func(t *testing.T) { openMany(t, n, 800, post(1<<40, "{")) }},
		{"chunks without an end", func(t *testing.T) {
			openMany(t, n, 64, "POST /v1/jobs HTTP/1.1\r\nHost: "+n.HTTP+"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
				strings.Repeat("1\r\n{\r\n", 20_000))
		}},
		{"answers that are not read", func(t *testing.T) { openMany(t, n, 64, strings.Repeat(get("/v1/jobs?status=all&limit=1000"), 50)) }},
		{"lists of legacy clients that are not read", func(t *testing.T) { openMany(t, n, 64, strings.Repeat(get("/v1/jobs"), 50)) }},
		{"single jobs that are not read", func(t *testing.T) { openMany(t, n, 800, strings.Repeat(get("/v1/jobs/big0"), 50)) }},
		{"schedules that are not read", func(t *testing.T) { openMany(t, n, 200, strings.Repeat(get("/v1/crons"), 50)) }},
		{"the whole state, not read", func(t *testing.T) { openMany(t, n, 64, strings.Repeat(get("/state"), 50)) }},
		{"streams of events", func(t *testing.T) { openMany(t, n, 400, get("/v1/events?lastEventId=0-0.0")) }},
		{"WebSockets", func(t *testing.T) { openMany(t, n, 400, upgrade("/v1/ws", "websocket")) }},
		{"WebSockets that send half a frame", func(t *testing.T) {
			openMany(t, n, 200, upgrade("/v1/ws", "websocket")+"\x81\xff\x00\x00\x00\x00\x00\x7f")
		}},
		{"WebSockets that stop in large messages", func(t *testing.T) { openMany(t, n, 400, socket(7<<20, strings.Repeat("x", 300<<10))) }},
		{"lists over WebSockets that are not read", func(t *testing.T) { openMany(t, n, 64, lists) }},
		{"lists of Connect that are not read", func(t *testing.T) { openMany(t, n, 64, strings.Repeat(rpc("application/proto", ""), 16)) }},
		{"lists of Connect in JSON that are not read", func(t *testing.T) { openMany(t, n, 64, strings.Repeat(rpc("application/json", "{}"), 16)) }},
		{"streams that announce bodies", func(t *testing.T) {
			openMany(t, n, 200, stream+announced+"x")
			body := `{"type":"large","payload":"` + strings.Repeat("x", 600<<10) + `"}` // of another client
			a, err := request(n.HTTP, strings.Replace(post(len(body), body), "\r\n", "\r\nConnection: close\r\n", 1), answerMax)
			if err != nil || a.StatusCode != http.StatusOK {
				t.Errorf("a large body is answered %v %v", a, err)
			}
		}},
		{"streams without a hello", func(t *testing.T) { openMany(t, n, 200, upgrade(frame.Path, frame.Protocol)) }},
		{"streams of garbage", func(t *testing.T) {
			openMany(t, n, 200, upgrade(frame.Path, frame.Protocol)+strings.Repeat("\xff", 4096))
		}},
		{"claims that wait", func(t *testing.T) {
			body := `{"workerId":"w","types":["none"],"waitMs":60000}`
			openMany(t, n, 400, fmt.Sprintf("POST /v1/jobs/claim HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n.HTTP, len(body), body))
		}},
		{"PING", func(t *testing.T) {
			c := dialH2(t, n, true)
			c.flood(func() { _ = c.framer.WritePing(false, [8]byte{}) })
		}},
		{"PING without reading", func(t *testing.T) {
			c := dialH2(t, n, false)
			c.flood(func() { _ = c.framer.WritePing(false, [8]byte{}) })
		}},
		{"SETTINGS", func(t *testing.T) {
			c := dialH2(t, n, true)
			c.flood(func() { _ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096}) })
		}},
		{"empty DATA", func(t *testing.T) {
			c := dialH2(t, n, true)
			c.headers("POST", "/v1/jobs", n.HTTP, false)
			c.flood(func() { _ = c.framer.WriteData(1, false, nil) })
		}},
		{"CONTINUATION", func(t *testing.T) {
			c := dialH2(t, n, true)
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			c.flood(func() { _ = c.framer.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 100)) })
		}},
		{"rapid reset", func(t *testing.T) {
			c := dialH2(t, n, true)
			c.flood(func() {
				stream := c.next
				c.headers("GET", v1.PathStats, n.HTTP, true)
				_ = c.framer.WriteRSTStream(stream, http2.ErrCodeCancel)
			})
		}},
		{"many streams", func(t *testing.T) {
			c := dialH2(t, n, true)
			for range 2000 {
				c.headers("POST", "/v1/jobs", n.HTTP, false)
			}
			c.flush()
		}},
		{"windows that overflow", func(t *testing.T) {
			c := dialH2(t, n, true)
			c.flood(func() { _ = c.framer.WriteWindowUpdate(0, 1<<31-1) })
		}},
		{"a bomb of headers", func(t *testing.T) {
			c := dialH2(t, n, true)
			var block bytes.Buffer
			e := hpack.NewEncoder(&block)
			_ = e.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 3000)})
			block.Write(bytes.Repeat([]byte{0xbe}, 12_000)) // the same field again, by its index
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			c.flush()
		}},
		{"a preface and garbage", func(t *testing.T) { openMany(t, n, 64, http2.ClientPreface+strings.Repeat("\xff", 64<<10)) }},
		{"TLS on the plain port", func(t *testing.T) {
			openMany(t, n, 64, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 600))
		}},
		{"the language of mail", func(t *testing.T) { openMany(t, n, 64, "EHLO evil.example\r\nMAIL FROM:<a@b>\r\n") }},
		{"the language of Redis", func(t *testing.T) { openMany(t, n, 64, "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\ny\r\n") }},
	} {
		g.attack(row.name, row.run)
		t.Logf("after %s: at most %d MiB more than at rest", row.name, (resident(t, n, "VmHWM")-g.before[n])>>20)
	}
	g.settled()
}

// fill adds a few jobs and schedules with large payloads, so that lists are long.
func fill(t *testing.T, n *cluster.Node) {
	t.Helper()
	payload := strings.Repeat("x", 500<<10)
	send := func(method, path, body string) {
		t.Helper()
		a, err := request(n.HTTP, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			method, path, n.HTTP, len(body), body), patience)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", a, err)
		}
	}
	for i := range 20 {
		send(http.MethodPost, v1.PathJobs, fmt.Sprintf(`{"id":"big%d","type":"big","payload":"%s"}`, i, payload))
		send(http.MethodPut, fmt.Sprintf("%s/big%d", v1.PathCrons, i), fmt.Sprintf(`{"spec":"@yearly","job":{"payload":"%s"}}`, payload))
	}
}

// Clients that each take their whole share of waiting claims cost bounded memory together, also with
// claims of as many types as a claim may name.
func TestWaitingClaimsOfSeveralClients(t *testing.T) {
	const clients = 4
	g := newTarget(t, 1, "--max-connections-per-address", "2048")
	n := g.Nodes[0]
	for _, row := range []struct {
		name  string
		each  int // claims of one client
		types int
		least float64 // claims that wait in the end
	}{
		{"claims of one type", core.DefaultWaits/2 + 512, 1, core.DefaultWaits},
		{"claims of 1000 types", 300, 1000, core.DefaultWaits / 32 / 2},
	} {
		g.attack(row.name, func(t *testing.T) {
			var open []net.Conn
			for client := range clients {
				open = append(open, waitAs(t, n, client, row.each, row.types)...)
			}
			g.Eventually(patience, "the claims to wait", func() error {
				if waiting := metric(t, n, "osqueue_claims_waiting"); waiting < row.least {
					return fmt.Errorf("%v wait", waiting)
				}
				return nil
			})
			t.Logf("%v claims wait, and the node has grown by at most %d MiB", metric(t, n, "osqueue_claims_waiting"), (resident(t, n, "VmHWM")-g.before[n])>>20)
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
	g.settled()
}

// waitAs sends claims that wait, over streams from an address of its own. It drops the answers.
func waitAs(t *testing.T, n *cluster.Node, client, claims, types int) (open []net.Conn) {
	t.Helper()
	names := make([]string, types)
	return sendAs(t, n, client, claims, func(number int) *frame.Request {
		for i := range names {
			names[i] = fmt.Sprintf(`"%d.%d.%d"`, client, number, i)
		}
		body := `{"workerId":"w","types":[` + strings.Join(names, ",") + `],"waitMs":60000}`
		return &frame.Request{Target: v1.PathClaim, Body: []byte(body)}
	}, nil)
}

// sendAs sends requests over streams from an address of the client's own. It counts the answers with the
// status 503, and drops all; nil counts none.
func sendAs(t *testing.T, n *cluster.Node, client, requests int, request func(number int) *frame.Request, refused *atomic.Int64) (open []net.Conn) {
	t.Helper()
	const ofAStream = 1024
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(client+1))}}
	for left := requests; left > 0; left -= ofAStream {
		c, err := from.DialContext(t.Context(), "tcp", n.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		open = append(open, c)
		_, _ = io.WriteString(c, upgradeText(n.HTTP, ""))
		go countRefused(c, refused) // ends with the connection
		_, _ = c.Write(helloFrame)
		for id := range min(left, ofAStream) {
			b, err := frame.Append(nil, frame.KindRequest, uint32(id+1), request(left+id))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetWriteDeadline(time.Now().Add(patience))
			if _, err = c.Write(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return open
}

// countRefused reads the answers of a stream until it ends.
func countRefused(c net.Conn, refused *atomic.Int64) {
	in := bufio.NewReader(c)
	if refused == nil {
		_, _ = io.Copy(io.Discard, in)
		return
	}
	for line := ""; line != "\r\n"; { // the head of the answer to the upgrade
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	for {
		var buf [frame.HeadBytes]byte
		head, err := frame.ReadHead(in, &buf)
		if err != nil {
			return
		}
		body := make([]byte, head.Length)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		var a frame.Answer
		if head.Kind == frame.KindAnswer && a.Parse(body) == nil && a.Status == http.StatusServiceUnavailable {
			refused.Add(1)
		}
	}
}

// metric returns a metric of a node that has no labels.
func metric(t *testing.T, n *cluster.Node, name string) float64 {
	t.Helper()
	a, err := request(n.HTTP, "GET "+v1.PathMetrics+" HTTP/1.1\r\nHost: "+n.HTTP+"\r\nConnection: close\r\n\r\n", patience)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(a.Body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s in the metrics", name)
	return 0
}

// requestBytes is the number of bytes that a request in progress on a stream counts in --inflight-bytes.
const requestBytes = 16 << 10

// Writes that wait for the bucket, which is away, cost bounded memory, also with as many jobs as a
// request may name.
func TestWritesThatWaitForTheBucket(t *testing.T) {
	const clients = 4
	bucket := filepath.Join(t.TempDir(), "bucket")
	g := newTargetWith(t, cluster.Options{Nodes: 1, Bucket: "file://" + bucket, Flags: []string{
		"--max-connections-per-address", "2048", "--max-flush-lag", "0", // it answers without the bucket
	}})
	n := g.Nodes[0]
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"id":"held%d","type":"held"}`, i)
	}
	manyJobs := `{"jobs":[` + strings.Join(many, ",") + `]}`
	if a := try(t, n, "POST", v1.PathJobsBatch, "", manyJobs); a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	// A file in its place: no write succeeds.
	if err := errors.Join(os.Rename(bucket, bucket+".away"), os.WriteFile(bucket, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	const single = 4608 // of one client
	for _, row := range []struct {
		name, path, body string
		each             int
		refused          int64 // requests that do not fit, at least
	}{
		{"single jobs", v1.PathJobs, `{"id":"held1","type":"held"}`, single, clients*single - limit.DefaultBytes/requestBytes},
		{"batches of 1000 jobs", v1.PathJobsBatch, manyJobs, 64, 0},
	} {
		g.attack(row.name, func(t *testing.T) {
			var open []net.Conn
			refused := new(atomic.Int64)
			for client := range clients {
				open = append(open, sendAs(t, n, client, row.each, func(int) *frame.Request {
					return &frame.Request{Target: row.path + "?ack=object", Body: []byte(row.body)}
				}, refused)...)
			}
			g.Eventually(patience, "refusals", func() error {
				if refused.Load() < row.refused {
					return fmt.Errorf("%d are refused, want %d", refused.Load(), row.refused)
				}
				return nil
			})
			awaitGrowth(t, n)
			t.Logf("%d are refused, and the node has grown by at most %d MiB", refused.Load(), (resident(t, n, "VmHWM")-g.before[n])>>20)
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
	if err := errors.Join(os.Remove(bucket), os.Rename(bucket+".away", bucket)); err != nil {
		t.Fatal(err)
	}
	g.settled()
}
