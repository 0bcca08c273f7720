package attack

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// hookTimeout is the time that a node gives a receiver, with a margin.
const hookTimeout = 10*time.Second + patience

// trap listens where no webhook may arrive, and counts what arrives. It returns the port and the count.
func trap(t *testing.T, address string) (string, *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	caught := new(atomic.Int64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port, caught
}

// putHook puts a webhook, as an operator who may do that.
func putHook(t *testing.T, n *cluster.Node, name, url string, plain bool) *answer {
	t.Helper()
	body, err := json.Marshal(v1.NewHook{URL: url, On: []string{"job.dead"}, HTTP: plain})
	if err != nil {
		t.Fatal(err)
	}
	return try(t, n, http.MethodPut, v1.PathHooks+"/"+name, "", string(body))
}

// testHook makes one event of a webhook.
func testHook(t *testing.T, n *cluster.Node, name string) {
	t.Helper()
	if a := try(t, n, http.MethodPost, v1.PathHooks+"/"+name+"/"+v1.ActionTest, "", ""); a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", name, a.StatusCode, a.Body)
	}
}

// attempted waits for the first attempt to deliver an event of a webhook.
func attempted(t *testing.T, g *target, name string) (first v1.HookAttempt) {
	t.Helper()
	g.Eventually(hookTimeout, "an attempt of "+name, func() error {
		a := try(t, g.Nodes[0], http.MethodGet, v1.PathHooks+"/"+name+"/"+v1.ActionDeliveries, "", "")
		var out v1.HookDeliveries
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil {
			return fmt.Errorf("%d %s", a.StatusCode, a.Body)
		}
		if len(out.Attempts) == 0 {
			return fmt.Errorf("%d events wait", len(out.Pending))
		}
		first = out.Attempts[len(out.Attempts)-1]
		return nil
	})
	return first
}

// A webhook reaches no address inside, however it is written, and no other protocol.
func TestHooksThatPointInside(t *testing.T) {
	t.Parallel()
	g := shareTarget(t)
	n := g.Nodes[0]
	port, caught := trap(t, ":0")
	_, httpPort, _ := net.SplitHostPort(n.HTTP)
	hosts := []string{
		"127.0.0.1:" + port, "localhost:" + port, "localhost.:" + port, "0.0.0.0:" + port, "[::1]:" + port, "[::]:" + port, "[::ffff:127.0.0.1]:" + port,
		"[::ffff:7f00:1]:" + port, "[::127.0.0.1]:" + port, "[64:ff9b::7f00:1]:" + port, "[2002:7f00:1::]:" + port, "[fe80::1%25lo]:" + port,
		"2130706433:" + port, "0x7f000001:" + port, "017700000001:" + port, "127.1:" + port, "0177.0.0.1:" + port, "0x7f.0.0.1:" + port,
		"127.255.255.254:" + port, n.HTTP, n.Raft, "0:" + httpPort,
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200", "192.0.0.192", "10.0.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255",
	}
	// A node has at most 32 hooks.
	for i, host := range hosts {
		name := "inside-" + strconv.Itoa(i)
		if a := putHook(t, n, name, "http://"+host+"/", true); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", host, a.StatusCode, a.Body)
		}
		testHook(t, n, name)
	}
	for i, host := range hosts {
		g.attack(host, func(t *testing.T) {
			a := attempted(t, g, "inside-"+strconv.Itoa(i))
			if a.Status != 0 || a.Error == "" {
				t.Errorf("answered %d %q", a.Status, a.Error)
			}
			if strings.Contains(a.Error, "refused") || strings.Contains(a.Error, "in time") {
				t.Errorf("the node has dialed the address: %s", a.Error)
			}
		})
	}
	for _, url := range []string{
		"file:///etc/passwd", "gopher://127.0.0.1:6379/_SET", "ftp://example.com/", "unix:///data/admin.sock", "http+unix://x/", "//example.com/", "javascript:alert(1)",
		"https://user:secret@example.com/", "https://example.com@127.0.0.1/", "https://example.com/#@127.0.0.1", "https://exa\r\nX-A: b/", "https:///x",
		"https://127.0.0.1:99999999/", "https://[::1/", "https://example.com\\@127.0.0.1/", "https://example.com/" + strings.Repeat("x", 4<<10), "",
	} {
		g.attack(fmt.Sprintf("the URL %.40q", url), func(t *testing.T) {
			if a := putHook(t, n, "refused", url, false); a.StatusCode != http.StatusBadRequest {
				t.Errorf("answered %d %s", a.StatusCode, a.Body)
			}
		})
	}
	g.attack("http without the flag", func(t *testing.T) {
		if a := putHook(t, n, "refused", "http://example.com/", false); a.StatusCode != http.StatusBadRequest {
			t.Errorf("answered %d %s", a.StatusCode, a.Body)
		}
	})
	if n := caught.Load(); n != 0 {
		t.Errorf("%d connections arrived inside", n)
	}
	g.settled()
}

// rawReceiver answers each connection of a webhook by hand, after the head of the request has
// arrived. It returns its URL, and counts the bytes that it could write.
func rawReceiver(t *testing.T, answer func(c net.Conn)) (url string, written *atomic.Int64) {
	t.Helper()
	return receiverOf(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 64<<10)); err == nil {
			answer(c)
		}
	})
}

// receiverOf is rawReceiver for a receiver that does not wait for a request.
func receiverOf(t *testing.T, answer func(c net.Conn)) (url string, written *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	written = new(atomic.Int64)
	var open sync.Map
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			serving.Go(func() {
				defer c.Close()
				answer(countedConn{c, written})
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		serving.Wait()
	})
	return "http://" + ln.Addr().String() + "/", written
}

type countedConn struct {
	net.Conn
	written *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// endless writes a head, and then a text until the other side closes.
func endless(head, text string, pause time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, text)
			time.Sleep(pause)
		}
	}
}

// once writes a text and closes.
func once(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// hung writes a text and then nothing.
func hung(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// A receiver that does harm costs a node ten seconds and a few KiB, and delays no other receiver.
// Redirects lead nowhere.
func TestReceiversOfWebhooksThatDoHarm(t *testing.T) {
	t.Parallel()
	proxy, proxied := trap(t, "127.0.0.1:0")
	through := "=http://127.0.0.1:" + proxy
	g := newTargetWith(t, cluster.Options{
		Nodes: 1, Flags: []string{"--hook-allow", "127.0.0.1"},
		Env: []string{"HTTP_PROXY" + through, "HTTPS_PROXY" + through, "ALL_PROXY" + through, "http_proxy" + through, "https_proxy" + through},
	})
	n := g.Nodes[0]
	port, caught := trap(t, "127.0.0.2:0")
	redirect := func(status int, to string) func(net.Conn) {
		return once(fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status, to))
	}
	const ok, long = "HTTP/1.1 200 OK\r\n", 64 << 10
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 64<<20))
	_ = z.Close()
	const noStatus = 0
	rows := []struct {
		name   string
		answer func(net.Conn)
		status int
	}{
		{"301 to a private address", redirect(301, "http://127.0.0.2:"+port+"/"), 301},
		{"302 to a private address", redirect(302, "http://127.0.0.2:"+port+"/"), 302},
		{"303 to a private address", redirect(303, "http://127.0.0.2:"+port+"/"), 303},
		{"307 to a private address", redirect(307, "http://127.0.0.2:"+port+"/"), 307},
		{"308 to the metadata", redirect(308, "http://169.254.169.254/latest/meta-data/"), 308},
		{"302 to the node", redirect(302, "http://"+n.HTTP+v1.PathState), 302},
		{"302 to a file", redirect(302, "file:///etc/passwd"), 302},
		{"no answer", hung(""), noStatus},
		{"half a status line", hung("HTTP/1.1 20"), noStatus},
		{"half a head", hung(ok + "X-A: b\r\n"), noStatus},
		{"half a body", hung(ok + "Content-Length: 100\r\n\r\n{"), 200},
		{"a slow head", endless(ok, "X-A: b\r\n", 20*time.Millisecond), noStatus},
		{"a slow body", endless(ok+"Content-Length: 1000000\r\n\r\n", ".", 20*time.Millisecond), 200},
		{"gigabytes", endless(ok+"Content-Length: 999999999999\r\n\r\n", strings.Repeat("x", long), 0), 200},
		{"gigabytes in chunks", endless(ok+"Transfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat("x", long)+"\r\n", 0), 200},
		{"a huge chunk", endless(ok+"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n", strings.Repeat("x", long), 0), 200},
		{"endless extensions of a chunk", endless(ok+"Transfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("x", long), 0), 200},
		{"endless headers", endless(ok, "X-A: "+strings.Repeat("b", 100)+"\r\n", 0), noStatus},
		{"an endless header", endless(ok+"X-A: ", strings.Repeat("b", long), 0), noStatus},
		{"an endless status line", endless("HTTP/1.1 200 ", strings.Repeat("b", long), 0), noStatus},
		{"endless informational answers", endless("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0), noStatus},
		{"an upgrade", once("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 101},
		{"a bomb", once(ok + "Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(bomb.Len()) + "\r\n\r\n" + bomb.String()), 200},
		{"a negative length", once(ok + "Content-Length: -1\r\n\r\n"), noStatus},
		{"garbage", once(strings.Repeat("\xff", long)), noStatus},
		{"an end at once", once(""), noStatus},
		{"a second answer", endless(ok+"Content-Length: 0\r\n\r\n", ok+"Content-Length: 0\r\n\r\n", 0), 200},
	}
	written := make([]*atomic.Int64, len(rows))
	for i, r := range rows {
		var url string
		url, written[i] = rawReceiver(t, r.answer)
		if a := putHook(t, n, "bad-"+strconv.Itoa(i), url, true); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", r.name, a.StatusCode, a.Body)
		}
		testHook(t, n, "bad-"+strconv.Itoa(i))
	}
	good, _ := rawReceiver(t, once(ok+"Content-Length: 0\r\nConnection: close\r\n\r\n"))
	if a := putHook(t, n, "good", good, true); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	g.attack("another receiver meanwhile", func(t *testing.T) {
		began := time.Now()
		testHook(t, n, "good")
		if a := attempted(t, g, "good"); a.Status != http.StatusOK || a.Error != "" || time.Since(began) > answerMax {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
	})
	for i, r := range rows {
		g.attack(r.name, func(t *testing.T) {
			a := attempted(t, g, "bad-"+strconv.Itoa(i))
			if a.Status != r.status || (a.Error == "") != (r.status == http.StatusOK) {
				t.Errorf("%+v, want the status %d", a, r.status)
			}
			if a.TookMs > 12_000 {
				t.Errorf("it took %d ms", a.TookMs)
			}
			// What the buffers of sockets hold is not read.
			if sent := written[i].Load(); sent > 32<<20 {
				t.Errorf("the receiver has sent %d MiB", sent>>20)
			}
		})
	}
	if n := caught.Load(); n != 0 {
		t.Errorf("%d connections arrived at a private address", n)
	}
	// Go takes no proxy for loopback addresses, so this one is another private one.
	g.attack("a proxy of the environment", func(t *testing.T) {
		if a := putHook(t, n, "proxied", "http://10.0.0.1/", true); a.StatusCode != http.StatusOK {
			t.Fatal(a.Body)
		}
		testHook(t, n, "proxied")
		if a := attempted(t, g, "proxied"); a.Status != 0 || a.Error == "" || proxied.Load() != 0 {
			t.Errorf("%+v, and %d connections arrived at the proxy", a, proxied.Load())
		}
	})
	g.settled()
}

// overTLS makes the connections of a receiver ones with TLS that speak a protocol.
func overTLS(cert tls.Certificate, protocol string, answer func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		secured := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12})
		if secured.Handshake() == nil {
			answer(secured)
		}
	}
}

// frames2 answers a webhook over HTTP/2: it sends settings, and then calls frames until the node
// closes the connection. The requests are not read as frames.
func frames2(frames func(f *http2.Framer) error) func(net.Conn) {
	return func(c net.Conn) {
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = io.Copy(io.Discard, c) })
		f := http2.NewFramer(c, nil)
		f.AllowIllegalWrites = true
		for err := f.WriteSettings(); err == nil; {
			err = frames(f)
		}
		_ = c.Close()
		reading.Wait()
	}
}

// The same for receivers over TLS. A receiver that speaks HTTP/2 although a node does not ask for it
// cannot keep the node busy after the end of its request.
func TestReceiversOfWebhooksOverTLS(t *testing.T) {
	t.Parallel()
	good := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Proto, r.Header.Get("Webhook-Id"))
	}))
	good.EnableHTTP2 = true
	good.StartTLS()
	t.Cleanup(good.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cert := good.TLS.Certificates[0]
	g := newTarget(t, 1, "--hook-allow", "127.0.0.1", "--hook-ca", ca)
	n := g.Nodes[0]
	block := func(fields ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i+1 < len(fields); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return b.Bytes()
	}
	begin := func(f *http2.Framer, end bool) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "200"), EndHeaders: true, EndStream: end})
	}
	first := func(then func(f *http2.Framer) error) func(*http2.Framer) error {
		begun := false
		return func(f *http2.Framer) error {
			if !begun {
				begun = true
				return begin(f, false)
			}
			return then(f)
		}
	}
	rows := []struct {
		name   string
		answer func(net.Conn)
	}{
		{"no handshake", hung("")},
		{"half a handshake", hung("\x16\x03\x03\x40\x00\x02")},
		{"plain text", once("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
		{"garbage after the handshake", overTLS(cert, "h2", once(strings.Repeat("\xff", 64<<10)))},
		{"no frame", overTLS(cert, "h2", hung(""))},
		{"PING", overTLS(cert, "h2", frames2(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }))},
		{"SETTINGS", overTLS(cert, "h2", frames2(func(f *http2.Framer) error { return f.WriteSettings() }))},
		{"informational heads", overTLS(cert, "h2", frames2(func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "103", "link", "</x>"), EndHeaders: true})
		}))},
		{"CONTINUATION", overTLS(cert, "h2", func() func(net.Conn) {
			begun := false
			return frames2(func(f *http2.Framer) error {
				if !begun {
					begun = true
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "200")})
				}
				return f.WriteContinuation(1, false, block("x-a", strings.Repeat("b", 1000)))
			})
		}())},
		{"pushed requests", overTLS(cert, "h2", frames2(func(f *http2.Framer) error {
			return f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: block(":method", "GET"), EndHeaders: true})
		}))},
		{"resets", overTLS(cert, "h2", frames2(func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeRefusedStream) }))},
		{"a farewell", overTLS(cert, "h2", frames2(func(f *http2.Framer) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }))},
		{"empty DATA", overTLS(cert, "h2", frames2(first(func(f *http2.Framer) error { return f.WriteData(1, false, nil) })))},
		{"gigabytes of DATA", overTLS(cert, "h2", frames2(first(func(f *http2.Framer) error { return f.WriteData(1, false, make([]byte, 16<<10)) })))},
	}
	written := make([]*atomic.Int64, len(rows))
	for i, r := range rows {
		var url string
		url, written[i] = receiverOf(t, r.answer)
		name := "tls-" + strconv.Itoa(i)
		if a := putHook(t, n, name, strings.Replace(url, "http:", "https:", 1), false); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", r.name, a.StatusCode, a.Body)
		}
		testHook(t, n, name)
	}
	stranger, _ := receiverOf(t, overTLS(foreignCertificate(t), "http/1.1", once("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
	if a := putHook(t, n, "stranger", strings.Replace(stranger, "http:", "https:", 1), false); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	testHook(t, n, "stranger")
	g.attack("a certificate of another CA", func(t *testing.T) {
		if a := attempted(t, g, "stranger"); a.Status != 0 || !strings.Contains(a.Error, "certificate") {
			t.Errorf("%+v", a)
		}
	})
	if a := putHook(t, n, "good", good.URL, false); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	g.attack("another receiver over TLS meanwhile", func(t *testing.T) {
		testHook(t, n, "good")
		if a := attempted(t, g, "good"); a.Status != http.StatusOK || a.Error != "" {
			t.Errorf("%+v", a)
		}
	})
	for i, r := range rows {
		g.attack(r.name+" over TLS", func(t *testing.T) {
			a := attempted(t, g, "tls-"+strconv.Itoa(i))
			t.Logf("%d %q in %d ms", a.Status, a.Error, a.TookMs)
			if a.Error == "" || a.TookMs > 12_000 {
				t.Errorf("%+v", a)
			}
		})
	}
	before := int64(-1)
	g.Eventually(patience, "the end of all floods", func() error {
		sum := int64(0)
		for _, n := range written {
			sum += n.Load()
		}
		if last := before; sum != last {
			before = sum
			return fmt.Errorf("%d bytes were taken, and %d before", sum, last)
		}
		return nil
	})
	g.settled()
}

// foreignCertificate makes a certificate for the loopback, of a CA that no node knows.
func foreignCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err == nil {
		_, err = a.Issue(certs.Request{Kind: certs.Node, Name: "evil", Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "evil.crt"), filepath.Join(dir, "evil.key"))
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
