package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"osqueue/tests/replay/needs"
)

// oldClient makes the calls of a client of an older system, by the names of package needs. It keeps
// one connection, to the broker that it has found, until Connect gives it another one.
type oldClient interface {
	Connect(ctx context.Context, broker string) error
	Call(ctx context.Context, method string, p needs.Params) (id string, err error) // "": there is none
	Close()
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

type members map[string]any

// dtqClient is a producer and a worker of dtq.
type dtqClient struct {
	http           *http.Client
	broker, worker string
}

func newDTQClient(worker string, w *wire) *dtqClient { return &dtqClient{http: w.http, worker: worker} }

// dtqTask has the fields of a task and of other answers.
type dtqTask struct {
	TaskID     string          `json:"task_id"`
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result"`
	WorkerID   string          `json:"worker_id"`
	StartedAt  string          `json:"started_at"`
	State      string          `json:"state"`
	Error      string          `json:"error"`
	Leader     string          `json:"leader"`
	RedirectTo string          `json:"redirect_to"`
	text       string
}

// send returns the status and the fields of the answer.
func (c *dtqClient) send(ctx context.Context, method, path string, in members) (int, dtqTask, error) {
	var a dtqTask
	body, err := json.Marshal(in)
	if err != nil {
		return 0, a, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.broker+path, bytes.NewReader(body))
	if err != nil {
		return 0, a, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	a.text = strings.TrimSpace(string(text))
	_ = json.Unmarshal(text, &a) // not all answers are objects
	return resp.StatusCode, a, err
}

// post is send for an answer with that status.
func (c *dtqClient) post(ctx context.Context, path string, in members, want int) (dtqTask, error) {
	status, a, err := c.send(ctx, http.MethodPost, path, in)
	if err == nil && status != want {
		err = fmt.Errorf("%s: %d %s, want %d", path, status, a.text, want)
	}
	return a, err
}

// Connect registers with the leader, as the worker does when it has found one.
func (c *dtqClient) Connect(ctx context.Context, broker string) error {
	c.broker = broker
	_, err := c.post(ctx, "/register_worker", members{"worker_id": c.worker}, http.StatusOK)
	return err
}

// Close ends all connections.
func (c *dtqClient) Close() { c.http.CloseIdleConnections() }

// Call makes the call of dtq that corresponds to one of the original.
func (c *dtqClient) Call(ctx context.Context, method string, p needs.Params) (string, error) {
	var a dtqTask
	var err error
	switch method {
	case needs.Submit:
		a, err = c.post(ctx, "/submit_task", members{"task_type": p.Type, "payload": members{"n": 1}}, http.StatusAccepted)
	case needs.Claim:
		var status int
		status, a, err = c.send(ctx, http.MethodPost, "/get_pending_task", members{"worker_id": c.worker})
		if err == nil && status != http.StatusOK && status != http.StatusNotFound {
			err = fmt.Errorf("claim: %d %s", status, a.text)
		}
	case needs.Heartbeat:
		_, err = c.post(ctx, "/heartbeat", members{"worker_id": c.worker}, http.StatusOK)
	case needs.Complete:
		_, err = c.post(ctx, "/complete_task", members{"task_id": p.Job, "result": members{"processed_by": c.worker}}, http.StatusOK)
	}
	return a.TaskID, err
}
