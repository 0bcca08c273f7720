package dtq_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// lease is the lease in these clusters: short enough to wait for, and longer than the
// pauses of a busy machine.
const lease = 3 * time.Second

func start(t *testing.T, flags ...string) *cluster.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	return cluster.Start(t, cluster.Options{Flags: append(flags, "--lease", lease.String())})
}

// httpClient keeps no connections, so that none outlives a test.
var httpClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// An answer is the JSON that a node of dtq answers.
type answer struct {
	status int // 0: the connection broke
	text   string
	task
}

// A task has the fields of a task and of other answers.
type task struct {
	TaskID     string          `json:"task_id"`
	Status     string          `json:"status"`
	Payload    json.RawMessage `json:"payload"`
	Result     json.RawMessage `json:"result"`
	WorkerID   *string         `json:"worker_id"`
	StartedAt  string          `json:"started_at"`
	State      string          `json:"state"`
	Error      string          `json:"error"`
	Leader     *string         `json:"leader"`
	RedirectTo *string         `json:"redirect_to"`
}

func send(t testing.TB, method, address, path string, body any) answer {
	t.Helper()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := httpClient.Do(r)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	a := answer{status: resp.StatusCode, text: string(data)}
	_ = json.Unmarshal(data, &a.task) // not all answers are objects
	return a
}

func post(t testing.TB, n *cluster.Node, path string, body any) answer {
	t.Helper()
	return send(t, http.MethodPost, n.HTTP, path, body)
}

func want(t testing.TB, a answer, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %s, want %d", a.status, a.text, status)
	}
	return a
}

type object = map[string]any

func submit(t testing.TB, n *cluster.Node, payload any) string {
	t.Helper()
	return want(t, post(t, n, "/submit_task", object{"task_type": "t", "payload": payload}), 202).TaskID
}

func show(t testing.TB, n *cluster.Node, id string) answer {
	t.Helper()
	return send(t, http.MethodGet, n.HTTP, "/task/"+id, nil)
}

func ask(t testing.TB, n *cluster.Node, worker string) answer {
	t.Helper()
	return post(t, n, "/get_pending_task", object{"worker_id": worker})
}

// becomes waits until the task has the status.
func becomes(t testing.TB, c *cluster.Cluster, n *cluster.Node, id, status string, within time.Duration) answer {
	t.Helper()
	var a answer
	c.Eventually(within, "task "+id+" "+status, func() error {
		if a = show(t, n, id); a.status != 200 || a.Status != status {
			return fmt.Errorf("%d %s", a.status, a.text)
		}
		return nil
	})
	return a
}

// patience is the time limit of a condition that does not wait for a lease.
const patience = 20 * time.Second

// A task goes to one of several workers that claim at the same moment. Every node shows
// it, and only the leader assigns it.
func TestOneTaskForOneWorker(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader, follower := c.WaitLeader(), c.Follower()
	id := submit(t, leader, 1)
	const callers = 8
	answers := make([]answer, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { answers[i] = ask(t, leader, fmt.Sprint("w", i)) })
	}
	wg.Wait()
	got := 0
	for i, a := range answers {
		switch {
		case a.status == 200 && a.TaskID == id && a.Status == "pending":
			got++
			shown := show(t, follower, id)
			if shown.Status != "processing" || shown.WorkerID == nil || *shown.WorkerID != fmt.Sprint("w", i) {
				t.Errorf("shown as %s", shown.text)
			}
		case a.status != 404:
			t.Errorf("answered %d %s", a.status, a.text)
		}
	}
	if got != 1 {
		t.Errorf("%d workers got the task", got)
	}
	a := want(t, ask(t, follower, "w"), 503)
	if a.Error != "Not the leader" || a.Leader == nil || *a.Leader != leader.Name || a.RedirectTo == nil || *a.RedirectTo != "http://"+leader.HTTP {
		t.Errorf("a follower says %s", a.text)
	}
}

// A silent worker loses its task to another one; its late result is accepted.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader := c.WaitLeader()
	id := submit(t, leader, 1)
	want(t, post(t, leader, "/register_worker", object{"worker_id": "silent"}), 200)
	want(t, ask(t, leader, "silent"), 200)
	want(t, ask(t, leader, "other"), 404)
	becomes(t, c, leader, id, "pending", lease+patience)
	if a := want(t, ask(t, leader, "other"), 200); a.TaskID != id {
		t.Fatalf("got %s", a.text)
	}
	want(t, post(t, leader, "/complete_task", object{"task_id": id, "result": "late"}), 200)
	if a := show(t, leader, id); a.Status != "completed" || string(a.Result) != `"late"` {
		t.Errorf("shown as %s", a.text)
	}
	want(t, post(t, leader, "/complete_task", object{"task_id": id, "result": "twice"}), 200)
	if a := show(t, leader, id); string(a.Result) != `"twice"` {
		t.Errorf("shown as %s", a.text)
	}
}

// Heartbeats through any node keep the tasks that a worker runs, until it registers
// again.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader, follower := c.WaitLeader(), c.Follower()
	name := object{"worker_id": "w"}
	want(t, post(t, leader, "/register_worker", name), 200)
	ids := []string{submit(t, leader, 1), submit(t, leader, 2)}
	for _, id := range ids {
		if a := want(t, ask(t, leader, "w"), 200); a.TaskID != id {
			t.Fatalf("got %s, want %s", a.text, id)
		}
	}
	beatFor := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(lease / 10) {
			want(t, post(t, follower, "/heartbeat", name), 200)
		}
	}
	beatFor(2 * lease)
	for _, id := range ids {
		if a := show(t, leader, id); a.Status != "processing" {
			t.Errorf("shown as %s", a.text)
		}
	}
	want(t, post(t, leader, "/register_worker", name), 200)
	want(t, ask(t, leader, "w"), 404)
	for _, id := range ids {
		c.Eventually(lease+patience, "the task of before the start goes back", func() error {
			want(t, post(t, leader, "/heartbeat", name), 200)
			if a := show(t, leader, id); a.Status != "pending" {
				return errors.New(a.text)
			}
			return nil
		})
	}
}

// Without a majority no write is acknowledged, a task can still be read, and heartbeats
// are accepted.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader := c.WaitLeader()
	id := submit(t, leader, 1)
	for _, n := range c.Nodes {
		if n != leader {
			n.Kill()
		}
	}
	for path, body := range map[string]object{
		"/submit_task": {}, "/get_pending_task": {"worker_id": "w"}, "/complete_task": {"task_id": id},
	} {
		want(t, post(t, leader, path, body), 503)
	}
	want(t, post(t, leader, "/heartbeat", object{"worker_id": "w"}), 200)
	if a := show(t, leader, id); a.status != 200 || a.TaskID != id {
		t.Errorf("shown as %d %s", a.status, a.text)
	}
}
