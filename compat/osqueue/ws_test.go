package osqueue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/compat/compattest"
	"osqueue/internal/web"
)

// A peer is a client of a WebSocket that makes one call at a time.
type peer struct {
	t    testing.TB
	conn *websocket.Conn
	next int
}

func dial(t testing.TB, address string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+address+socketPath, &websocket.DialOptions{ //nolint:bodyclose // it has none
		CompressionMode: websocket.CompressionContextTakeover, // as the original's client offers it
	})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	conn.SetReadLimit(64 << 20)
	return &peer{t: t, conn: conn}
}

func (p *peer) close() { _ = p.conn.CloseNow() }

// An incoming is an answer as clients parse it.
type incoming struct {
	ID     jsontext.Value `json:"id"`
	OK     bool           `json:"ok"`
	Result jsontext.Value `json:"result"`
	Error  *tagged        `json:"error"`
}

func (p *peer) send(text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() incoming {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, got, err := p.conn.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	var in incoming
	if err := json.Unmarshal(got, &in, compat.Lenient); err != nil {
		p.t.Fatalf("%s: %v", got, err)
	}
	return in
}

// call makes a call and decodes its result into out. While no leader is known it retries
// as clients do: on a busy machine a cluster may lose its leader.
func (p *peer) call(method, params string, out any) {
	p.t.Helper()
	var in incoming
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		p.next++
		p.send(fmt.Sprintf(`{"id":"%d","method":%q,"params":%s}`, p.next, method, params))
		in = p.receive()
		if in.OK || !strings.HasPrefix(in.Error.Message, "no active leader is known") {
			break
		}
	}
	if !in.OK || in.Error != nil || string(in.ID) != fmt.Sprintf(`"%d"`, p.next) {
		p.t.Fatalf("%s %s: %s %+v", method, params, in.ID, in.Error)
	}
	if err := json.Unmarshal(in.Result, out, compat.Lenient, json.RejectUnknownMembers(true)); err != nil {
		p.t.Fatalf("%s: %v", in.Result, err)
	}
}

func TestFlowOfWebSocket(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 3, Limits{})
	for who, n := range c.asked() {
		t.Run(who, func(t *testing.T) {
			p := dial(t, n.address)
			defer p.close()
			p.play()
			c.reset()
		})
	}
}

func (p *peer) play() {
	t := p.t
	var before, after listing
	var mail, plain accepted
	var job claimed
	var none map[string]any
	var stats figures
	p.call("listJobs", `{}`, &before)
	p.call("submitJob", `{"payload":{"a":[1.50,"\u00e9\ud800"]},"type":"mail","maxAttempts":2}`, &mail)
	p.call("submitJob", `null`, &plain)
	if !uuid4.MatchString(mail.JobID) || !uuid4.MatchString(plain.JobID) {
		t.Errorf("the ids are %v, %v", mail, plain)
	}
	p.call("claimJob", `{"workerId":"w","types":["nope",null]}`, &none)
	if len(none) != 0 {
		t.Errorf("claimed %v", none)
	}
	p.call("claimJob", `{"workerId":5,"types":["mail"]}`, &job)
	if job.JobID != mail.JobID || string(job.Payload) != `{"a":[1.50,"\u00e9\ud800"]}` || job.Type != "mail" {
		t.Errorf("claimed %+v", job)
	}
	job = claimed{}
	p.call("claimJob", `"abc"`, &job)
	if job.JobID != plain.JobID || job.Payload != nil || job.Type != "" {
		t.Errorf("claimed %+v", job)
	}
	p.call("heartbeat", `{"jobId":"`+mail.JobID+`","workerId":"5"}`, &none)
	p.call("completeJob", `{"jobId":"`+mail.JobID+`","workerId":"6"}`, &none)
	for _, id := range []string{`""`, `null`, `"../x"`, `"a/b"`, `5`, `"` + strings.Repeat("x", 5000) + `"`} {
		p.call("completeJob", `{"jobId":`+id+`}`, &none)
		p.call("heartbeat", `{"jobId":`+id+`,"workerId":"w"}`, &none)
	}
	p.call("listJobs", `[]`, &after)
	if len(after.Jobs) != 2 || after.InProgress != 2 || after.Jobs[0].WorkerID == nil || *after.Jobs[0].WorkerID != "5" ||
		after.Jobs[1].WorkerID == nil || *after.Jobs[1].WorkerID != "" || after.Jobs[0].MaxAttempts != 2 || after.Jobs[1].MaxAttempts != 0 {
		t.Errorf("listed %+v", after)
	}
	p.call("completeJob", `{"jobId":"`+mail.JobID+`","workerId":5}`, &none)
	p.call("completeJob", `{"jobId":"`+plain.JobID+`"}`, &none)
	p.call("getStats", `{}`, &stats)
	if stats.Total != 0 || stats.CompletedTotal != before.CompletedTotal+2 || stats.BrokerAddress != before.BrokerAddress {
		t.Errorf("figures %+v, before %+v", stats, before.figures)
	}
}

func TestErrorsOfWebSocket(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{})
	for who, n := range c.asked() {
		p := dial(t, n.address)
		for in, want := range map[string]struct{ id, tag, message string }{
			`{"id":"1",`:                   {`null`, protocolError, "Invalid JSON"},
			``:                             {`null`, protocolError, "Invalid JSON"},
			`{"id":7,"method":"nope"}`:     {`7`, protocolError, "Unsupported WS method: nope"},
			`{"id":[1]}`:                   {`[1]`, protocolError, "Unsupported WS method: undefined"},
			`{"method":["getStats"]}`:      {`null`, protocolError, "Unsupported WS method: getStats"},
			`"x"`:                          {`null`, protocolError, "Unsupported WS method: undefined"},
			`{"id":1,"method":"toString"}`: {`1`, protocolError, "Unsupported WS method: toString"},
		} {
			p.send(in)
			if got := p.receive(); got.OK || got.Error == nil || string(got.ID) != want.id || *got.Error != (tagged{want.tag, want.message}) {
				t.Errorf("%s: %s: %s %+v", who, in, got.ID, got.Error)
			}
		}
		p.send(`{"id":2,"method":"submitJob","params":{"type":"` + strings.Repeat("t", 1000) + `"}}`)
		if got := p.receive(); got.OK || got.Error.Tag != protocolError || string(got.ID) != `2` {
			t.Errorf("%s: a type of 1000 bytes: %+v", who, got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := p.conn.Write(ctx, websocket.MessageBinary, []byte(`{"id":"b","method":"getStats"}`)); err != nil {
			t.Fatal(err)
		}
		if got := p.receive(); !got.OK || string(got.ID) != `"b"` {
			t.Errorf("%s: a binary frame: %+v", who, got)
		}
		cancel()
		p.close()
	}
}

// Handshakes that fail, and requests that are none.
func TestHandshake(t *testing.T) {
	t.Parallel()
	c := start(t, 1, Limits{})
	at := c.leader().address
	upgrade := []string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13"}
	key := append(upgrade[:len(upgrade):len(upgrade)], "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	for name, test := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"plain":          {"GET", "/v1/ws", nil, 404},
		"HEAD":           {"HEAD", "/v1/ws", nil, 404},
		"POST":           {"POST", "/v1/ws", key, 404},
		"no key":         {"GET", "/v1/ws", upgrade, 400},
		"slash":          {"GET", "/v1/ws/", key, 404},
		"elsewhere":      {"GET", "/nope", key, 404},
		"a route of our": {"GET", "/v1/stats", key, 200},
	} {
		if got := request(t, test.method, at, test.path, "", test.headers...); got.status != test.status || test.headers == nil && got.body != "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

func TestOriginsOfWebSockets(t *testing.T) {
	for origins, want := range map[string]int{"any": 400, "none": 403, "http://a.test": 400, "http://b.test": 403} {
		o, err := ParseOrigins(origins)
		if err != nil {
			t.Fatal(err)
		}
		api := http.NotFoundHandler()
		r := &http.Request{Method: http.MethodGet, URL: mustURL(socketPath), ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Origin": {"http://a.test"}, // and no key: 400
		}}
		a := web.NewAnswer(http.Header{})
		New(Config{Native: api, Calls: compattest.API{Handler: api}, Origins: o}).ServeHTTP(a, r)
		if a.Status != want {
			t.Errorf("%s: %d, want %d", origins, a.Status, want)
		}
	}
}

// The calls of one connection run concurrently: a slow one delays no other.
func TestCallsRunConcurrently(t *testing.T) {
	release := make(chan struct{})
	h := serveAPI(t, Limits{ConnectionCalls: 4}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathClaim {
			<-release
		}
		fmt.Fprint(w, `{}`)
	})
	p := dial(t, h.address)
	defer p.close()
	for i := range 3 {
		p.send(fmt.Sprintf(`{"id":%d,"method":"claimJob"}`, i))
	}
	p.send(`{"id":"fast","method":"getStats"}`)
	if got := p.receive(); string(got.ID) != `"fast"` {
		t.Errorf("answered first: %s", got.ID)
	}
	// One slot is free: the fifth call takes it, the sixth waits.
	p.send(`{"id":4,"method":"claimJob"}`)
	p.send(`{"id":"waits","method":"getStats"}`)
	waitFor(t, "four calls", func() bool { return h.inside.Load() == 4 })
	close(release)
	seen := map[string]bool{}
	for range 5 {
		seen[string(p.receive().ID)] = true
	}
	if len(seen) != 5 || h.most.Load() != 4 {
		t.Errorf("answered %v, at most %d at once", seen, h.most.Load())
	}
}

// apiServer serves a Handler around the test's own HTTP API.
type apiServer struct {
	address      string
	handler      *Handler
	inside, most atomic.Int64
	figures      *prometheus.Registry
	stop         func()
}

// figure returns the sum of a metric over all series with the label's value; "" is any.
func (s *apiServer) figure(t testing.TB, name, label string) (sum float64) {
	t.Helper()
	families, err := s.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func serveAPI(t *testing.T, limits Limits, api http.HandlerFunc) *apiServer {
	t.Helper()
	s := &apiServer{figures: prometheus.NewRegistry()}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.inside.Add(1)
		for m := s.most.Load(); n > m; m = s.most.Load() {
			if s.most.CompareAndSwap(m, n) {
				break
			}
		}
		defer s.inside.Add(-1)
		api(w, r)
	})
	s.handler = New(Config{Native: counted, Calls: compattest.API{Handler: counted}, Limits: limits, Metrics: s.figures})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = ln.Addr().String()
	srv := &http.Server{Handler: s.handler}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	s.stop = sync.OnceFunc(func() {
		s.handler.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	t.Cleanup(s.stop)
	return s
}

func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s after 20 s", what)
		}
	}
}

// heapBytes returns the bytes of the heap in use.
func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what is in pools
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// count returns the number of open sockets.
func (s *sockets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

const manySockets = 1000

// A thousand connections, half of them through a follower, each run one job.
func TestThousandWebSockets(t *testing.T) {
	c := start(t, 3, Limits{})
	at := []string{c.leader().address, c.follower().address}
	before, heap := runtime.NumGoroutine(), heapBytes()
	peers := make([]*peer, manySockets)
	var group sync.WaitGroup
	for i := range peers {
		group.Go(func() { peers[i] = dial(t, at[i%len(at)]) })
	}
	group.Wait()
	if t.Failed() {
		return
	}
	open := runtime.NumGoroutine() - before
	held := heapBytes() - heap
	t.Logf("%d WebSockets, both ends here: %d goroutines, %d KiB of heap", manySockets, open, held>>10)
	if open > 3*manySockets || held > 64<<10*manySockets {
		t.Error("that is too much")
	}
	var done atomic.Int64
	for _, p := range peers {
		group.Go(func() {
			var job accepted
			var got claimed
			var none struct{}
			p.call("submitJob", `{"payload":{"n":1},"type":"t"}`, &job)
			p.call("claimJob", `{"workerId":"w","types":["t"]}`, &got)
			p.call("heartbeat", `{"workerId":"w","jobId":"`+got.JobID+`"}`, &none)
			p.call("completeJob", `{"workerId":"w","jobId":"`+got.JobID+`"}`, &none)
			done.Add(1)
		})
	}
	group.Wait()
	var stats v1.Stats
	readJSON(t, request(t, "GET", at[0], v1.PathStats, ""), &stats)
	if done.Load() != manySockets || stats.CompletedTotal != manySockets || stats.Total != 0 {
		t.Errorf("%d flows, %+v", done.Load(), stats)
	}
	for _, p := range peers {
		p.close()
	}
	for _, n := range c.all {
		waitFor(t, "end of the WebSockets", func() bool { return n.handler.sockets.count() == 0 })
	}
}

// Clients that do not read their answers are cut and occupy no more memory than the
// limits allow. Other clients are served meanwhile.
func TestSlowReaders(t *testing.T) {
	const jobBytes, clients, queue = 256 << 10, 100, 16 << 20
	list := `{"jobs":[{"id":"j","payload":"` + strings.Repeat("a", jobBytes) + `"}]}`
	h := serveAPI(t, Limits{AllQueueBytes: queue, Write: time.Second, QueueBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathJobs {
			fmt.Fprint(w, list)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	before := heapBytes()
	var now runtime.MemStats
	var cut atomic.Int64
	var group sync.WaitGroup
	for range clients {
		conn := openSocket(t, h.address)
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer conn.Close()
			ask := bytes.Repeat(frame(`{"id":1,"method":"listJobs"}`), 100)
			for ; ; time.Sleep(20 * time.Millisecond) {
				_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
				if _, err := conn.Write(ask); err != nil {
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						cut.Add(1)
					}
					return
				}
				ask = ask[:frameBytes] // often enough to see the end
			}
		})
	}
	polite := dial(t, h.address)
	defer polite.close()
	most, served := uint64(0), 0
	for cut.Load() < clients && served < 1_000_000 {
		var stats figures
		polite.call("getStats", `{}`, &stats)
		served++
		if queued := h.handler.sockets.queued.Load(); queued > queue {
			t.Fatalf("%d bytes wait", queued)
		}
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc)
	}
	group.Wait()
	t.Logf("%d of %d slow readers were cut; the heap grew by %d MiB at most; %d calls of another client", cut.Load(), clients,
		(most-before)>>20, served)
	if cut.Load() != clients {
		t.Errorf("%d of %d were cut", cut.Load(), clients)
	}
	// On a busy machine some are cut as silent first.
	if unread, all := h.figure(t, "osqueue_ws_cut_total", cutUnread), h.figure(t, "osqueue_ws_cut_total", ""); all != clients || unread == 0 {
		t.Errorf("the figure of those that were cut is %v, of these %v unread", all, unread)
	}
	if got := h.figure(t, "osqueue_ws_messages_total", methodStats); got != float64(served) {
		t.Errorf("%v messages of %d", got, served)
	}
	// The answers, eight lists in memory three times (read, parsed, encoded), and as much
	// garbage.
	if grown := most - before; grown > 128<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	waitFor(t, "empty queue", func() bool { return h.handler.sockets.queued.Load() == 0 })
}

// openSocket opens a WebSocket without a library, so that the test controls every byte.
func openSocket(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", socketPath)
	resp, err := http.ReadResponse(bufio.NewReaderSize(oneByte{conn}, 16), nil) //nolint:bodyclose // it has none
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	return conn
}

// oneByte keeps a buffer from reading ahead.
type oneByte struct{ io.Reader }

func (r oneByte) Read(b []byte) (int, error) { return r.Reader.Read(b[:1]) }

// frameBytes is the size of a frame in TestSlowReaders.
var frameBytes = len(frame(`{"id":1,"method":"listJobs"}`))

// frame encodes a short text as a client does.
func frame(text string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

// A client that does not answer a ping is cut; one that does stays.
func TestPings(t *testing.T) {
	const patience = 2 * time.Second
	h := serveAPI(t, Limits{Ping: 30 * time.Millisecond, Pong: patience}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	alive := dial(t, h.address)
	defer alive.close()
	heard := make(chan error, 1)
	go func() {
		_, _, err := alive.conn.Read(context.Background()) // answers pings meanwhile
		heard <- err
	}()
	began := time.Now()
	dead := openSocket(t, h.address)
	defer dead.Close()
	_ = dead.SetReadDeadline(began.Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, dead); err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	if took := time.Since(began); took < patience {
		t.Errorf("cut after %v", took)
	}
	select {
	case err := <-heard:
		t.Errorf("who answers was cut: %v", err)
	default:
	}
	// Meanwhile the other client is connected: one that disconnects during a ping is not
	// counted as silent.
	waitFor(t, "end of one", func() bool { return h.figure(t, "osqueue_ws_connections", "") == 1 })
	if silent, all := h.figure(t, "osqueue_ws_cut_total", cutSilent), h.figure(t, "osqueue_ws_cut_total", ""); silent != 1 || all != 1 {
		t.Errorf("%v were silent, of %v", silent, all)
	}
	alive.close()
	<-heard
	waitFor(t, "end of both", func() bool { return h.figure(t, "osqueue_ws_connections", "") == 0 })
}

// Every message is counted under a known method or other.
func TestMessagesAreCounted(t *testing.T) {
	h := serveAPI(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	p := dial(t, h.address)
	for method, text := range map[string]string{
		methodSubmit: `{"method":"submitJob"}`, methodClaim: `{"method":"claimJob"}`, methodHeartbeat: `{"method":"heartbeat"}`,
		methodComplete: `{"method":"completeJob"}`, methodStats: `{"method":"getStats"}`, methodList: `{"method":"listJobs"}`,
	} {
		p.send(text)
		p.receive()
		if got := h.figure(t, "osqueue_ws_messages_total", method); got != 1 {
			t.Errorf("%s: %v", method, got)
		}
	}
	for _, text := range []string{`{"method":"nope"}`, `{"method":["getStats"]}`, `{`, `null`, `{}`} {
		p.send(text)
		p.receive()
	}
	if got := h.figure(t, "osqueue_ws_messages_total", otherMethod); got != 5 {
		t.Errorf("others: %v", got)
	}
	if got := h.figure(t, "osqueue_ws_connections", ""); got != 1 {
		t.Errorf("%v are open", got)
	}
	p.close()
	waitFor(t, "end", func() bool { return h.figure(t, "osqueue_ws_connections", "") == 0 })
	if got := h.figure(t, "osqueue_ws_cut_total", ""); got != 0 {
		t.Errorf("%v were cut", got)
	}
}

// A socket whose client stops within a message is cut.
func TestMessageThatStops(t *testing.T) {
	h := serveAPI(t, Limits{Read: 100 * time.Millisecond, MessageBytes: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	conn := openSocket(t, h.address)
	defer conn.Close()
	if _, err := conn.Write([]byte{0x81, 0xfe, 0x10, 0, 0, 0, 0, 0, '{'}); err != nil { // 4096 bytes are to come
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("it is waited for: %v", err)
	}
	if got := h.figure(t, "osqueue_ws_cut_total", cutSilent); got != 1 {
		t.Errorf("%v were cut", got)
	}
}

func TestLargeWebSocketMessages(t *testing.T) {
	t.Parallel()
	c := start(t, 2, Limits{MessageBytes: 3 << 20, LargeMessages: 1})
	for who, n := range c.asked() {
		p := dial(t, n.address)
		var job accepted
		var got claimed
		payload := `"` + strings.Repeat("a", 2<<20) + `"`
		p.call("submitJob", `{"type":"l","payload":`+payload+`}`, &job)
		p.call("claimJob", `{"types":["l"]}`, &got)
		if got.JobID != job.JobID || string(got.Payload) != payload {
			t.Errorf("%s: %d bytes came back", who, len(got.Payload))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_ = p.conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat(" ", 4<<20))) // it may be cut in the middle
		if _, _, err := p.conn.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: after 4 MiB: %v", who, err)
		}
		cancel()
		p.close()
	}
}

func TestTooManyWebSockets(t *testing.T) {
	h := serveAPI(t, Limits{Connections: 2, Each: 2}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	first, second := dial(t, h.address), dial(t, h.address)
	defer second.close()
	handshake := func() (status int) {
		conn, resp, err := websocket.Dial(context.Background(), "ws://"+h.address+socketPath, nil) //nolint:bodyclose // it is read
		if err == nil {
			conn.CloseNow()
		}
		return resp.StatusCode
	}
	if got := handshake(); got != http.StatusServiceUnavailable {
		t.Errorf("one too many is answered %d", got)
	}
	if got := h.figure(t, "osqueue_ws_refused_total", ""); got != 1 {
		t.Errorf("%v were refused", got)
	}
	first.close()
	waitFor(t, "place", func() bool { return handshake() == http.StatusSwitchingProtocols })
}

// At the end of a node the calls in flight are answered, and all clients get a close
// frame or are cut.
func TestCloseOfWebSockets(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	h := serveAPI(t, Limits{Grace: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.PathClaim {
			close(entered)
			<-release
		}
		fmt.Fprint(w, `{}`)
	})
	idle, busy := dial(t, h.address), dial(t, h.address)
	defer idle.close()
	defer busy.close()
	deaf := openSocket(t, h.address)
	defer deaf.Close()
	busy.send(`{"id":"late","method":"claimJob"}`)
	<-entered
	heard := make(chan error, 1)
	go func() {
		_, _, err := idle.conn.Read(context.Background())
		heard <- err
	}()
	began := time.Now()
	closed := make(chan struct{})
	go func() { h.stop(); close(closed) }()
	if err := <-heard; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("who waits hears %v", err)
	}
	close(release)
	if got := busy.receive(); string(got.ID) != `"late"` || !got.OK {
		t.Errorf("the call under way: %+v", got)
	}
	if _, _, err := busy.conn.Read(context.Background()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("then %v", err)
	}
	<-closed
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

// A call that does not end does not delay the end of the node.
func TestCloseDoesNotWait(t *testing.T) {
	entered := make(chan struct{})
	h := serveAPI(t, Limits{Grace: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	p := dial(t, h.address)
	defer p.close()
	p.send(`{"id":1,"method":"getStats"}`)
	<-entered
	began := time.Now()
	h.stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if h.inside.Load() != 0 {
		t.Error("the call goes on")
	}
}

// A received call is executed although its client has gone.
func TestClientThatDisconnects(t *testing.T) {
	entered, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	h := serveAPI(t, Limits{}, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		done <- r.Context().Err()
	})
	p := dial(t, h.address)
	p.send(`{"id":1,"method":"submitJob"}`)
	<-entered
	p.close()
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the call was given up: %v", err)
	}
}
