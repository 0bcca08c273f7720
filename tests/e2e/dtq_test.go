package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/replay/needs"
)

// patience is the time limit of a condition that does not wait for a lease.
const patience = 20 * time.Second

// dtqNodes is a cluster with clients of dtq.
type dtqNodes struct {
	*cluster.Cluster
	t *testing.T
}

func startDTQ(t *testing.T) *dtqNodes {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	return &dtqNodes{cluster.Start(t, cluster.Options{Flags: []string{"--lease", oldLease.String()}}), t}
}

// at returns a client at a node, which keeps no connections.
func (d *dtqNodes) at(n *cluster.Node) *dtqClient {
	hc := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return &dtqClient{http: hc, broker: "http://" + n.HTTP}
}

// post makes a call that is answered with that status.
func (d *dtqNodes) post(n *cluster.Node, path string, in members, want int) dtqTask {
	d.t.Helper()
	a, err := d.at(n).post(d.t.Context(), path, in, want)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

func (d *dtqNodes) submit(n *cluster.Node) string {
	d.t.Helper()
	return d.post(n, "/submit_task", members{"task_type": "t", "payload": 1}, http.StatusAccepted).TaskID
}

func (d *dtqNodes) show(n *cluster.Node, id string) dtqTask {
	d.t.Helper()
	status, a, err := d.at(n).send(d.t.Context(), http.MethodGet, "/task/"+id, nil)
	if err != nil || status != http.StatusOK {
		d.t.Errorf("task %s: %d %s, %v", id, status, a.text, err)
	}
	return a
}

// becomes waits until the task has the status.
func (d *dtqNodes) becomes(n *cluster.Node, id, status string, within time.Duration) (a dtqTask) {
	d.t.Helper()
	d.Eventually(within, "task "+id+" "+status, func() error {
		if a = d.show(n, id); a.Status != status {
			return errors.New(a.text)
		}
		return nil
	})
	return a
}

// A task goes to one of several workers that claim at the same moment. Every node shows
// it, and only the leader assigns it.
func TestOneTaskForOneWorker(t *testing.T) {
	t.Parallel()
	d := startDTQ(t)
	leader, follower := d.WaitLeader(), d.Follower()
	id := d.submit(leader)
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := ""
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("w", i)
			status, a, err := d.at(leader).send(t.Context(), http.MethodPost, "/get_pending_task", members{"worker_id": name})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && status == http.StatusOK && a.TaskID == id && a.Status == "pending" && got == "":
				got = name
			case err != nil || status != http.StatusNotFound:
				t.Errorf("%s: %d %s, %v", name, status, a.text, err)
			}
		})
	}
	wg.Wait()
	if a := d.show(follower, id); got == "" || a.Status != "processing" || a.WorkerID != got {
		t.Errorf("%q got it, and it is shown as %s", got, a.text)
	}
	a := d.post(follower, "/get_pending_task", members{"worker_id": "w"}, http.StatusServiceUnavailable)
	if a.Error != "Not the leader" || a.Leader != leader.Name || a.RedirectTo != "http://"+leader.HTTP {
		t.Errorf("a follower says %s", a.text)
	}
}

// Heartbeats through any node keep the tasks that a worker runs, until it registers again. A silent
// worker loses its task to another one; its late result is accepted.
func TestHeartbeatsOfDTQ(t *testing.T) {
	t.Parallel()
	d := startDTQ(t)
	leader, follower := d.WaitLeader(), d.Follower()
	name := members{"worker_id": "w"}
	d.post(leader, "/register_worker", name, http.StatusOK)
	ids := []string{d.submit(leader), d.submit(leader)}
	for _, id := range ids {
		if a := d.post(leader, "/get_pending_task", name, http.StatusOK); a.TaskID != id {
			t.Fatalf("got %s, want %s", a.text, id)
		}
	}
	for end := time.Now().Add(2 * oldLease); time.Now().Before(end); time.Sleep(oldLease / 10) {
		d.post(follower, "/heartbeat", name, http.StatusOK)
	}
	for _, id := range ids {
		if a := d.show(leader, id); a.Status != "processing" {
			t.Errorf("shown as %s", a.text)
		}
	}
	d.post(leader, "/register_worker", name, http.StatusOK)
	d.post(leader, "/get_pending_task", name, http.StatusNotFound)
	for _, id := range ids {
		d.Eventually(oldLease+patience, "the task of before the start goes back", func() error {
			d.post(leader, "/heartbeat", name, http.StatusOK)
			if a := d.show(leader, id); a.Status != "pending" {
				return errors.New(a.text)
			}
			return nil
		})
	}
	if a := d.post(leader, "/get_pending_task", members{"worker_id": "other"}, http.StatusOK); a.TaskID != ids[0] {
		t.Fatalf("got %s", a.text)
	}
	for _, result := range []string{`"late"`, `"twice"`} {
		d.post(leader, "/complete_task", members{"task_id": ids[0], "result": strings.Trim(result, `"`)}, http.StatusOK)
		if a := d.show(leader, ids[0]); a.Status != "completed" || string(a.Result) != result {
			t.Errorf("shown as %s, want the result %s", a.text, result)
		}
	}
}

// Without a majority no write is acknowledged, a task can still be read, and heartbeats
// are accepted.
func TestDTQWithoutMajority(t *testing.T) {
	t.Parallel()
	d := startDTQ(t)
	leader := d.WaitLeader()
	id := d.submit(leader)
	for _, n := range d.Nodes {
		if n != leader {
			n.Kill()
		}
	}
	for path, body := range map[string]members{
		"/submit_task": {}, "/get_pending_task": {"worker_id": "w"}, "/complete_task": {"task_id": id},
	} {
		d.post(leader, path, body, http.StatusServiceUnavailable)
	}
	d.post(leader, "/heartbeat", members{"worker_id": "w"}, http.StatusOK)
	if a := d.show(leader, id); a.TaskID != id {
		t.Errorf("shown as %s", a.text)
	}
}

// The leader is killed between a worker's claim and its report. The worker finds the new
// leader, which knows the claim.
func TestLeaderIsKilledBetweenGetAndComplete(t *testing.T) {
	t.Parallel()
	d := startDTQ(t)
	leader := d.WaitLeader()
	name := members{"worker_id": "w"}
	d.post(leader, "/register_worker", name, http.StatusOK)
	id, second := d.submit(leader), d.submit(leader)
	if a := d.post(leader, "/get_pending_task", name, http.StatusOK); a.TaskID != id {
		t.Fatalf("got %s", a.text)
	}
	leader.Kill()
	report := members{"task_id": id, "result": members{"ok": true}}
	next := d.WaitOtherLeader(leader)
	a := d.becomes(next, id, "processing", patience)
	d.Eventually(patience, "the new leader takes the report", func() error {
		_, err := d.at(next).post(t.Context(), "/complete_task", report, http.StatusOK)
		return err
	})
	done := d.becomes(next, id, "completed", patience)
	if a.WorkerID != "w" || done.WorkerID != "w" || done.StartedAt != a.StartedAt || string(done.Result) != `{"ok":true}` {
		t.Errorf("shown as %s, then as %s", a.text, done.text)
	}
	if a := d.post(next, "/get_pending_task", name, http.StatusOK); a.TaskID != second {
		t.Errorf("the next one is %s, want %s", a.text, second)
	}
}

// The leader is killed twice while workers run tasks and producers submit them. No acknowledged task
// is lost, and all are completed in the end although workers do not repeat a report: no task stays
// leased by a worker that does not run it.
func TestDTQUnderLeaderKills(t *testing.T) {
	t.Parallel()
	d := startDTQ(t)
	ctx, stopWork := context.WithCancel(t.Context())
	defer stopWork()
	producing, stopProducers := context.WithCancel(ctx)
	var workers, producers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() { d.work(ctx, fmt.Sprint("worker-", i)) })
	}
	var mu sync.Mutex
	var acked []string
	for range 2 {
		producers.Go(func() {
			for i := 0; producing.Err() == nil; i++ {
				c := d.at(d.Nodes[i%len(d.Nodes)])
				if id, err := c.Call(producing, needs.Submit, needs.Params{Type: "t"}); err == nil {
					mu.Lock()
					acked = append(acked, id)
					mu.Unlock()
				}
				pause(producing, 10*time.Millisecond)
			}
		})
	}
	for range 2 {
		time.Sleep(time.Second) // of work under way: it is the load of this test
		old := d.WaitLeader()
		old.Kill()
		d.WaitOtherLeader(old)
		old.Start()
	}
	time.Sleep(500 * time.Millisecond)
	stopProducers()
	producers.Wait()
	node := d.WaitLeader()
	for _, id := range acked {
		if a := d.becomes(node, id, "completed", 2*oldLease+3*patience); !strings.Contains(string(a.Result), "worker-") {
			t.Errorf("task %s has the result %s", id, a.Result)
		}
	}
	stopWork()
	workers.Wait()
	if len(acked) < 20 {
		t.Errorf("%d tasks were hardly any load", len(acked))
	}
}

// work imitates dtq's worker with shorter pauses: it finds the leader, registers, and then claims and
// reports tasks, with heartbeats. It reports once and ignores the answer.
func (d *dtqNodes) work(ctx context.Context, name string) {
	for ctx.Err() == nil {
		c := newDTQClient(name, newWire())
		if broker, err := byStatus(d.Cluster)(ctx); err == nil && c.Connect(ctx, "http://"+broker) == nil {
			for ctx.Err() == nil {
				id, err := c.Call(ctx, needs.Claim, needs.Params{})
				if err == nil && id != "" {
					pause(ctx, 20*time.Millisecond)
					_, err = c.Call(ctx, needs.Complete, needs.Params{Job: id})
				}
				if err != nil {
					break
				}
				_, _ = c.Call(ctx, needs.Heartbeat, needs.Params{})
				if id == "" {
					pause(ctx, 100*time.Millisecond)
				}
			}
		}
		c.Close()
		pause(ctx, 100*time.Millisecond)
	}
}
