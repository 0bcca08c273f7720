package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"osqueue/tests/replay/needs"
	"osqueue/tests/replay/transcript"
)

// caller makes the calls of one of the recorded clients.
type caller interface {
	call(ctx context.Context, method string, p params) (needs.Answer, error)
}

// params are the possible parameters of a call.
type params struct {
	jobID string
	typ   string
}

const worker = "w-1"

// flow is the life of a job with further requests of a client: claims with and without a job,
// lists with an available and with a running job.
var flow = []struct{ name, method string }{
	{"stats", needs.Stats},
	{"list, empty", needs.List},
	{"submit", needs.Submit},
	{"list, waiting", needs.List},
	{"claim", needs.Claim},
	{"claim, none", needs.Claim},
	{"list, running", needs.List},
	{"heartbeat", needs.Heartbeat},
	{"complete", needs.Complete},
	{"heartbeat, gone", needs.Heartbeat},
	{"complete, gone", needs.Complete},
}

// TestClientNeeds makes the calls of the recorded clients and compares the answers with the
// results of these clients. A call that fails must be in pending.txt, after the word needs, and
// every call listed there must fail.
func TestClientNeeds(t *testing.T) {
	pending, err := readPending(pendingFile)
	if err != nil {
		t.Fatal(err)
	}
	c := startWith()(t, plainPort)
	failing := make(map[string]error)
	for _, m := range modes {
		base := servers(c, m, plainPort).Base
		clients := map[string]caller{
			needs.REST: &restCaller{base}, needs.WS: &wsCaller{base: base},
			needs.Connect: &connectCaller{base, "application/proto"}, needs.ConnectWeb: &connectCaller{base, "application/json"},
		}
		for name, client := range clients {
			for step, err := range live(t, name, client) {
				failing[fmt.Sprintf("%s %s %s %s", m, needsFile, name, step)] = err
			}
		}
	}
	for name, err := range failing {
		switch listed := slices.Contains(pending, name); {
		case err != nil && !listed:
			t.Errorf("failed: %s: %v", name, err)
		case err == nil && listed && !*shrink:
			t.Errorf("passes, and is to be taken out of %s (-shrink does it): %s", pendingFile, name)
		case err == nil && listed:
			if err := shrinkPending(pendingFile, []string{name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range pending {
		if _, played := failing[name]; !played && isNeed(name) {
			t.Errorf("is listed, and there is no such call: %s", name)
		}
	}
}

// live plays the flow and returns for each call the error of the client, or nil.
func live(t *testing.T, name string, client caller) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if end, ok := client.(interface{ close() }); ok {
		defer end.close()
	}
	out := make(map[string]error)
	p := params{jobID: "none", typ: fmt.Sprintf("needs-%s-%d", name, time.Now().UnixNano())}
	for _, step := range flow {
		a, err := client.call(ctx, step.method, p)
		if err == nil {
			err = needs.Check(name, step.method, a)
		}
		if err == nil && step.method == needs.Submit {
			p.jobID, err = submitted(name, a)
		}
		out[step.name] = err
	}
	return out
}

// submitted reads the id of the new job.
func submitted(client string, a needs.Answer) (string, error) {
	var v any
	var err error
	switch client {
	case needs.Connect:
		v, err = transcript.DecodeMessage("SubmitJobResponse", a.Body)
	case needs.WS:
		v, err = transcript.Decode(a.Frames[0])
	default:
		v, err = transcript.Decode(a.Body)
	}
	object, _ := v.(map[string]any)
	if result, ok := object["result"].(map[string]any); ok {
		object = result
	}
	if err != nil {
		return "none", err
	}
	id, ok := object["jobId"].(string)
	if !ok {
		return "none", fmt.Errorf("no job id in %q, %q", a.Body, a.Frames)
	}
	return id, nil
}

// post sends a request as the clients do: with a content-type even without a body.
func post(ctx context.Context, method, url, contentType string, body []byte) (needs.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return needs.Answer{}, err
	}
	req.Header.Set("Content-Type", contentType)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return needs.Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return needs.Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: data}, err
}

type restCaller struct{ base string }

func (c *restCaller) call(ctx context.Context, method string, p params) (needs.Answer, error) {
	verb, path, body := http.MethodPost, "/v1/jobs", ""
	switch method {
	case needs.Submit:
		body = fmt.Sprintf(`{"payload":{"n":1},"type":%q}`, p.typ)
	case needs.Claim:
		path, body = "/v1/jobs/claim", fmt.Sprintf(`{"workerId":%q,"types":[%q]}`, worker, p.typ)
	case needs.Heartbeat:
		path, body = "/v1/jobs/"+p.jobID+"/heartbeat", fmt.Sprintf(`{"workerId":%q}`, worker)
	case needs.Complete:
		path, body = "/v1/jobs/"+p.jobID+"/complete", fmt.Sprintf(`{"workerId":%q}`, worker)
	case needs.Stats:
		verb, path = http.MethodGet, "/v1/stats"
	case needs.List:
		verb, path = http.MethodGet, "/v1/jobs"
	}
	return post(ctx, verb, c.base+path, "application/json", []byte(body))
}

// fields returns the fields of a call, by their names in the messages.
func fields(method string, p params, payload any) map[string]any {
	switch method {
	case needs.Submit:
		return map[string]any{"payload": payload, "type": p.typ}
	case needs.Claim:
		return map[string]any{"workerId": worker, "types": []any{p.typ}}
	case needs.Heartbeat, needs.Complete:
		return map[string]any{"jobId": p.jobID, "workerId": worker}
	default:
		return map[string]any{}
	}
}

type connectCaller struct{ base, contentType string }

func (c *connectCaller) call(ctx context.Context, method string, p params) (needs.Answer, error) {
	name := strings.ToUpper(method[:1]) + method[1:]
	const inBase64 = "eyJuIjoxfQ==" // {"n":1}
	in := fields(method, p, inBase64)
	body := transcript.Encode(in)
	if c.contentType == "application/proto" {
		var err error
		if body, err = transcript.EncodeMessage(name+"Request", in); err != nil {
			return needs.Answer{}, err
		}
	}
	return post(ctx, http.MethodPost, c.base+"/osqueue.v1.QueueService/"+name, c.contentType, body)
}

// wsCaller has one connection, which it opens again after an error.
type wsCaller struct {
	base string
	conn *websocket.Conn
	n    int
}

func (c *wsCaller) close() {
	if c.conn != nil {
		_ = c.conn.CloseNow()
		c.conn = nil
	}
}

func (c *wsCaller) call(ctx context.Context, method string, p params) (needs.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c.conn == nil {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		conn, resp, err := websocket.Dial(ctx, c.base+"/v1/ws", &websocket.DialOptions{HTTPClient: client})
		if resp != nil && resp.Body != nil {
			defer resp.Body.Close()
		}
		if err != nil {
			return needs.Answer{}, err
		}
		c.conn = conn
	}
	c.n++
	id := fmt.Sprint(c.n)
	in := fields(method, p, map[string]any{"n": transcript.Number("1")})
	frame := transcript.Encode(map[string]any{"id": id, "method": method, "params": in})
	if err := c.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		c.close()
		return needs.Answer{}, err
	}
	_, data, err := c.conn.Read(ctx)
	if err != nil {
		c.close()
		return needs.Answer{}, err
	}
	return needs.Answer{ID: id, Frames: [][]byte{data}}, nil
}
