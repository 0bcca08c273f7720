package dtq

import (
	"sync"
	"time"
)

// handouts records which tasks this node, as the leader, has assigned to which worker,
// so that a heartbeat renews the leases of the tasks that the worker runs and no
// others.
//
// A heartbeat names no task. Renewing every lease of a worker would keep two kinds of
// tasks forever: tasks that were assigned in a lost answer, and tasks that the worker
// received before it was restarted. Both become visible when the worker requests
// another task: a task that it leases at that moment, and that this node has not
// assigned to it since it registered, is lost. Its lease is not renewed any more, and
// the task returns to the queue when the lease expires.
//
// The record lives in this process and can be wrong in one way: after a change of
// leader, the tasks of a worker that runs several at a time count as lost when it
// requests one more. If they run longer than a lease they return to the queue and are
// run twice; no task is lost. It is safe for concurrent use.
type handouts struct {
	mu    sync.Mutex
	tasks recent[handout]   // assigned tasks by id
	lost  recent[string]    // workers by the id of the task that they lost
	began recent[time.Time] // last registration by worker
}

// A handout is the assignment of one task.
type handout struct {
	worker string
	at     time.Time
}

// handoutsMax bounds the number of tasks and of workers on record.
const handoutsMax = 1 << 16

func newHandouts() *handouts {
	return &handouts{
		tasks: recent[handout]{size: handoutsMax},
		lost:  recent[string]{size: handoutsMax},
		began: recent[time.Time]{size: handoutsMax},
	}
}

// given records that the answer with the task is sent to the worker.
func (h *handouts) given(task, worker string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks.put(task, handout{worker, at})
	h.lost.drop(task)
}

// over records that the worker has reported the task. If the report fails, the task
// counts as lost.
func (h *handouts) over(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks.drop(task)
}

// registered records that the worker has registered and runs no task.
func (h *handouts) registered(worker string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began.put(worker, at)
}

// review marks as lost the tasks that the worker leases and cannot run, when it requests
// another one.
func (h *handouts) review(worker string, held []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began, _ := h.began.get(worker)
	for _, task := range held {
		given, ok := h.tasks.get(task)
		if !ok || given.worker != worker || given.at.Before(began) {
			h.lost.put(task, worker)
		}
	}
}

// renewable returns the tasks of the worker that are not lost.
func (h *handouts) renewable(worker string, held []string) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, task := range held {
		if on, lost := h.lost.get(task); !lost || on != worker {
			ids = append(ids, task)
		}
	}
	return ids
}

// recent is a map that keeps between size and 2·size of the entries used last. It has
// two generations: when the young one is full, it replaces the old one.
type recent[V any] struct {
	size       int
	young, old map[string]V
}

func (r *recent[V]) get(key string) (v V, ok bool) {
	if v, ok = r.young[key]; ok {
		return v, true
	}
	if v, ok = r.old[key]; ok {
		r.put(key, v)
	}
	return v, ok
}

func (r *recent[V]) put(key string, v V) {
	if _, there := r.young[key]; !there && len(r.young) >= r.size {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[string]V)
	}
	r.young[key] = v
}

func (r *recent[V]) drop(key string) {
	delete(r.young, key)
	delete(r.old, key)
}
