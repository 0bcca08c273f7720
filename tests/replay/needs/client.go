package needs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"osqueue/tests/replay/transcript"
)

// Client makes the calls of one of the recorded clients. It keeps its connections to a broker until
// Connect gives it another one.
type Client struct {
	name   string
	http   *http.Client
	broker string
	conn   *websocket.Conn // of WS
	last   int
}

// NewClient makes a client of that name, with the connections of c.
func NewClient(name string, c *http.Client) *Client { return &Client{name: name, http: c} }

// Connect gives the client a broker, as in http://127.0.0.1:8080.
func (c *Client) Connect(ctx context.Context, broker string) error {
	c.drop()
	c.broker = broker
	if c.name != WS {
		return nil
	}
	conn, resp, err := websocket.Dial(ctx, broker+"/v1/ws", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: c.http.Transport}, CompressionMode: websocket.CompressionContextTakeover,
	})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	c.conn = conn
	return err
}

func (c *Client) drop() {
	if c.conn != nil {
		_ = c.conn.CloseNow()
		c.conn = nil
	}
}

// Close ends all connections.
func (c *Client) Close() {
	c.drop()
	c.http.CloseIdleConnections()
}

// Params are the parameters of a call.
type Params struct{ Worker, Type, Job string }

// fields returns the fields of a call, by their names in the messages.
func (p Params) fields(method string, payload any) map[string]any {
	switch method {
	case Submit:
		return map[string]any{"payload": payload, "type": p.Type}
	case Claim:
		return map[string]any{"workerId": p.Worker, "types": []any{p.Type}}
	case Heartbeat, Complete:
		return map[string]any{"jobId": p.Job, "workerId": p.Worker}
	default:
		return map[string]any{}
	}
}

// payload1 is the payload of all jobs.
var payload1 = map[string]any{"n": transcript.Number("1")}

// Call makes a call. It returns the id of the job in the answer, "" if there is none, or the reason why
// the recorded client throws.
func (c *Client) Call(ctx context.Context, method string, p Params) (id string, err error) {
	var a Answer
	switch c.name {
	case REST:
		a, err = c.callREST(ctx, method, p)
	case WS:
		a, err = c.callWS(ctx, method, p)
	default:
		a, err = c.callConnect(ctx, method, p)
	}
	if err == nil {
		err = Check(c.name, method, a)
	}
	if err != nil || method != Submit && method != Claim {
		return "", err
	}
	var v any
	switch c.name {
	case WS:
		v, err = transcript.Decode(a.Frames[len(a.Frames)-1])
		frame, _ := v.(map[string]any)
		v = frame["result"]
	case Connect:
		v, err = transcript.DecodeMessage(responses[method], a.Body)
	default:
		v, err = transcript.Decode(a.Body)
	}
	object, _ := v.(map[string]any)
	id, _ = object["jobId"].(string)
	if err == nil && id == "" && method == Submit {
		err = errors.New("the answer has no job id")
	}
	return id, err
}

// exchange sends a request and reads the whole answer. Headers are name, value, name, value.
func (c *Client) exchange(ctx context.Context, verb, path string, body io.Reader, headers ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, verb, c.broker+path, body)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: text}, err
}

func (c *Client) callREST(ctx context.Context, method string, p Params) (Answer, error) {
	verb, path := http.MethodPost, "/v1/jobs"
	in := p.fields(method, payload1)
	delete(in, "jobId")
	switch method {
	case Claim:
		path += "/claim"
	case Heartbeat:
		path += "/" + p.Job + "/heartbeat"
	case Complete:
		path += "/" + p.Job + "/complete"
	case Stats:
		verb, path = http.MethodGet, "/v1/stats"
	case List:
		verb = http.MethodGet
	}
	var body io.Reader
	if verb == http.MethodPost {
		body = bytes.NewReader(transcript.Encode(in))
	}
	return c.exchange(ctx, verb, path, body, "Content-Type", "application/json") // also without a body
}

func (c *Client) callConnect(ctx context.Context, method string, p Params) (Answer, error) {
	name := strings.ToUpper(method[:1]) + method[1:]
	path := "/osqueue.v1.QueueService/" + name
	const inBase64 = "eyJuIjoxfQ==" // {"n":1}
	in := p.fields(method, inBase64)
	if c.name == ConnectWeb {
		return c.exchange(ctx, http.MethodPost, path, bytes.NewReader(transcript.Encode(in)), "Content-Type", "application/json", "Connect-Protocol-Version", "1")
	}
	body, err := transcript.EncodeMessage(name+"Request", in)
	if err != nil {
		return Answer{}, err
	}
	chunked := struct{ io.Reader }{bytes.NewReader(body)} // of a length that is not known
	return c.exchange(ctx, http.MethodPost, path, chunked, "Content-Type", "application/proto", "Connect-Protocol-Version", "1")
}

// wsTimeout is that of a call on a WebSocket.
const wsTimeout = 10 * time.Second

func (c *Client) callWS(ctx context.Context, method string, p Params) (Answer, error) {
	if c.conn == nil {
		return Answer{}, errors.New("WebSocket closed")
	}
	ctx, cancel := context.WithTimeout(ctx, wsTimeout)
	defer cancel()
	c.last++
	a := Answer{ID: strconv.Itoa(c.last)}
	text := transcript.Encode(map[string]any{"id": a.ID, "method": method, "params": p.fields(method, payload1)})
	if err := c.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return a, err
	}
	for { // until the answer comes: other frames are ignored
		_, frame, err := c.conn.Read(ctx)
		if err != nil {
			return a, err
		}
		a.Frames = append(a.Frames, frame)
		v, _ := transcript.Decode(frame)
		if message, ok := v.(map[string]any); ok && isID(message["id"], a.ID) {
			return a, nil
		}
	}
}
