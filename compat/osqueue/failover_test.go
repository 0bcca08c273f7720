package osqueue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/compat/osqueue/queuev1"
)

// kill ends a node like a killed process: requests are cut.
func (c *nodes) kill(n *node) {
	n.handler.sockets.cancel()
	n.handler.Close()
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.api.Shutdown(cut) // says that requests were cut
	if err := errors.Join(<-n.served, n.node.Close()); err != nil {
		c.t.Error(err)
	}
	n.dead = true
}

// An oldClient is a legacy client on one of its transports. After any error its user
// connects to another node.
type oldClient interface {
	submit(ctx context.Context, jobType string) (id string, err error)
	claim(ctx context.Context, jobType string) (id string, err error)
	complete(ctx context.Context, id string) error
	close()
}

// oldClients connect to a node.
var oldClients = map[string]func(address string) (oldClient, error){
	"REST": func(address string) (oldClient, error) { return &restClient{address}, nil },
	"Connect": func(address string) (oldClient, error) {
		return &connectClient{queuev1.NewQueueServiceClient(fresh, "http://"+address)}, nil
	},
	"WebSocket": func(address string) (oldClient, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, "ws://"+address+socketPath, nil)
		if err != nil {
			return nil, err
		}
		return &socketClient{conn}, nil
	},
}

type restClient struct{ address string }

func (c *restClient) do(ctx context.Context, path, body string) (id string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := fresh.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return "", nil
	}
	var out accepted
	if err := json.UnmarshalRead(resp.Body, &out); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answered %s: %w", resp.Status, err)
	}
	return out.JobID, nil
}

func (c *restClient) submit(ctx context.Context, jobType string) (string, error) {
	return c.do(ctx, "/v1/jobs", `{"payload":1,"type":"`+jobType+`"}`)
}

func (c *restClient) claim(ctx context.Context, jobType string) (string, error) {
	return c.do(ctx, "/v1/jobs/claim", `{"workerId":"w","types":["`+jobType+`"]}`)
}

func (c *restClient) complete(ctx context.Context, id string) error {
	_, err := c.do(ctx, "/v1/jobs/"+id+"/complete", `{"workerId":"w"}`)
	return err
}

func (c *restClient) close() {}

type connectClient struct{ api queuev1.QueueServiceClient }

func (c *connectClient) submit(ctx context.Context, jobType string) (string, error) {
	r, err := c.api.SubmitJob(ctx, connect.NewRequest(&queuev1.SubmitJobRequest{Payload: []byte("1"), Type: jobType}))
	if err != nil {
		return "", err
	}
	return r.Msg.GetJobId(), nil
}

func (c *connectClient) claim(ctx context.Context, jobType string) (string, error) {
	r, err := c.api.ClaimJob(ctx, connect.NewRequest(&queuev1.ClaimJobRequest{WorkerId: "w", Types: []string{jobType}}))
	if err != nil {
		return "", err
	}
	return r.Msg.GetJobId(), nil
}

func (c *connectClient) complete(ctx context.Context, id string) error {
	_, err := c.api.CompleteJob(ctx, connect.NewRequest(&queuev1.CompleteJobRequest{JobId: id, WorkerId: "w"}))
	return err
}

func (c *connectClient) close() {}

type socketClient struct{ conn *websocket.Conn }

func (c *socketClient) call(ctx context.Context, method, params string) (id string, err error) {
	if err := c.conn.Write(ctx, websocket.MessageText, []byte(`{"id":1,"method":"`+method+`","params":`+params+`}`)); err != nil {
		return "", err
	}
	_, got, err := c.conn.Read(ctx)
	if err != nil {
		return "", err
	}
	var in struct {
		OK     bool     `json:"ok"`
		Result accepted `json:"result"`
	}
	if err := json.Unmarshal(got, &in); err != nil || !in.OK {
		return "", fmt.Errorf("answered %s: %w", got, err)
	}
	return in.Result.JobID, nil
}

func (c *socketClient) submit(ctx context.Context, jobType string) (string, error) {
	return c.call(ctx, "submitJob", `{"payload":1,"type":"`+jobType+`"}`)
}

func (c *socketClient) claim(ctx context.Context, jobType string) (string, error) {
	return c.call(ctx, "claimJob", `{"workerId":"w","types":["`+jobType+`"]}`)
}

func (c *socketClient) complete(ctx context.Context, id string) error {
	_, err := c.call(ctx, "completeJob", `{"workerId":"w","jobId":"`+id+`"}`)
	return err
}

func (c *socketClient) close() { _ = c.conn.CloseNow() }

// A user runs jobs through a client and connects to the next node after each error.
type user struct {
	t         *testing.T
	transport string
	addresses []string
	at        int
	client    oldClient
	errs      int // of calls
}

// persist makes a call until it succeeds.
func (u *user) persist(call func(context.Context, oldClient) error) bool {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if u.client == nil {
			u.at++
			u.client, err = oldClients[u.transport](u.addresses[u.at%len(u.addresses)])
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = call(ctx, u.client)
			cancel()
			if err == nil {
				return true
			}
			u.client.close()
		}
		u.client = nil
		u.errs++
	}
	u.t.Errorf("%s: a call does not succeed", u.transport)
	return false
}

// run submits, claims and completes a job. It returns the ids of the submitted and of
// the completed job.
func (u *user) run() (submitted, completed string) {
	u.persist(func(ctx context.Context, c oldClient) (err error) {
		submitted, err = c.submit(ctx, u.transport)
		return err
	})
	u.persist(func(ctx context.Context, c oldClient) (err error) {
		completed, err = c.claim(ctx, u.transport)
		return err
	})
	if completed != "" {
		u.persist(func(ctx context.Context, c oldClient) error { return c.complete(ctx, completed) })
	}
	return submitted, completed
}

// The leader is killed while clients of each transport run jobs. They connect to another
// node: no acknowledged job is lost, and no job is completed without an answer to a
// client.
func TestFailoverInTheMiddle(t *testing.T) {
	t.Parallel()
	const runs = 40
	c := start(t, 3, Limits{})
	var addresses []string
	for _, n := range c.all {
		addresses = append(addresses, n.address)
	}
	var progress atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	told, completed, errs := map[string]bool{}, map[string]bool{}, map[string]int{}
	for transport := range oldClients {
		group.Go(func() {
			u := &user{t: t, transport: transport, addresses: addresses}
			for range runs {
				one, done := u.run()
				progress.Add(1)
				mu.Lock()
				told[one] = true
				if done != "" {
					completed[done] = true
				}
				mu.Unlock()
			}
			mu.Lock()
			errs[transport] = u.errs
			mu.Unlock()
			if u.client != nil {
				u.client.close()
			}
		})
	}
	waitFor(t, "third of the work", func() bool { return progress.Load() > runs })
	c.kill(c.leader())
	group.Wait()
	c.leader()
	var list v1.JobList
	readJSON(t, request(t, "GET", c.follower().address, v1.PathJobs+"?status=all&limit=1000", ""), &list)
	status := map[string]string{}
	for cursor := list.NextCursor; ; cursor = list.NextCursor {
		for i := range list.Jobs {
			status[list.Jobs[i].ID] = list.Jobs[i].Status
		}
		if cursor == "" {
			break
		}
		list = v1.JobList{}
		readJSON(t, request(t, "GET", c.follower().address, v1.PathJobs+"?status=all&limit=1000&cursor="+cursor, ""), &list)
	}
	for id := range told {
		if status[id] == "" {
			t.Errorf("job %s is lost", id)
		}
	}
	done := 0
	for id, s := range status {
		switch {
		case s == v1.StatusCompleted && !completed[id]:
			t.Errorf("job %s was completed by nobody", id)
		case s != v1.StatusCompleted && completed[id]:
			t.Errorf("job %s is %s after it was completed", id, s)
		case s == v1.StatusCompleted:
			done++
		}
	}
	t.Logf("%d jobs, %d completed; errors met: %v", len(status), done, errs)
	if len(told) != runs*len(oldClients) || errs["WebSocket"]+errs["REST"]+errs["Connect"] == 0 {
		t.Errorf("%d jobs, errors %v: the leader's end was not met", len(told), errs)
	}
}
