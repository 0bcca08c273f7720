package sandbox

import "sync"

// runningSet records the first processes of the running commands of all boxes of this
// process. A stray, a process without one of their marks, belongs to no running command.
type runningSet struct {
	mu      sync.Mutex
	leaders map[int]string // pid to mark
	// starts is held for reading between the start of a first process and its entry in
	// leaders. Otherwise a search for strays in that time would kill it.
	starts sync.RWMutex
}

var everyRunning = &runningSet{leaders: make(map[int]string)}

func newRunningSet() *runningSet { return everyRunning }

func (r *runningSet) add(pid int, mark string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders[pid] = mark
}

func (r *runningSet) remove(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, pid)
}

// others returns the marks of all running commands except own.
func (r *runningSet) others(own string) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks := make(map[string]bool, len(r.leaders))
	for _, mark := range r.leaders {
		if mark != own {
			marks[mark] = true
		}
	}
	return marks
}

func (r *runningSet) leads(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.leaders[pid]
	return ok
}
