// Package queue lets a leader store the entries of its raft log while its followers do.
//
// # Problem
//
// Raft stores an entry on the leader, and sends it to the followers when that is done: a commit
// takes two fsyncs in a row, although neither needs the other.
//
// # Approach
//
// Log takes the entries of a leader into a queue and returns; raft then sends them. A goroutine
// writes the queue. Raft counts an entry as stored by the leader as soon as StoreLogs returns,
// which is too early. So the transport calls Await before raft gets an answer that confirms
// entries (transport.Outbound). cluster/DESIGN.md says why a commit is durable then.
//
// # Failure stance
//
// A write that fails is permanent: each later write returns its error, and so does Await for the
// entries that were not written. The log below has to end the node.
package queue

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

// maxBytes bounds the entries in the queue. A larger append waits until the queue is empty.
const maxBytes = 4 << 20

var errCut = errors.New("the entries are not durable, and this node has no contact with the others")

// Raft has the methods of *raft.Raft that Log calls.
type Raft interface {
	State() raft.RaftState
	GetConfiguration() raft.ConfigurationFuture
}

// Log is a raft log and the votes next to it. It implements raft.LogStore, raft.StableStore and
// raft.MonotonicLogStore, and is safe for concurrent use, except that only one goroutine may
// call StoreLogs, Set and SetUint64, as raft's main goroutine does.
type Log struct {
	raft.LogStore
	raft.StableStore
	closing <-chan struct{}
	raft    atomic.Pointer[Raft] // nil until Serve

	disk chan struct{} // capacity 1: full during a write to the stores

	mu      sync.Mutex    // guards the fields below
	queue   []*raft.Log   // entries that are not durable, by ascending index
	bytes   int           // of the entries in queue
	writing bool          // a goroutine writes the queue
	err     error         // of the write that failed
	changed chan struct{} // closed and replaced after each write of the queue
}

// New returns a queue in front of a log and the votes on the same disk. closing is closed when
// the node is being closed.
func New(log raft.LogStore, votes raft.StableStore, closing <-chan struct{}) *Log {
	return &Log{LogStore: log, StableStore: votes, closing: closing, disk: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Serve sets the raft node whose entries may be queued. Before the call nothing is queued.
func (q *Log) Serve(r Raft) { q.raft.Store(&r) }

// IsMonotonic implements raft.MonotonicLogStore.
func (q *Log) IsMonotonic() bool {
	m, ok := q.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLog implements raft.LogStore.
func (q *Log) StoreLog(l *raft.Log) error { return q.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. If the entries may be queued, they are not durable when it
// returns. Otherwise they are, and so are all entries before them.
func (q *Log) StoreLogs(logs []*raft.Log) error {
	if q.mayQueue(logs) {
		return q.put(logs)
	}
	return q.write(func() error { return q.LogStore.StoreLogs(logs) })
}

// mayQueue reports whether raft needs the answer of another node before it commits the entries.
// A configuration is never queued: with the new voters, raft may need no other node for the
// entries before it.
func (q *Log) mayQueue(logs []*raft.Log) bool {
	r := q.raft.Load()
	if r == nil || (*r).State() != raft.Leader {
		return false
	}
	for _, l := range logs {
		if l.Type == raft.LogConfiguration {
			return false
		}
	}
	voters := 0
	for _, s := range (*r).GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	return voters > 1
}

// put adds entries to the queue. It waits while the queue is full.
func (q *Log) put(logs []*raft.Log) error {
	size := 0
	for _, l := range logs {
		size += transport.EntryBytes(l)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && len(q.queue) > 0 && q.bytes+size > maxBytes {
		q.waitLocked(nil)
	}
	if q.err != nil {
		return q.err
	}
	q.queue = append(q.queue, logs...)
	q.bytes += size
	if !q.writing {
		q.writing = true
		go q.run()
	}
	return nil
}

// run writes the queue until it is empty, or until a write fails. Entries that come in during a
// write are written together.
func (q *Log) run() {
	for more := true; more; {
		q.disk <- struct{}{}
		q.mu.Lock()
		logs := slices.Clip(q.queue)
		q.mu.Unlock()
		more = q.written(logs, q.LogStore.StoreLogs(logs))
		<-q.disk // after written: the next write must see an error
	}
}

// written removes entries from the queue unless their write failed. It reports whether there are
// others to write.
func (q *Log) written(logs []*raft.Log, err error) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err = err; err == nil {
		for _, l := range logs {
			q.bytes -= transport.EntryBytes(l)
		}
		q.queue = slices.Clone(q.queue[len(logs):])
	}
	q.writing = err == nil && len(q.queue) > 0
	close(q.changed)
	q.changed = make(chan struct{})
	return q.writing
}

// waitLocked waits for the next write of the queue. It returns false if stop is closed first.
func (q *Log) waitLocked(stop <-chan struct{}) bool {
	changed := q.changed
	q.mu.Unlock()
	defer q.mu.Lock()
	select {
	case <-changed:
		return true
	case <-stop:
		return false
	}
}

// Await waits until the entries up to index that this node has are durable. It returns an error
// if they cannot become durable, or if stop is closed first.
func (q *Log) Await(index uint64, stop <-chan struct{}) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 && q.queue[0].Index <= index {
		if q.err != nil {
			return q.err
		}
		if !q.waitLocked(stop) {
			return errCut
		}
	}
	return nil
}

// Flush waits until the entries that are in the queue now are durable.
func (q *Log) Flush() error {
	q.mu.Lock()
	last := uint64(0)
	if n := len(q.queue); n > 0 {
		last = q.queue[n-1].Index
	}
	q.mu.Unlock()
	return q.Await(last, nil)
}

// write performs a write that comes after the queue.
func (q *Log) write(fn func() error) error {
	if err := q.Flush(); err != nil {
		return err
	}
	q.disk <- struct{}{}
	defer func() { <-q.disk }()
	if err := q.failure(); err != nil { // of entries that came in since
		return err
	}
	return fn()
}

func (q *Log) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// GetLog implements raft.LogStore. It finds the entries in the queue, too.
func (q *Log) GetLog(index uint64, l *raft.Log) error {
	q.mu.Lock()
	i, ok := slices.BinarySearchFunc(q.queue, index, func(e *raft.Log, index uint64) int { return cmp.Compare(e.Index, index) })
	if ok {
		*l = *q.queue[i]
	}
	q.mu.Unlock()
	if ok {
		return nil
	}
	return q.LogStore.GetLog(index, l)
}

// FirstIndex implements raft.LogStore.
func (q *Log) FirstIndex() (uint64, error) {
	if err := q.Flush(); err != nil {
		return 0, err
	}
	return q.LogStore.FirstIndex()
}

// LastIndex implements raft.LogStore.
func (q *Log) LastIndex() (uint64, error) {
	if err := q.Flush(); err != nil {
		return 0, err
	}
	return q.LogStore.LastIndex()
}

// DeleteRange implements raft.LogStore. Raft removes the start of the log from a goroutine of
// its own, while entries may come in.
func (q *Log) DeleteRange(from, to uint64) error {
	return q.write(func() error { return q.LogStore.DeleteRange(from, to) })
}

// Set implements raft.StableStore.
func (q *Log) Set(key, val []byte) error {
	return q.write(func() error { return q.StableStore.Set(key, val) })
}

// SetUint64 implements raft.StableStore. Raft sets its term before it answers in that term, so
// the queue is empty whenever the node follows another one. If the queue has failed, SetUint64
// returns when the node is being closed, and without an error: raft panics if it cannot store its
// term. The node answers nothing by then (Node.Close).
func (q *Log) SetUint64(key []byte, val uint64) error {
	err := q.write(func() error { return q.StableStore.SetUint64(key, val) })
	if err != nil {
		<-q.closing
	}
	return nil
}
