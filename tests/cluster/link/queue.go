package link

import (
	"sync"
	"time"
)

// end is how a direction of a connection ends.
type end int

const (
	not   end = iota // the stream continues: the item has bytes
	fin              // the sender sends no more
	reset            // the connection is broken
)

// item holds the bytes of one read, or an end.
type item struct {
	data     []byte
	end      end
	at       time.Time
	luck     float64 // of its jitter, from 0 to 1
	withheld bool    // it was counted
}

// The bounds of a queue. Behind them the sender waits, as for a full window.
const (
	queueBytes = 4 << 20
	queueItems = 16 << 10
)

// queue holds the bytes in flight in one direction of a connection. One goroutine pops, and one
// waits for room.
type queue struct {
	mu    sync.Mutex
	items []item
	bytes int

	more, less chan struct{} // signals
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), less: make(chan struct{}, 1)}
}

func (q *queue) push(it item) {
	q.mu.Lock()
	q.items = append(q.items, it)
	q.bytes += len(it.data)
	q.mu.Unlock()
	signal(q.more)
}

// room waits until something may be pushed onto a queue of at most window bytes. It returns
// false if done was closed before.
func (q *queue) room(window func() int, done <-chan struct{}) bool {
	for {
		q.mu.Lock()
		free := q.bytes < window() && len(q.items) < queueItems
		q.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-q.less:
		case <-done:
			return false
		}
	}
}

// pop waits for the next item; false: done was closed before.
func (q *queue) pop(done <-chan struct{}) (item, bool) {
	for {
		if it, ok := q.tryPop(); ok {
			return it, true
		}
		select {
		case <-q.more:
		case <-done:
			return item{}, false
		}
	}
}

func (q *queue) tryPop() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item{}, false
	}
	it := q.items[0]
	q.items[0] = item{} // the slice must not keep its bytes
	q.items = q.items[1:]
	q.bytes -= len(it.data)
	signal(q.less)
	return it, true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
