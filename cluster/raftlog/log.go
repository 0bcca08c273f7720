package raftlog

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

// Store is the disk of a Log, which has entries and votes. A write is durable when it has returned.
// Entries may be read at any time; Log makes at most one other call at a time.
type Store interface {
	raft.LogStore
	raft.StableStore
	io.Closer
	// Sizes calls yield with the index and the size in bytes of each entry, the newest first, until
	// yield returns false. It does not read the disk. yield must not call the store.
	Sizes(yield func(index uint64, bytes int) bool)
}

// Raft has the methods of *raft.Raft that Log calls.
type Raft interface {
	State() raft.RaftState
	CommitIndex() uint64
	GetConfiguration() raft.ConfigurationFuture
}

// Options are the settings of a Log.
type Options struct {
	Stall   time.Duration   // longest access of up to transport.AppendMaxBytes; a larger one may take more in proportion
	Fatal   func(error)     // called when the node must end, maybe several times
	Before  func()          // called at the start of each write, unless nil
	Closing <-chan struct{} // closed when the node is being closed
	Logger  hclog.Logger    // nil: no log
}

// Log is the log and the votes of one raft node. It implements raft.LogStore, raft.StableStore,
// raft.MonotonicLogStore and transport.Position, and is safe for concurrent use, except that only
// one goroutine may call StoreLogs, as raft's main goroutine does. doc.go has the states.
type Log struct {
	store     Store
	opts      Options
	disk      chan struct{}        // capacity 1: full during a write to the store, and during an access to the votes
	raft      atomic.Pointer[Raft] // nil until Serve
	snapshots raft.SnapshotStore   // nil until Snapshots
	witness   *witness             // nil until Witness

	mu      sync.Mutex // guards the fields below; it is not held during an access to the disk
	tail    tail
	durable Witnessed     // what the store has
	base    base          // newest entry that a snapshot has replaced
	err     error         // of the write that failed: nothing is written after it
	writing bool          // a goroutine writes the queue
	changed chan struct{} // closed after each append, and when err is set; nil: nobody waits
	running map[*access]struct{}
}

// New returns a log in front of a store.
func New(store Store, o Options) *Log {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return &Log{
		store: store, opts: o, disk: make(chan struct{}, 1), running: make(map[*access]struct{}),
	}
}

// Serve sets the raft node whose entries may be queued. Before the call nothing is queued.
func (l *Log) Serve(r Raft) { l.raft.Store(&r) }

// Close writes the queue and closes the store.
func (l *Log) Close() error {
	_ = l.flush() // its error was fatal
	return l.store.Close()
}

// IsMonotonic implements raft.MonotonicLogStore: raft clears the log when it restores a snapshot.
func (l *Log) IsMonotonic() bool { return true }

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. If the entries may be queued, they are not durable when it
// returns. Otherwise they are, and so are all entries before them.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if l.mayQueue(logs) {
		if queued, err := l.put(logs); queued || err != nil {
			return err
		}
	}
	return l.exclusive(func() error { return l.append(logs) })
}

// mayQueue reports whether raft needs the answer of another node before it commits the entries.
// A configuration is never queued: with the new voters, raft may need no other node for the
// entries before it.
func (l *Log) mayQueue(logs []*raft.Log) bool {
	r := l.raft.Load()
	if r == nil || (*r).State() != raft.Leader {
		return false
	}
	for _, e := range logs {
		if e.Type == raft.LogConfiguration {
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

// put adds entries to the queue. It waits while the queue is full. queued is false if they do not
// follow the entries in memory.
func (l *Log) put(logs []*raft.Log) (queued bool, err error) {
	size := bytesOf(logs)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && len(l.tail.queue()) > 0 && l.tail.queueBytes+size > queueBytes {
		l.waitLocked(nil)
	}
	switch {
	case l.err != nil:
		return false, l.err
	case !l.tail.precedes(logs[0].Index):
		return false, nil
	}
	l.tail.push(logs, size)
	if !l.writing {
		l.writing = true
		go l.run()
	}
	return true, nil
}

// run writes the queue until it is empty, or until a write has failed. Entries that come in during
// a write are written together.
func (l *Log) run() {
	for more := true; more; {
		l.disk <- struct{}{}
		more = l.writeQueue()
		<-l.disk
	}
}

// writeQueue writes the entries that are queued now. The caller holds the disk. It reports whether
// there are others to write.
func (l *Log) writeQueue() (more bool) {
	l.mu.Lock()
	logs, err := l.tail.queue(), l.err
	l.mu.Unlock()
	if err == nil {
		err = l.append(logs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = err == nil && len(l.tail.queue()) > 0
	return l.writing
}

// append makes entries durable: the first ones of the queue, or others while nothing is queued. The
// caller holds the disk.
func (l *Log) append(logs []*raft.Log) error {
	err := l.write("append to the raft log", bytesOf(logs), func() error { return l.store.StoreLogs(logs) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable.Index = logs[len(logs)-1].Index
	l.tail.stored(logs)
	l.signalLocked()
	return nil
}

// write performs a write that the node cannot do without. The caller holds the disk. If the write fails, it is fatal
// first, so that this node sends nothing more, and nothing is written after it.
func (l *Log) write(what string, bytes int, fn func() error) error {
	err := l.Watch(what, bytes, func() error {
		if l.opts.Before != nil {
			l.opts.Before()
		}
		return fn()
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	l.opts.Fatal(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.signalLocked()
	return err
}

// exclusive calls fn, which writes to the disk, after the entries that are queued at the time of
// the call are durable, and while nothing else is written. If a write has failed, it returns the
// error of that instead.
func (l *Log) exclusive(fn func() error) error {
	if err := l.flush(); err != nil {
		return err
	}
	l.disk <- struct{}{}
	defer func() { <-l.disk }()
	l.mu.Lock()
	err := l.err // of entries that came in since flush, too
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return fn()
}

// flush waits until the entries that are in the queue now are durable.
func (l *Log) flush() error {
	l.mu.Lock()
	last := uint64(0)
	if q := l.tail.queue(); len(q) > 0 {
		last = q[len(q)-1].Index
	}
	l.mu.Unlock()
	return l.Await(last, nil)
}

var errCut = errors.New("the entries are not durable, and this node has no contact with the others")

// Await implements transport.Durable. It waits until the entries up to index that this node has are
// durable. It returns an error if they cannot become durable, or if stop is closed first.
func (l *Log) Await(index uint64, stop <-chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		q := l.tail.queue()
		switch {
		case len(q) == 0 || q[0].Index > index:
			return nil
		case l.err != nil:
			return l.err
		case !l.waitLocked(stop):
			return errCut
		}
	}
}

// waitLocked waits for signalLocked. It returns false if stop is closed first.
func (l *Log) waitLocked(stop <-chan struct{}) bool {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
		return true
	case <-stop:
		return false
	}
}

// signalLocked wakes those that wait for the queue.
func (l *Log) signalLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// GetLog implements raft.LogStore. A damaged entry is fatal: it must not be applied or sent to
// other nodes, and reading it again does not help. An entry that the log does not have may be the
// base, see baseEntry.
func (l *Log) GetLog(index uint64, e *raft.Log) error {
	err := l.get(index, e)
	if errors.Is(err, raft.ErrLogNotFound) && l.baseEntry(index, e) {
		return nil
	}
	return err
}

// get reads an entry from memory or from the disk.
func (l *Log) get(index uint64, e *raft.Log) error {
	l.mu.Lock()
	c := l.tail.at(index)
	l.mu.Unlock()
	if c != nil {
		*e = *c
		return nil
	}
	err := l.Watch("read the raft log", 0, func() error { return l.store.GetLog(index, e) })
	if errors.Is(err, ErrDamaged) {
		l.opts.Fatal(err)
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	if err := l.flush(); err != nil {
		return 0, err
	}
	return l.store.FirstIndex()
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	if err := l.flush(); err != nil {
		return 0, err
	}
	return l.store.LastIndex()
}

// DeleteRange implements raft.LogStore. Raft removes the start of the log from a goroutine of its
// own, while entries may come in; this may fail until there is room again. It removes the end of
// the log if others have replaced it, or the log if a snapshot has replaced it: a node that cannot
// write is stopped then, too.
func (l *Log) DeleteRange(from, to uint64) error {
	return l.exclusive(func() error {
		last, err := l.store.LastIndex()
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.tail.remove(from, to)
		l.mu.Unlock()
		if to < last {
			return l.Watch("remove the start of the raft log", 0, func() error { return l.store.DeleteRange(from, to) })
		}
		return l.write("shorten the raft log", 0, func() error {
			if err := l.mayLose(from); err != nil {
				return err
			}
			if err := l.lower(from); err != nil {
				return err
			}
			return l.store.DeleteRange(from, to)
		})
	})
}

// mayLose returns an error if the log must not lose its end from an index on: this node has
// confirmed committed entries there, and the disk has no snapshot that contains them.
func (l *Log) mayLose(from uint64) error {
	r := l.raft.Load()
	if r == nil {
		return nil
	}
	committed := (*r).CommitIndex()
	if newest := l.newestSnapshot().index; from <= committed && newest < committed {
		return fmt.Errorf("entry %d is committed, and the newest snapshot on the disk is that of entry %d: this node keeps entry %d "+
			"and what follows", committed, newest, from)
	}
	return nil
}

// Set implements raft.StableStore.
func (l *Log) Set(key, val []byte) error {
	return l.exclusive(func() error {
		return l.write("write raft's vote", 0, func() error { return l.store.Set(key, val) })
	})
}

// SetUint64 implements raft.StableStore. Raft sets its term before it answers in that term, so the
// queue is empty whenever the node follows another one. Raft panics if it cannot store its term,
// before the node can say why it ends. So if a write has failed, SetUint64 returns when the node is
// being closed, and without an error. The node answers nothing by then (Node.die), and grants no
// vote in a term that is not stored, because votes are stored too.
func (l *Log) SetUint64(key []byte, val uint64) error {
	err := l.exclusive(func() error {
		err := l.write("write raft's term", 0, func() error { return l.store.SetUint64(key, val) })
		if err == nil {
			l.voted(string(key), val)
		}
		return err
	})
	if err != nil {
		<-l.opts.Closing
	}
	return nil
}

// Get implements raft.StableStore.
func (l *Log) Get(key []byte) (val []byte, err error) {
	l.disk <- struct{}{}
	defer func() { <-l.disk }()
	err = l.Watch("read raft's vote", 0, func() (err error) { val, err = l.store.Get(key); return err })
	return val, err
}

// GetUint64 implements raft.StableStore.
func (l *Log) GetUint64(key []byte) (val uint64, err error) {
	l.disk <- struct{}{}
	defer func() { <-l.disk }()
	err = l.Watch("read raft's term", 0, func() (err error) { val, err = l.store.GetUint64(key); return err })
	return val, err
}

// Sizes calls yield with the index and the size in bytes of each durable entry, the newest first,
// until yield returns false. yield must not call the log.
func (l *Log) Sizes(yield func(index uint64, bytes int) bool) { l.store.Sizes(yield) }

func bytesOf(logs []*raft.Log) (sum int) {
	for _, e := range logs {
		sum += transport.EntryBytes(e)
	}
	return sum
}

var (
	_ Store                  = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
	_ transport.Position     = (*Log)(nil)
)
