package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/tests/cluster"
)

// framePeer is a client of the stream protocol that keeps no rule.
type framePeer struct {
	net.Conn
	in *bufio.Reader
}

// upgradeText returns the request that opens a stream.
func upgradeText(host, headers string) string {
	return "GET " + frame.Path + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "Connection: Upgrade\r\nUpgrade: " + frame.Protocol + "\r\n\r\n"
}

// framesAt opens a stream at a node. Its first frame is not sent yet.
func framesAt(t *testing.T, n *cluster.Node, headers string) *framePeer {
	t.Helper()
	p := &framePeer{Conn: dial(t, n.HTTP)}
	p.in = bufio.NewReader(p)
	_ = p.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(p, upgradeText(n.HTTP, headers)); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(p.in, nil) //nolint:bodyclose // an upgrade has no body: the frames follow
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade at %s: %v %v", n.Name, r, err)
	}
	return p
}

// frames encodes frames of one kind with ids from 1.
func frames(count int, k frame.Kind, m frame.Message) []byte {
	var b []byte
	for id := range count {
		b, _ = frame.Append(b, k, uint32(id+1), m)
	}
	return b
}

var helloFrame = frames(1, frame.KindHello, &frame.Hello{Version: 1, Agent: "attack"})

// put writes bytes. It returns false if the node has closed the connection.
func (p *framePeer) put(b []byte) bool {
	_, err := p.Write(b)
	return err == nil
}

// next reads the next frame of a kind, and skips others.
func (p *framePeer) next(k frame.Kind) (head frame.Head, body []byte, err error) {
	var buf [frame.HeadBytes]byte
	for {
		if head, err = frame.ReadHead(p.in, &buf); err != nil {
			return head, nil, err
		}
		body = make([]byte, head.Length)
		if _, err = io.ReadFull(p.in, body); err != nil || head.Kind == k {
			return head, body, err
		}
	}
}

// ask sends a request and returns its answer.
func (p *framePeer) ask(id uint32, r *frame.Request) (a frame.Answer, err error) {
	b, err := frame.Append(nil, frame.KindRequest, id, r)
	if err != nil {
		return a, err
	}
	p.put(b)
	head, body, err := p.next(frame.KindAnswer)
	if err == nil && head.ID != id {
		err = fmt.Errorf("the answer has the id %d", head.ID)
	}
	if err != nil {
		return a, err
	}
	return a, a.Parse(body)
}

// ends reads until the node closes the connection.
func (p *framePeer) ends(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, p.in); err != nil && isTimeout(err) {
		t.Errorf("the connection is open")
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error) //nolint:errorlint // of a connection, as it is
	return ok && n.Timeout()
}

// followed is a cluster with a follower that serves streams, whose requests it forwards to the leader.
type followed struct {
	*secured
	follower *cluster.Node
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	s := newSecuredWith(t, cluster.Options{})
	r := &followed{secured: s}
	for _, n := range s.Nodes {
		if n != s.node {
			r.follower = n
		}
	}
	return r
}

// open opens a stream at the follower.
func (r *followed) open(t *testing.T, headers string) *framePeer {
	t.Helper()
	p := framesAt(t, r.follower, headers)
	p.put(helloFrame)
	if _, _, err := p.next(frame.KindHello); err != nil {
		t.Fatal(err)
	}
	return p
}

// A token has the same limits over a stream of a follower, whatever its upgrade and its frames say.
func TestForgedFramesAtAFollower(t *testing.T) {
	t.Parallel()
	r := newFollowed(t)
	producer := bearer(r.give(`{"role":"producer","types":["mail"]}`).Token)
	forged := v1.HeaderForwarded + ": n1\r\n" + v1.HeaderPrincipal + ": local-admin\r\n" + v1.HeaderCertificate + `: {"name":"admin"}` + "\r\nX-Forwarded-For: 127.0.0.1\r\n"
	for name, headers := range map[string]string{
		"no token": "", "forged headers without a token": forged, "a forged token and headers": forged + bearer("osq_a_b_c"), "a connection header": "Connection: " + v1.HeaderForwarded + "\r\n" + forged,
	} {
		r.attack(name, func(t *testing.T) {
			a, err := request(r.follower.HTTP, upgradeText(r.follower.HTTP, headers), answerMax)
			if err != nil || a.StatusCode != http.StatusUnauthorized {
				t.Errorf("answered %+v %v", a, err)
			}
		})
	}
	long := strings.Repeat("a", 100<<10)
	const newAdmin = `{"role":"admin"}`
	p := r.open(t, forged+producer)
	id := uint32(0)
	for _, row := range []struct {
		name    string
		request frame.Request
		want    []uint32
	}{
		{"a token", frame.Request{Target: v1.PathTokens, Body: []byte(newAdmin)}, []uint32{403}},
		{"a token by a path with dots", frame.Request{Target: "/v1/jobs/../tokens", Body: []byte(newAdmin)}, []uint32{404}},
		{"a token by an escaped path", frame.Request{Target: "/v1/%74okens", Body: []byte(newAdmin)}, []uint32{403, 404}},
		{"a token by two slashes", frame.Request{Target: "//v1/tokens", Body: []byte(newAdmin)}, []uint32{400, 404}},
		{"a token by a URL", frame.Request{Target: "http://" + r.node.HTTP + v1.PathTokens, Body: []byte(newAdmin)}, []uint32{400, 403, 404}},
		{"another type", frame.Request{Target: v1.PathJobs, Body: []byte(`{"type":"bank"}`)}, []uint32{403}},
		{"a claim", frame.Request{Target: v1.PathClaim, Body: []byte(`{"workerId":"w"}`)}, []uint32{403}},
		{"within another request", frame.Request{Target: v1.PathJobs + "?within=local-admin", Body: []byte(`{"type":"bank"}`)}, []uint32{400, 403}},
		{"the principal in the body", frame.Request{Target: v1.PathJobs, Body: []byte(`{"type":"bank","principal":"local-admin"}`)}, []uint32{400, 403}},
		{"the principal in the key", frame.Request{Target: v1.PathTokens, Body: []byte(newAdmin), Key: "k\r\n" + v1.HeaderPrincipal + ": local-admin"}, []uint32{400, 403}},
		{"the principal in a preference", frame.Request{Target: v1.PathTokens, Body: []byte(newAdmin), Prefer: "x\r\n" + v1.HeaderPrincipal + ": local-admin"}, []uint32{403}},
		{"the principal in the method", frame.Request{Target: v1.PathTokens, Method: "POST " + v1.PathTokens + " HTTP/1.1\r\n" + v1.HeaderPrincipal + ": local-admin\r\n"}, []uint32{400, 404}},
		{"a join", frame.Request{Target: "/cluster/v1/join", Body: []byte(`{}`)}, []uint32{404}},
		{"a page", frame.Request{Target: "/ui/login", Body: []byte(`{}`)}, []uint32{404}},
		{"a stream in the stream", frame.Request{Target: frame.Path, Method: "GET"}, []uint32{404}},
		{"a read", frame.Request{Target: v1.PathState, Method: "GET"}, []uint32{404}},
		{"CONNECT", frame.Request{Target: "127.0.0.1:1", Method: "CONNECT"}, []uint32{400, 404}},
		{"an empty target", frame.Request{}, []uint32{400, 404}},
		{"a star", frame.Request{Target: "*"}, []uint32{400, 404}},
		{"NUL in the target", frame.Request{Target: "/v1/jobs\x00"}, []uint32{400, 404}},
		{"a long target", frame.Request{Target: "/v1/" + long}, []uint32{400, 404, 413, 414}},
		{"a long key", frame.Request{Target: v1.PathJobs, Body: []byte(mailJob), Key: long}, []uint32{400, 413, 431}},
		{"bytes that are not UTF-8", frame.Request{Target: v1.PathJobs, Body: []byte("{\"type\":\"\xff\"}")}, []uint32{400, 403}},
		{"no JSON", frame.Request{Target: v1.PathJobs, Body: []byte("{")}, []uint32{400}},
	} {
		id++
		r.attack(row.name, func(t *testing.T) {
			a, err := p.ask(id, &row.request)
			for _, want := range row.want {
				if err == nil && a.Status == want {
					return
				}
			}
			t.Errorf("answered %d %.200s %v, want one of %v", a.Status, a.Body, err, row.want)
		})
	}
	r.attack("the stream afterwards", func(t *testing.T) {
		if a, err := p.ask(1000, &frame.Request{Target: v1.PathJobs, Body: []byte(`{"id":"good","type":"mail"}`)}); err != nil || a.Status != http.StatusOK {
			t.Errorf("answered %d %s %v", a.Status, a.Body, err)
		}
	})
	var jobs struct{ Jobs []v1.Job }
	a := try(t, r.node, "GET", v1.PathJobs+"?status=all", bearer(r.token), "")
	if err := json.Unmarshal([]byte(a.Body), &jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Jobs {
		if j.Type != "bystander" && j.ID != "good" {
			t.Errorf("the attacks have made the job %s of the type %q", j.ID, j.Type)
		}
	}
	r.settled()
}

// Frames that break the protocol end their own connection, and floods of frames through a follower
// cost both nodes bounded memory.
func TestFloodsAtAFollower(t *testing.T) {
	t.Parallel()
	r := newFollowed(t)
	head := bearer(r.give(`{"role":"admin"}`).Token)
	job := &frame.Request{Target: v1.PathJobs, Body: []byte(`{"type":"flood"}`)}
	waits := &frame.Request{Target: v1.PathClaim, Body: []byte(`{"workerId":"w","types":["none"],"max":1000,"waitMs":60000}`)}
	huge := &frame.Request{Target: v1.PathJobs, Body: bytes.Repeat([]byte(" "), 3<<20)}
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	headOf := func(length uint32, k frame.Kind) []byte {
		return frame.AppendHead(nil, frame.Head{Length: length, Kind: k, ID: 1})
	}

	for name, b := range map[string][]byte{
		"a request before the hello":   frames(1, frame.KindRequest, job),
		"an answer before the hello":   frames(1, frame.KindAnswer, &frame.Answer{Status: 200}),
		"a hello of version 0":         frames(1, frame.KindHello, &frame.Hello{Agent: "x"}),
		"a hello that is no message":   frames(1, frame.KindHello, frame.Bytes("\xff\xff\xff")),
		"a hello of 1 GiB":             headOf(1<<30, frame.KindHello),
		"a request of 4 GiB":           append(bytes.Clone(helloFrame), headOf(1<<32-1, frame.KindRequest)...),
		"a ping of 1 MiB":              append(bytes.Clone(helloFrame), frames(1, frame.KindPing, frame.Bytes(make([]byte, 1<<20)))...),
		"an unknown kind of 1 MiB":     append(bytes.Clone(helloFrame), frames(1, 200, frame.Bytes(make([]byte, 1<<20)))...),
		"a request that is no message": append(bytes.Clone(helloFrame), frames(1, frame.KindRequest, frame.Bytes("\x0a\xff"))...),
		"two requests with one id":     append(append(bytes.Clone(helloFrame), frames(1, frame.KindRequest, waits)...), frames(1, frame.KindRequest, waits)...),
		"garbage":                      bytes.Repeat([]byte{0xff}, 4096),
		"HTTP":                         []byte(requestText("GET", v1.PathJobs, "x", head, "")),
	} {
		r.attack(name, func(t *testing.T) {
			p := framesAt(t, r.follower, head)
			p.put(b)
			p.ends(t)
		})
	}

	many := func(count int, b []byte) func(t *testing.T) {
		return func(t *testing.T) {
			for range count {
				p := framesAt(t, r.follower, head)
				_ = p.SetWriteDeadline(time.Now().Add(time.Second))
				p.put(b)
			}
		}
	}
	flood := func(b []byte, reads bool) func(t *testing.T) {
		return func(t *testing.T) {
			p := r.open(t, head)
			if reads {
				go func() { _, _ = io.Copy(io.Discard, p.in) }() // ends with the connection
			}
			_ = p.SetWriteDeadline(time.Now().Add(floodTime))
			for p.put(b) {
			}
		}
	}
	with := func(b []byte) []byte { return append(bytes.Clone(helloFrame), b...) }
	for _, row := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"half a hello", many(100, cut(helloFrame, 1))},
		{"no hello", many(100, nil)},
		{"half a head", many(100, with(headOf(10, frame.KindRequest)[:5]))},
		{"half a request", many(100, with(cut(frames(1, frame.KindRequest, job), 1)))},
		{"half of a large request", many(50, with(cut(frames(1, frame.KindRequest, huge), 1)))},
		{"cancels of unknown requests", flood(frames(1000, frame.KindCancel, nil), true)},
		{"answers of a client", flood(frames(1000, frame.KindAnswer, &frame.Answer{Status: 200}), true)},
		{"moves of a client", flood(frames(1000, frame.KindMoved, &frame.Moved{Leader: "127.0.0.1:1", Closing: true}), true)},
		{"hellos", flood(frames(1000, frame.KindHello, &frame.Hello{Version: 1}), true)},
		{"pings", flood(frames(1000, frame.KindPing, nil), true)},
		{"pings that are not read", flood(frames(1000, frame.KindPing, nil), false)},
		{"unknown kinds", flood(frames(1000, 200, frame.Bytes("x")), true)},
		{"claims that wait", many(6, with(frames(1500, frame.KindRequest, waits)))},
		{"answers that are not read", func(t *testing.T) {
			var open []*framePeer
			for range 10 {
				open = append(open, r.open(t, head))
			}
			for _, p := range open {
				go func() { // ends with the connection
					refused := &frame.Request{Target: "/" + strings.Repeat("x", 2000)}
					for p.put(frames(200, frame.KindRequest, refused)) {
					}
				}()
			}
			for _, p := range open {
				r.Eventually(patience, "the end of a client that does not read", func() error {
					_ = p.SetWriteDeadline(time.Now().Add(patience))
					if p.put(frames(1, frame.KindPing, nil)) {
						return fmt.Errorf("it is open")
					}
					return nil
				})
			}
		}},
		{"bodies over the limit", func(t *testing.T) {
			p := r.open(t, head)
			over := frames(1, frame.KindRequest, &frame.Request{Target: v1.PathJobs, Body: make([]byte, 20<<20)})
			p.put(over)
			_, body, err := p.next(frame.KindAnswer)
			var a frame.Answer
			if err == nil {
				err = a.Parse(body)
			}
			if err != nil || a.Status != http.StatusRequestEntityTooLarge {
				t.Errorf("answered %d %v", a.Status, err)
			}
		}},
		{"clients that connect again and again", func(t *testing.T) {
			for until := time.Now().Add(3 * floodTime); time.Now().Before(until); {
				p := framesAt(t, r.follower, head)
				p.put(with(frames(10, frame.KindRequest, waits)))
				_ = p.Close()
			}
		}},
	} {
		r.attack(row.name, row.run)
		for _, n := range []*cluster.Node{r.node, r.follower} {
			t.Logf("after %s: %s has at most %d MiB more than at rest", row.name, n.Name, (resident(t, n, "VmHWM")-r.before[n])>>20)
		}
	}
	r.attack("a stream afterwards", func(t *testing.T) {
		if a, err := r.open(t, head).ask(1, job); err != nil || a.Status != http.StatusOK {
			t.Errorf("answered %d %s %v", a.Status, a.Body, err)
		}
	})
	r.settled()
}
