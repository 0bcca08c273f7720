package replay

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"osqueue/tests/replay/transcript"
)

// file makes a file of cases, and adds their names.
func file(t *testing.T, cases ...string) transcript.File {
	t.Helper()
	for i, c := range cases {
		cases[i] = fmt.Sprintf(`{"name":"c%d","seq":"s",%s}`, i+1, c)
	}
	all, err := transcript.Load([]byte("[" + strings.Join(cases, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return transcript.File{Name: "x/y.json", Cases: all}
}

// against plays against a handler, without emptying the queue.
func against(t *testing.T, f transcript.File, h http.HandlerFunc, change func(*player)) (results []result) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	p := &player{at: servers{base: server.URL, leader: server.URL}, reset: staysEmpty}
	if change != nil {
		change(p)
	}
	p.open()
	defer p.close()
	for _, s := range sequences(f) {
		some, err := p.play(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, some...)
	}
	return results
}

// wantOutcomes compares the outcomes of all cases, separated by blanks.
func wantOutcomes(t *testing.T, results []result, want string) {
	t.Helper()
	var all []string
	for _, r := range results {
		all = append(all, r.outcome)
	}
	if got := strings.Join(all, " "); got != want {
		t.Errorf("outcomes %s, want %s", got, want)
		for _, r := range results {
			t.Logf("%s %s: %v", r.name(), r.request, r.diff)
		}
	}
}

// TestRequestIsSentAsItIs checks the request that arrives.
func TestRequestIsSentAsItIs(t *testing.T) {
	for _, c := range []struct{ request, want string }{
		{`"method":"GET","path":"/a"`, "GET /a none"},
		{`"method":"POST","path":"/a"`, "POST /a length 0"},
		{`"method":"POST","path":"/a","bodyText":""`, "POST /a length 0"},
		{`"method":"GET","path":"/a/%2e%2E//b?x=%zz"`, "GET /a/%2e%2E//b?x=%zz none"},
		{`"method":"POST","path":"/a","headers":{"content-type":"text/x"},"bodyText":"hi"`, "POST /a length 2 type text/x: hi"},
		{`"method":"POST","path":"/a","bodyText":"hi"`, "POST /a length 2: hi"},
		{`"method":"POST","path":"/a","chunked":true,"bodyText":"hi"`, "POST /a chunked: hi"},
		{`"method":"POST","path":"/a","chunked":true,"bodyText":""`, "POST /a chunked"},
		{
			`"method":"POST","path":"/a","bodyText":"hi","headers":{"content-type":"a/b"},"clientHeaders":{"content-type":"c/d","user-agent":"me","Transfer-Encoding":"chunked","Content-Length":"77","host":"x"}`,
			"POST /a length 2 type a/b agent me: hi",
		},
	} {
		var got string
		results := against(t, file(t, `"request":{`+c.request+`},"response":{"status":200}`), func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.RequestURI
			switch {
			case len(r.TransferEncoding) > 0:
				got += " chunked"
			case r.Header.Get("Content-Length") != "":
				got += fmt.Sprintf(" length %d", r.ContentLength)
			default:
				got += " none"
			}
			if v := r.Header.Get("Content-Type"); v != "" {
				got += " type " + v
			}
			if v := r.Header.Get("User-Agent"); v == "me" {
				got += " agent " + v
			}
			if len(body) > 0 {
				got += ": " + string(body)
			}
		}, nil)
		wantOutcomes(t, results, "pass")
		if got != c.want {
			t.Errorf("%s arrived as %q, want %q", c.request, got, c.want)
		}
	}
}

// TestSequence captures in one case the values that other cases use, correct or not, and
// continues after a failure.
func TestSequence(t *testing.T) {
	f := file(t,
		`"request":{"method":"POST","path":"/jobs"},"response":{"status":201,"body":{"id":"x"}},"capture":{"id":"$.id"},"volatile":["$.id"]`,
		`"request":{"method":"GET","path":"/jobs/$id"},"response":{"status":200,"body":"x"},"refs":{"$":"$id"}`,
		`"request":{"method":"GET","path":"/jobs/$none"},"response":{"status":200}`,
		`"request":{"method":"GET","path":"/nope"},"response":{"status":200},"quirk":true`,
	)
	results := against(t, f, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/jobs":
			_, _ = io.WriteString(w, `{"id":"j-7"}`) // with the wrong status
		case "/jobs/j-7":
			_, _ = io.WriteString(w, `"j-7"`)
		default:
			http.NotFound(w, r)
		}
	}, nil)
	wantOutcomes(t, results, "fail pass fail quirk")
	if !strings.Contains(results[2].diff.Got, "$none") || results[1].request != "GET /jobs/j-7" {
		t.Errorf("results %+v", results)
	}
}

// TestSequencesAreApart checks that each sequence begins with an empty queue and no variables.
func TestSequencesAreApart(t *testing.T) {
	cases, err := transcript.Load([]byte(`[
		{"name":"1","seq":"a","request":{"method":"GET","path":"/"},"response":{"status":200,"body":1},"capture":{"v":"$"}},
		{"name":"2","seq":"a","request":{"method":"GET","path":"/$v"},"response":{"status":200}},
		{"name":"3","seq":"b","request":{"method":"GET","path":"/$v"},"response":{"status":200}},
		{"name":"4","request":{"transport":"timeline","setup":"x"},"response":{}}]`))
	if err != nil {
		t.Fatal(err)
	}
	resets := 0
	results := against(t, transcript.File{Name: "f", Cases: cases}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "1") },
		func(p *player) { p.reset = func(context.Context) error { resets++; return nil } })
	wantOutcomes(t, results, "pass pass fail")
	if resets != 2 {
		t.Errorf("%d resets", resets)
	}
	p := &player{reset: func(context.Context) error { return errors.New("boom") }}
	if _, err := p.play(t.Context(), sequence{cases: []*transcript.Case{&cases[0]}}); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("a reset that failed: %v", err)
	}
}

// TestEventually repeats a request until the answer is correct or the time is over.
func TestEventually(t *testing.T) {
	for rule, want := range map[string]string{`"eventually_ms":5000,`: "pass", `"eventually_ms":100,`: "fail", ``: "fail"} {
		var n atomic.Int32
		begin := time.Now()
		results := against(t, file(t, rule+`"request":{"method":"GET","path":"/"},"response":{"status":200}`), func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) < 8 {
				w.WriteHeader(http.StatusNotFound)
			}
		}, nil)
		wantOutcomes(t, results, want)
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("%s took %v", rule, took)
		}
	}
}

func TestWaitAndTimeout(t *testing.T) {
	begin := time.Now()
	results := against(t, file(t, `"wait_ms":120,"request":{"method":"GET","path":"/"},"response":{"status":200}`),
		func(http.ResponseWriter, *http.Request) {}, nil)
	wantOutcomes(t, results, "pass")
	if time.Since(begin) < 120*time.Millisecond {
		t.Error("it did not wait")
	}
	results = against(t, file(t, `"timeout_ms":100,"request":{"method":"GET","path":"/"},"response":{"status":200}`),
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	wantOutcomes(t, results, "fail")
}

func TestParallel(t *testing.T) {
	var mu sync.Mutex
	arrived, all := 0, make(chan struct{})
	results := against(t, file(t, `"request":{"method":"POST","path":"/","parallel":4},"response":{"parallel":{"200":3,"404":1}}`),
		func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if arrived++; arrived == 4 {
				w.WriteHeader(http.StatusNotFound)
				close(all)
			}
			mu.Unlock()
			<-all // which needs all of them at once
		}, nil)
	wantOutcomes(t, results, "pass")
}

// TestWhoIsAsked sends requests to a node that does not lead, except requests that only the
// leader answers and requests for a follower.
func TestWhoIsAsked(t *testing.T) {
	who := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, name) }))
		t.Cleanup(s.Close)
		return s
	}
	base, leader, follower := who("base"), who("leader"), who("follower")
	request := func(path, target, want string) string {
		return `"request":{"method":"GET","path":"` + path + `"` + target + `},"response":{"status":200,"bodyText":"` + want + `"}`
	}
	const followers = `,"target":"follower"`
	f := file(t, request("/v1/jobs", "", "base"), request("/task/1", "", "base"), request("/submit_task", "", "leader"),
		request("/status", "", "leader"), request("/submit_task", followers, "follower"), request("/heartbeat", followers, "follower"))
	at := servers{base: base.URL, leader: leader.URL, follower: follower.URL}
	wantOutcomes(t, against(t, f, nil, func(p *player) { p.at = at }), "pass pass pass pass pass pass")
}

// TestUnpacks reads compressed answers, and fails for an unknown encoding.
func TestUnpacks(t *testing.T) {
	for encoding, want := range map[string]string{"gzip": "pass", "identity": "pass", "br": "fail"} {
		results := against(t, file(t, `"request":{"method":"GET","path":"/","headers":{"accept-encoding":"gzip"}},"response":{"status":200,"bodyText":"hi"}`),
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", encoding)
				if encoding != "gzip" {
					_, _ = io.WriteString(w, "hi")
					return
				}
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, "hi")
				_ = z.Close()
			}, nil)
		wantOutcomes(t, results, want)
	}
}

// TestStart starts a server on the seed, and sends the other requests there.
func TestStart(t *testing.T) {
	f := file(t, `"request":{"transport":"start"},"response":{"started":true},"seed":{"at":"$now-1000"}`,
		`"request":{"method":"GET","path":"/"},"response":{"status":200,"bodyText":"seeded"}`)
	seeded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "seeded") }))
	defer seeded.Close()
	started := true
	change := func(p *player) {
		p.start = func(seed []byte) (bool, servers, error) {
			var in struct{ At int64 }
			if err := json.Unmarshal(seed, &in); err != nil || time.Now().UnixMilli()-in.At > 60_000 {
				t.Errorf("the seed is %s: %v", seed, err)
			}
			return started, servers{base: seeded.URL}, nil
		}
	}
	wantOutcomes(t, against(t, f, http.NotFound, change), "pass pass")
	started = false
	wantOutcomes(t, against(t, f, http.NotFound, change), "fail pass")
}

// echo answers messages on /w: with their own text, in reverse order if there are two, or as
// the message asks.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/w" {
		http.NotFound(w, r)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	n := 0
	var held []byte
	for {
		_, data, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		n++
		switch {
		case strings.Contains(string(data), "count"):
			data = fmt.Appendf(nil, `{"n":%d,"deflate":%v}`, n, strings.Contains(r.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate"))
		case strings.Contains(string(data), "hold"):
			held = data
			continue
		case strings.Contains(string(data), "silence"):
			continue
		}
		kind := websocket.MessageText
		if strings.Contains(string(data), "binary") {
			kind = websocket.MessageBinary
		}
		_ = ws.Write(r.Context(), kind, data)
		if held != nil {
			_ = ws.Write(r.Context(), websocket.MessageText, held)
			held = nil
		}
	}
}

func frame(text, answer string) string {
	return `"request":{"transport":"ws","path":"/w","message":` + text + `},"response":{"message":` + answer + `}`
}

func TestWebSocket(t *testing.T) {
	wantOutcomes(t, against(t, file(t,
		frame(`{"id":"a"}`, `{"id":"a"}`),
		frame(`"count"`, `{"n":2,"deflate":false}`), // on the same connection
		`"request":{"transport":"ws","path":"/w","conn":"b","message":"count"},"response":{"message":{"n":1,"deflate":false}}`,
		`"request":{"transport":"ws","path":"/w","messages":[{"id":"hold"},{"id":"b"}]},"response":{"messages":[{"id":"hold"},{"id":"b"}]}`,
		`"request":{"transport":"ws","path":"/w","messageText":"[1,"},"response":{"message":[1]}`, // its answer is no JSON
		frame(`"count"`, `{"n":1,"deflate":false}`), // so there is a new connection
		frame(`{"binary":1}`, `{"binary":1}`),
		`"timeout_ms":100,`+frame(`"silence"`, `{}`),
		`"request":{"transport":"ws","path":"/x","message":{}},"response":{"message":{}}`,
		`"request":{"transport":"ws","path":"/w","messageBase64":"eyJpZCI6MX0="},"response":{"message":{"id":1}}`,
		`"request":{"transport":"ws","path":"/w","messageGen":{"prefix":"\"","unit":"x","count":3,"suffix":"\""}},"response":{"message":"xxx"}`,
	), echo, nil), "pass pass pass pass fail pass fail fail fail pass pass")
}

func TestHandshake(t *testing.T) {
	shake := func(path, headers, response string) string {
		return `"request":{"transport":"ws-handshake","path":"` + path + `","headers":{` + headers + `}},"response":{` + response + `}`
	}
	const deflate = `"Sec-WebSocket-Extensions":"permessage-deflate"`
	wantOutcomes(t, against(t, file(t,
		shake("/w", deflate, `"status":101,"headers":{"upgrade":"websocket"}`),
		frame(`"count"`, `{"n":1,"deflate":true}`), // as the handshake has offered
		shake("/x", ``, `"status":404,"headers":{}`),
		shake("/x", ``, `"status":101,"headers":{}`),
		shake("/w", `"Sec-WebSocket-Key":null`, `"status":400,"headers":{}`),
		shake("/w", ``, `"status":101,"headers":{},"closeCode":1005`), // which stays open
	), echo, nil), "pass pass pass fail pass fail")
}

// TestHandshakeIsChecked uses servers that only seem to support WebSocket.
func TestHandshakeIsChecked(t *testing.T) {
	f := file(t, `"request":{"transport":"ws-handshake","path":"/w","headers":{}},"response":{"status":101,"headers":{},"closeCode":1000}`)
	for accept, want := range map[string]string{"right": "pass", "wrong": "fail"} {
		results := against(t, f, func(w http.ResponseWriter, r *http.Request) {
			if accept == "right" {
				ws, err := websocket.Accept(w, r, nil)
				if err == nil {
					_ = ws.Close(websocket.StatusNormalClosure, "")
				}
				return
			}
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Sec-WebSocket-Accept", "x")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, nil)
		wantOutcomes(t, results, want)
	}
}
