package dtq

import (
	"sync"
	"time"
)

// handouts remembers which tasks this node, as the leader, has given to which
// worker, so that heartbeats renew the leases of the tasks that a worker works on
// and of no others.
//
// A heartbeat names no task, and renewing all that a worker holds would keep two
// kinds of tasks for as long as the worker lives: those that it was given in an
// answer that got lost, and those that it got before it was started again. Both
// show when the worker asks for another task: what it holds by then, but was not
// given by this node since it registered, is lost on it. Its lease is not renewed
// any more, and it goes back when that ends.
//
// It is a memory of this process, and may be wrong in one way only: after a change
// of leader the tasks of a worker that does several at once are taken for lost when
// it asks for one more. They go back, should they take longer than a lease; what
// is given twice is done twice, and nothing is lost. It is safe for concurrent use.
type handouts struct {
	mu    sync.Mutex
	tasks recent[handout]   // given out, by id
	lost  recent[string]    // worker, by id of the task
	began recent[time.Time] // by worker: when it registered last
}

type handout struct {
	worker string
	at     time.Time
}

// handoutsMax is about how many tasks, and how many workers, are remembered.
const handoutsMax = 1 << 16

func newHandouts() *handouts {
	return &handouts{
		tasks: recent[handout]{size: handoutsMax},
		lost:  recent[string]{size: handoutsMax},
		began: recent[time.Time]{size: handoutsMax},
	}
}

// given: the answer with the task goes to the worker.
func (h *handouts) given(task, worker string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks.put(task, handout{worker, at})
	h.lost.drop(task)
}

// over: the worker has reported. Should that come to nothing, it is lost.
func (h *handouts) over(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks.drop(task)
}

// beginsAnew: the worker knows of no task.
func (h *handouts) beginsAnew(worker string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began.put(worker, at)
}

// review is for a worker that asks for a task and holds these.
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

// renewable are those of the worker's tasks that are not lost on it.
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

// recent is a map that forgets what has not been asked for, or put, for long: when
// it has so many new entries, those that were not among the last so many are
// dropped.
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
