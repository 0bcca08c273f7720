package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"osqueue/compat/osqueue/queuev1"
	"osqueue/tests/replay/needs"
)

// oldClient has exactly the calls of a client of an older system. It keeps one connection, to
// the broker that it has found, until connect gives it another one.
type oldClient interface {
	connect(ctx context.Context, broker string) error
	submit(ctx context.Context, jobType string) (id string, err error)
	claim(ctx context.Context, worker, jobType string) (id string, err error) // "": there is none
	heartbeat(ctx context.Context, worker, id string) error
	complete(ctx context.Context, worker, id string) error
	close()
}

// wire has a client's connections. An answer on them can get lost.
type wire struct {
	lose atomic.Pointer[func()]
	http *http.Client
}

func newWire() *wire {
	w := new(wire)
	dialer := new(net.Dialer)
	w.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &wireConn{Conn: c, wire: w}, nil
		},
	}}
	return w
}

// loseNext calls then when the next answer has arrived. The client does not get this answer,
// because its connection breaks.
func (w *wire) loseNext(then func()) { w.lose.Store(&then) }

func (w *wire) close() { w.http.CloseIdleConnections() }

type wireConn struct {
	net.Conn
	wire *wire
}

// Read implements net.Conn.
func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if then := c.wire.lose.Swap(nil); then != nil {
			(*then)()
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// exchange sends a request and reads the whole answer.
func (w *wire) exchange(ctx context.Context, method, url string, header map[string]string, body io.Reader) (needs.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return needs.Answer{}, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return needs.Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return needs.Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: text}, err
}

type members map[string]any

// text returns the JSON of the fields.
func (m members) text() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// idOf returns the field jobId, or "".
func idOf(body []byte) (string, error) {
	var out struct{ JobID string }
	err := json.Unmarshal(body, &out)
	return out.JobID, err
}

// restClient is the original's transport over REST.
type restClient struct {
	*wire
	broker string
}

func (c *restClient) connect(_ context.Context, broker string) error {
	c.broker = broker
	return nil
}

func (c *restClient) call(ctx context.Context, method, path string, in members) ([]byte, error) {
	a, err := c.exchange(ctx, http.MethodPost, "http://"+c.broker+path, map[string]string{"Content-Type": "application/json"}, bytes.NewReader(in.text()))
	if err == nil {
		err = needs.Check(needs.REST, method, a)
	}
	return a.Body, err
}

func (c *restClient) submit(ctx context.Context, jobType string) (string, error) {
	body, err := c.call(ctx, needs.Submit, "/v1/jobs", members{"payload": members{"n": 1}, "type": jobType})
	if err != nil {
		return "", err
	}
	return idOf(body)
}

func (c *restClient) claim(ctx context.Context, worker, jobType string) (string, error) {
	body, err := c.call(ctx, needs.Claim, "/v1/jobs/claim", members{"workerId": worker, "types": []string{jobType}})
	if err != nil {
		return "", err
	}
	return idOf(body)
}

func (c *restClient) heartbeat(ctx context.Context, worker, id string) error {
	_, err := c.call(ctx, needs.Heartbeat, "/v1/jobs/"+id+"/heartbeat", members{"workerId": worker})
	return err
}

func (c *restClient) complete(ctx context.Context, worker, id string) error {
	_, err := c.call(ctx, needs.Complete, "/v1/jobs/"+id+"/complete", members{"workerId": worker})
	return err
}

// wsClient is the original's transport over a WebSocket.
type wsClient struct {
	*wire
	conn *websocket.Conn
	last int
}

func (c *wsClient) connect(ctx context.Context, broker string) error {
	c.drop()
	conn, resp, err := websocket.Dial(ctx, "ws://"+broker+"/v1/ws", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: c.http.Transport}, CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		return err
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	c.conn = conn
	return nil
}

func (c *wsClient) drop() {
	if c.conn != nil {
		_ = c.conn.CloseNow()
		c.conn = nil
	}
}

func (c *wsClient) close() {
	c.drop()
	c.wire.close()
}

func (c *wsClient) call(ctx context.Context, method string, params members) ([]byte, error) {
	if c.conn == nil {
		return nil, errors.New("WebSocket closed")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.last++
	a := needs.Answer{ID: strconv.Itoa(c.last)}
	if err := c.conn.Write(ctx, websocket.MessageText, members{"id": a.ID, "method": method, "params": params}.text()); err != nil {
		return nil, err
	}
	for { // until the answer comes: other frames are ignored
		_, frame, err := c.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var out struct {
			ID     string
			Result json.RawMessage
		}
		if err := json.Unmarshal(frame, &out); err == nil && out.ID == a.ID {
			a.Frames = [][]byte{frame}
			return out.Result, needs.Check(needs.WS, method, a)
		}
	}
}

func (c *wsClient) submit(ctx context.Context, jobType string) (string, error) {
	result, err := c.call(ctx, needs.Submit, members{"payload": members{"n": 1}, "type": jobType})
	if err != nil {
		return "", err
	}
	return idOf(result)
}

func (c *wsClient) claim(ctx context.Context, worker, jobType string) (string, error) {
	result, err := c.call(ctx, needs.Claim, members{"workerId": worker, "types": []string{jobType}})
	if err != nil {
		return "", err
	}
	return idOf(result)
}

func (c *wsClient) heartbeat(ctx context.Context, worker, id string) error {
	_, err := c.call(ctx, needs.Heartbeat, members{"jobId": id, "workerId": worker})
	return err
}

func (c *wsClient) complete(ctx context.Context, worker, id string) error {
	_, err := c.call(ctx, needs.Complete, members{"jobId": id, "workerId": worker})
	return err
}

// connectClient is the original's transport over Connect, in the form of node or of a browser.
type connectClient struct {
	*wire
	broker  string
	browser bool
}

func (c *connectClient) connect(_ context.Context, broker string) error {
	c.broker = broker
	return nil
}

func (c *connectClient) call(ctx context.Context, name, method string, in, out proto.Message) error {
	who, header := needs.Connect, map[string]string{
		"Content-Type": "application/proto", "Connect-Protocol-Version": "1",
	}
	marshal, unmarshal := proto.Marshal, proto.Unmarshal
	if c.browser {
		who, header["Content-Type"] = needs.ConnectWeb, "application/json"
		marshal, unmarshal = protojson.Marshal, protojson.Unmarshal
	}
	body, err := marshal(in)
	if err != nil {
		return err
	}
	var chunked io.Reader = bytes.NewReader(body)
	if !c.browser {
		chunked = struct{ io.Reader }{chunked} // of a length that is not known
	}
	a, err := c.exchange(ctx, http.MethodPost, "http://"+c.broker+"/osqueue.v1.QueueService/"+name, header, chunked)
	if err == nil {
		err = needs.Check(who, method, a)
	}
	if err != nil {
		return err
	}
	return unmarshal(a.Body, out)
}

func (c *connectClient) submit(ctx context.Context, jobType string) (string, error) {
	out := new(queuev1.SubmitJobResponse)
	err := c.call(ctx, "SubmitJob", needs.Submit, &queuev1.SubmitJobRequest{Payload: []byte(`{"n":1}`), Type: jobType}, out)
	return out.GetJobId(), err
}

func (c *connectClient) claim(ctx context.Context, worker, jobType string) (string, error) {
	out := new(queuev1.ClaimJobResponse)
	err := c.call(ctx, "ClaimJob", needs.Claim, &queuev1.ClaimJobRequest{WorkerId: worker, Types: []string{jobType}}, out)
	return out.GetJobId(), err
}

func (c *connectClient) heartbeat(ctx context.Context, worker, id string) error {
	return c.call(ctx, "Heartbeat", needs.Heartbeat, &queuev1.HeartbeatRequest{JobId: id, WorkerId: worker}, new(queuev1.HeartbeatResponse))
}

func (c *connectClient) complete(ctx context.Context, worker, id string) error {
	return c.call(ctx, "CompleteJob", needs.Complete, &queuev1.CompleteJobRequest{JobId: id, WorkerId: worker}, new(queuev1.CompleteJobResponse))
}

// dtqClient is a producer and a worker of dtq.
type dtqClient struct {
	*wire
	broker, worker string
}

// connect registers with the leader, as the worker does when it has found one.
func (c *dtqClient) connect(ctx context.Context, broker string) error {
	c.broker = broker
	a, err := c.call(ctx, "/register_worker", members{"worker_id": c.worker})
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("register: %d", a.Status)
	}
	return err
}

func (c *dtqClient) call(ctx context.Context, path string, in members) (needs.Answer, error) {
	return c.exchange(ctx, http.MethodPost, "http://"+c.broker+path, map[string]string{"Content-Type": "application/json"}, bytes.NewReader(in.text()))
}

// task returns the task in the answer, if the answer has that status.
func task(a needs.Answer, err error, status int) (string, error) {
	if err != nil {
		return "", err
	}
	if a.Status != status {
		return "", fmt.Errorf("%d: %s", a.Status, strings.TrimSpace(string(a.Body)))
	}
	var out struct {
		TaskID string `json:"task_id"`
	}
	err = json.Unmarshal(a.Body, &out)
	return out.TaskID, err
}

func (c *dtqClient) submit(ctx context.Context, jobType string) (string, error) {
	a, err := c.call(ctx, "/submit_task", members{"task_type": jobType, "payload": members{"n": 1}})
	return task(a, err, http.StatusAccepted)
}

func (c *dtqClient) claim(ctx context.Context, worker, _ string) (string, error) {
	a, err := c.call(ctx, "/get_pending_task", members{"worker_id": worker})
	if err == nil && a.Status == http.StatusNotFound {
		return "", nil
	}
	return task(a, err, http.StatusOK)
}

func (c *dtqClient) heartbeat(ctx context.Context, worker, _ string) error {
	a, err := c.call(ctx, "/heartbeat", members{"worker_id": worker})
	_, err = task(a, err, http.StatusOK)
	return err
}

func (c *dtqClient) complete(ctx context.Context, worker, id string) error {
	a, err := c.call(ctx, "/complete_task", members{"task_id": id, "result": members{"processed_by": worker}})
	_, err = task(a, err, http.StatusOK)
	return err
}
