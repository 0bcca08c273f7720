package dtq_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// worker imitates dtq's worker with shorter pauses: it finds the leader, registers,
// sends heartbeats, and claims, runs and reports tasks in a loop. It reports once and
// ignores the answer.
type worker struct {
	t    testing.TB
	c    *cluster.Cluster
	name string
	work time.Duration // on each task

	leader  atomic.Pointer[cluster.Node]
	reports int
}

const (
	pollEvery = 100 * time.Millisecond
	beatEvery = lease / 10
)

// run works until done is closed.
func (w *worker) run(done <-chan struct{}) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for wait(done, beatEvery) {
			if n := w.leader.Load(); n != nil {
				post(w.t, n, "/heartbeat", object{"worker_id": w.name})
			}
		}
	})
	for wait(done, 0) {
		if w.leader.Load() == nil {
			if !w.find() {
				wait(done, pollEvery)
			}
			continue
		}
		w.step(done)
	}
	wg.Wait()
}

// wait waits and reports whether the worker continues after it.
func wait(done <-chan struct{}, d time.Duration) bool {
	if d == 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	select {
	case <-done:
		return false
	case <-time.After(d):
		return true
	}
}

func (w *worker) find() bool {
	for _, n := range w.c.Nodes {
		if a := send(w.t, http.MethodGet, n.HTTP, "/status", nil); a.State != "leader" {
			continue
		}
		if post(w.t, n, "/register_worker", object{"worker_id": w.name}).status == 200 {
			w.leader.Store(n)
			return true
		}
	}
	return false
}

func (w *worker) step(done <-chan struct{}) {
	n := w.leader.Load()
	switch a := ask(w.t, n, w.name); a.status {
	case 200:
		if !wait(done, w.work) {
			return
		}
		w.reports++
		a = post(w.t, n, "/complete_task", object{"task_id": a.TaskID, "result": object{"by": w.name, "payload": a.Payload}})
		if a.status != 200 {
			w.leader.Store(nil)
		}
	case 404:
		wait(done, pollEvery)
	default:
		w.leader.Store(nil)
	}
}

// The leader is killed twice while workers run tasks and producers submit them. No
// acknowledged task is lost, and all are completed in the end although workers do not
// repeat a report: no task stays leased by a worker that does not run it.
func TestFailoverUnderWork(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.WaitLeader()
	done := make(chan struct{})
	var workers, producers sync.WaitGroup
	var all []*worker
	for i := range 3 {
		w := &worker{t: t, c: c, name: fmt.Sprint("worker-", i), work: 20 * time.Millisecond}
		all = append(all, w)
		workers.Go(func() { w.run(done) })
	}
	var mu sync.Mutex
	acked := map[string]int{} // the payload of each task
	stop := make(chan struct{})
	for i := range 2 {
		producers.Go(func() {
			for k := 0; wait(stop, 10*time.Millisecond); k++ {
				payload := 1_000_000*i + k
				for wait(stop, 0) {
					if id, ok := submitSomewhere(t, c, payload); ok {
						mu.Lock()
						acked[id] = payload
						mu.Unlock()
						break
					}
				}
			}
		})
	}
	for range 2 {
		time.Sleep(time.Second) // of work under way: it is the load of this test
		old := c.WaitLeader()
		old.Kill()
		c.WaitOtherLeader(old)
		old.Start()
	}
	time.Sleep(500 * time.Millisecond)
	close(stop)
	producers.Wait()
	node := c.WaitLeader()
	for id, payload := range acked {
		a := becomes(t, c, node, id, "completed", 2*lease+3*patience)
		var result struct{ Payload int }
		if err := json.Unmarshal(a.Result, &result); err != nil || result.Payload != payload {
			t.Errorf("task %s with the payload %d has the result %s", id, payload, a.Result)
		}
	}
	close(done)
	workers.Wait()
	reports := 0
	for _, w := range all {
		reports += w.reports
	}
	t.Logf("%d tasks acknowledged, %d results reported", len(acked), reports)
	if len(acked) < 20 {
		t.Error("that was hardly any load")
	}
}

// submitSomewhere tries each node once, like a producer after a 503 or a lost
// connection.
func submitSomewhere(t testing.TB, c *cluster.Cluster, payload int) (id string, ok bool) {
	for _, n := range c.Nodes {
		a := post(t, n, "/submit_task", object{"task_type": "t", "payload": payload})
		if a.status == 202 {
			return a.TaskID, true
		}
		if a.status != 503 && a.status != 0 {
			t.Errorf("submit answered %d %s", a.status, a.text)
		}
	}
	return "", false
}

// The leader is killed between a worker's claim and its report. The worker finds the new
// leader, which knows the claim.
func TestLeaderIsKilledBetweenGetAndComplete(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader := c.WaitLeader()
	name := object{"worker_id": "w"}
	want(t, post(t, leader, "/register_worker", name), 200)
	id := submit(t, leader, 7)
	second := submit(t, leader, 8)
	if a := want(t, ask(t, leader, "w"), 200); a.TaskID != id {
		t.Fatalf("got %s", a.text)
	}
	leader.Kill()
	report := object{"task_id": id, "result": object{"ok": true}}
	if a := post(t, leader, "/complete_task", report); a.status != 0 {
		t.Fatalf("a killed node answered %s", a.text)
	}
	next := c.WaitOtherLeader(leader)
	a := becomes(t, c, next, id, "processing", patience)
	if a.WorkerID == nil || *a.WorkerID != "w" {
		t.Errorf("shown as %s", a.text)
	}
	c.Eventually(patience, "the new leader takes the report", func() error {
		if a := post(t, next, "/complete_task", report); a.status != 200 {
			return fmt.Errorf("%d %s", a.status, a.text)
		}
		return nil
	})
	done := becomes(t, c, next, id, "completed", patience)
	if done.WorkerID == nil || *done.WorkerID != "w" || done.StartedAt != a.StartedAt || string(done.Result) != `{"ok":true}` {
		t.Errorf("shown as %s", done.text)
	}
	if a := want(t, ask(t, next, "w"), 200); a.TaskID != second {
		t.Errorf("the next one is %s, want %s", a.text, second)
	}
}

// The leader dies before a worker reads the answer to its claim. The worker sends
// heartbeats to the new leader all the time, and gets the task again.
func TestAnswerIsLostWithTheLeader(t *testing.T) {
	t.Parallel()
	c := start(t)
	leader := c.WaitLeader()
	name := object{"worker_id": "w"}
	want(t, post(t, leader, "/register_worker", name), 200)
	id := submit(t, leader, 7)
	want(t, ask(t, leader, "w"), 200) // and the worker does not read the answer
	leader.Kill()
	next := c.WaitOtherLeader(leader)
	want(t, post(t, next, "/register_worker", name), 200)
	c.Eventually(lease+patience, "the task comes back", func() error {
		want(t, post(t, next, "/heartbeat", name), 200)
		a := ask(t, next, "w")
		if a.status != 200 {
			return fmt.Errorf("%d %s", a.status, a.text)
		}
		if a.TaskID != id {
			t.Fatalf("got %s, want %s", a.text, id)
		}
		return nil
	})
	want(t, post(t, next, "/complete_task", object{"task_id": id, "result": 1}), 200)
	if a := becomes(t, c, next, id, "completed", patience); string(a.Result) != "1" {
		t.Errorf("shown as %s", a.text)
	}
}
