package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

// Raft has the methods of *raft.Raft that Log calls.
type Raft interface {
	State() raft.RaftState
	CommitIndex() uint64
	GetConfiguration() raft.ConfigurationFuture
}

// Options are the settings of a Log.
type Options struct {
	Stall   time.Duration       // longest access of up to transport.AppendMaxBytes; a larger one may take more in proportion
	Fatal   func(error)         // called when the node must end, maybe several times; nil: nothing is called
	Before  func()              // called at the start of each write, unless nil
	Wrote   func(time.Duration) // called with the duration of each write, fsync included; it must not wait; nil: nothing is called
	Closing <-chan struct{}     // closed when the node is being closed
	Logger  hclog.Logger        // nil: no log

	Size   int64 // of a new segment in bytes, a multiple of 4096; 0: 8 MiB
	Spares int   // number of empty segments that are prepared; 0: 2; below 0: none before they are needed
	Keep   int   // most empty segments that are kept after a truncation; 0: 8

	inline bool // no goroutine: an append prepares segments itself, and tests call workLocked
}

func (o Options) withDefaults() Options {
	o.Size, o.Spares, o.Keep = cmp.Or(o.Size, defaultSize), cmp.Or(o.Spares, defaultSpares), cmp.Or(o.Keep, defaultKeep)
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	if o.Wrote == nil {
		o.Wrote = func(time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return o
}

// Log is the log and the votes of one raft node. It implements raft.LogStore, raft.StableStore,
// raft.MonotonicLogStore and transport.Position, and is safe for concurrent use, except that only
// one goroutine may call StoreLogs, as raft's main goroutine does. doc.go has the states.
type Log struct {
	disk      Disk
	opts      Options
	snapshots raft.SnapshotStore // nil until Snapshots
	poke      chan struct{}      // signals saveOften that the term or the vote is new; capacity 1
	build     builder            // of the write under way

	mu       sync.Mutex // guards the fields below; unlocked releases it during an access to the disk
	raft     Raft       // nil until Serve
	segments            // what the disk has
	tail     tail
	durable  Witnessed // what the witness may claim
	witness  witness
	base     base          // newest entry that a snapshot has replaced
	err      error         // of the write that failed: no write begins after it
	writing  bool          // the end of the log, a term or a vote is being written, or one of these read
	direct   int           // number of goroutines for which the queue must leave the next write
	queues   bool          // a goroutine writes the queue
	changed  chan struct{} // closed by signalLocked; nil: nobody waits
	running  map[*access]struct{}

	maintains  bool  // the goroutine of maintainLocked runs
	metaDue    bool  // the record in meta is to be written
	wanted     bool  // an append waits for a spare
	unprepared error // of the last attempt to prepare a segment; nil: try
}

var errClosed = errors.New("the raft log is closed")

// Open opens the log on a disk, and creates it if the disk is empty. It reads everything once. The error wraps
// ErrDamaged if data is damaged or missing. The log closes the disk.
func Open(d Disk, o Options) (*Log, error) {
	l := &Log{disk: d, opts: o.withDefaults(), poke: make(chan struct{}, 1), running: make(map[*access]struct{})}
	err := l.recover(d)
	if err == nil {
		err = shielded(votes{d}.checkAll)
	}
	if err != nil {
		return nil, errors.Join(err, l.segments.close(), d.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked()
	l.maintainLocked()
	return l, nil
}

// OpenDir opens the log in a data directory, and creates it if there is none. It keeps a second process out. The error
// wraps ErrDamaged if a file is damaged or missing.
func OpenDir(data string, o Options) (*Log, error) {
	path := filepath.Join(data, dirName)
	if err := create(path); err != nil {
		return nil, fmt.Errorf("create the raft log %s: %w", path, err)
	}
	d, err := openDirectory(data)
	if err == nil {
		var l *Log
		if l, err = Open(d, o); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("open the raft log %s: %w", path, err)
}

// Serve sets the raft node whose entries may be queued. Before the call nothing is queued.
func (l *Log) Serve(r Raft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raft = r
}

// Close writes the queue, waits for the write under way, and closes the disk.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.flushLocked() // its error was fatal
	l.beginLocked()
	defer l.endLocked()
	l.err = cmp.Or(l.err, errClosed)
	for l.maintains {
		l.waitLocked(nil)
	}
	return errors.Join(l.segments.close(), l.disk.Close())
}

// IsMonotonic implements raft.MonotonicLogStore: raft clears the log when it restores a snapshot.
func (l *Log) IsMonotonic() bool { return true }

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. If the entries may be queued, they are not durable when it
// returns. Otherwise they are, and so are all entries before them. Entries whose indexes do not follow
// the last one replace the log.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if l.mayQueue(logs) {
		if queued, err := l.put(logs); queued || err != nil {
			return err
		}
	}
	return l.exclusive(func() error { return l.appendLocked(logs) })
}

// mayQueue reports whether raft needs the answer of another node before it commits the entries.
// A configuration is never queued: with the new voters, raft may need no other node for the
// entries before it.
func (l *Log) mayQueue(logs []*raft.Log) bool {
	l.mu.Lock()
	r := l.raft
	l.mu.Unlock()
	if r == nil || r.State() != raft.Leader {
		return false
	}
	for _, e := range logs {
		if e.Type == raft.LogConfiguration {
			return false
		}
	}
	voters := 0
	for _, s := range r.GetConfiguration().Configuration().Servers {
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
	if !l.queues {
		l.queues = true
		go l.writeQueue()
	}
	return true, nil
}

// writeQueue writes the queue until it is empty, or until a write has failed. Entries that come in during
// a write are written together.
func (l *Log) writeQueue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && len(l.tail.queue()) > 0 {
		if l.writing || l.direct > 0 {
			l.waitLocked(nil)
			continue
		}
		l.writing = true
		_ = l.appendLocked(l.tail.queue()) // its error was fatal
		l.endLocked()
	}
	l.queues = false
}

// appendLocked makes entries durable: the first ones of the queue, or others while nothing is queued. It has begun.
func (l *Log) appendLocked(logs []*raft.Log) error {
	return l.write("append to the raft log", bytesOf(logs), func() error {
		if err := l.check(logs); err != nil {
			return err
		}
		if err := l.frames(logs); err != nil {
			return err
		}
		l.durable.Index = logs[len(logs)-1].Index
		l.tail.stored(logs)
		l.tail.remove(0, l.first-1) // it may have been removed meanwhile
		return nil
	})
}

// write performs a write that the node cannot do without. fn releases mu during an access to the disk. If fn fails,
// that is fatal first, so that this node sends nothing more, and no write begins after it.
func (l *Log) write(what string, bytes int, fn func() error) error {
	a, began := l.enterLocked(what, bytes), time.Now()
	if l.opts.Before != nil {
		_ = l.unlocked(func() error { l.opts.Before(); return nil })
	}
	err := fn()
	delete(l.running, a)
	if err == nil {
		l.opts.Wrote(time.Since(began))
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	_ = l.unlocked(func() error { l.opts.Fatal(err); return nil })
	l.err = cmp.Or(l.err, err)
	l.signalLocked()
	return err
}

// unlocked releases mu during an access to the disk.
func (l *Log) unlocked(fn func() error) error {
	l.mu.Unlock()
	defer l.mu.Lock()
	return fn()
}

// failed returns the error after which no write may begin.
func (l *Log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// exclusive calls fn, which writes to the disk, after the entries that are queued at the time of
// the call are durable, and while nothing else is written. If a write has failed, it returns the
// error of that instead.
func (l *Log) exclusive(fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exclusiveLocked(fn)
}

func (l *Log) exclusiveLocked(fn func() error) error {
	if err := l.flushLocked(); err != nil {
		return err
	}
	l.beginLocked()
	defer l.endLocked()
	if l.err != nil { // maybe of entries that came in since the flush
		return l.err
	}
	return fn()
}

// beginLocked waits for the write under way, and begins one.
func (l *Log) beginLocked() {
	l.direct++
	for l.writing {
		l.waitLocked(nil)
	}
	l.direct--
	l.writing = true
}

// endLocked ends the write that this goroutine has begun.
func (l *Log) endLocked() {
	l.writing = false
	l.signalLocked()
}

// flushLocked waits until the entries that are in the queue now are durable.
func (l *Log) flushLocked() error {
	q := l.tail.queue()
	if len(q) == 0 {
		return nil
	}
	return l.awaitLocked(q[len(q)-1].Index, nil)
}

var errCut = errors.New("the entries are not durable, and this node has no contact with the others")

// Await implements transport.Durable. It waits until the entries up to index that this node has are
// durable. It returns an error if they cannot become durable, or if stop is closed first.
func (l *Log) Await(index uint64, stop <-chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.awaitLocked(index, stop)
}

func (l *Log) awaitLocked(index uint64, stop <-chan struct{}) error {
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

// signalLocked wakes all goroutines that wait for a change of the state.
func (l *Log) signalLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// GetLog implements raft.LogStore. A damaged entry is fatal: it must not be applied or sent to
// other nodes, and reading it again does not help. An entry that the log does not have may be the
// base, see baseLocked. Entries can be read after a write has failed, too.
func (l *Log) GetLog(index uint64, e *raft.Log) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.getLocked(index, e)
	if errors.Is(err, raft.ErrLogNotFound) && l.baseLocked(index, e) {
		return nil
	}
	return err
}

// getLocked reads an entry from memory or from the disk.
func (l *Log) getLocked(index uint64, e *raft.Log) error {
	if c := l.tail.at(index); c != nil {
		*e = *c
		return nil
	}
	s, p, ok := l.find(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	a := l.enterLocked("read the raft log", 0)
	defer delete(l.running, a)
	for {
		err := l.unlocked(func() error { return s.read(l.salt, p, index, e) })
		if err == nil {
			return nil
		}
		again, at, ok := l.find(index)
		switch {
		case !ok:
			return raft.ErrLogNotFound
		case again != s: // the segment was used again meanwhile
			s, p = again, at
			continue
		}
		err = fmt.Errorf("entry %d in %s: %w", index, s.name, err)
		if errors.Is(err, ErrDamaged) {
			_ = l.unlocked(func() error { l.opts.Fatal(err); return nil })
		}
		return err
	}
}

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firstLocked()
}

func (l *Log) firstLocked() (uint64, error) {
	if err := l.flushLocked(); err != nil || l.first == l.next {
		return 0, err
	}
	return l.first, nil
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.flushLocked(); err != nil {
		return 0, err
	}
	return l.last(), nil
}

// DeleteRange implements raft.LogStore. The range must contain the start or the end of the log. The removal
// of the start only changes memory, and becomes durable a little later: raft removes only entries that are in
// a snapshot, so they may return. That of the end is durable when DeleteRange returns: others have replaced it,
// or a snapshot has replaced the log.
func (l *Log) DeleteRange(from, to uint64) error {
	from = max(from, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if to < l.last() {
		_, err := l.deleteStartLocked(from, to)
		return err
	}
	return l.exclusiveLocked(func() error {
		if done, err := l.deleteStartLocked(from, to); done || err != nil {
			return err
		}
		l.tail.remove(from, to)
		return l.write("shorten the raft log", 0, func() error {
			if err := l.unlocked(func() error { return l.mayLose(from) }); err != nil {
				return err
			}
			if err := l.lowerLocked(from); err != nil {
				return err
			}
			s, err := l.room(1)
			if err != nil {
				return err
			}
			if from <= l.first {
				from = 1 // also what was removed before, and is not recorded yet
			}
			return l.frame(s, frame{kind: kindTruncate, length: frameHeader, first: from}, nil)
		})
	})
}

// deleteStartLocked removes a range that does not contain the end of the log. done is false if it
// does.
func (l *Log) deleteStartLocked(from, to uint64) (done bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	if done, err = l.cutStart(from, to); done {
		l.tail.remove(from, to)
		l.releaseLocked()
	}
	return done, err
}

// mayLose returns an error if the log must not lose its end from an index on: this node has
// confirmed committed entries there, and the disk has no snapshot that contains them.
func (l *Log) mayLose(from uint64) error {
	l.mu.Lock()
	r := l.raft
	l.mu.Unlock()
	if r == nil {
		return nil
	}
	committed := r.CommitIndex()
	if newest := l.newestSnapshot().index; from <= committed && newest < committed {
		return fmt.Errorf("entry %d is committed, and the newest snapshot on the disk is that of entry %d: this node keeps entry %d "+
			"and what follows", committed, newest, from)
	}
	return nil
}

// Set implements raft.StableStore.
func (l *Log) Set(key, val []byte) error {
	return l.exclusive(func() error {
		return l.write("write raft's vote", 0, func() error {
			return l.unlocked(func() error { return votes{l.disk}.set(key, val) })
		})
	})
}

// SetUint64 implements raft.StableStore. Raft sets its term before it answers in that term, so the
// queue is empty whenever the node follows another one. Raft panics if it cannot store its term,
// before the node can say why it ends. So if a write has failed, SetUint64 returns when the node is
// being closed, and without an error. The node answers nothing by then (Node.die), and grants no
// vote in a term that is not stored, because votes are stored too.
func (l *Log) SetUint64(key []byte, val uint64) error {
	err := l.exclusive(func() error {
		return l.write("write raft's term", 0, func() error {
			err := l.unlocked(func() error { return votes{l.disk}.set(key, number(val)) })
			if err == nil {
				l.votedLocked(string(key), val)
			}
			return err
		})
	})
	if err != nil {
		<-l.opts.Closing
	}
	return nil
}

// Get implements raft.StableStore.
func (l *Log) Get(key []byte) (val []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginLocked()
	defer l.endLocked()
	a := l.enterLocked("read raft's votes", 0)
	defer delete(l.running, a)
	err = l.unlocked(func() (err error) { val, err = votes{l.disk}.get(key); return err })
	return val, err
}

// GetUint64 implements raft.StableStore.
func (l *Log) GetUint64(key []byte) (uint64, error) {
	val, err := l.Get(key)
	if err != nil {
		return 0, err
	}
	return toNumber(key, val)
}

// Sizes calls yield with the index and the size in bytes of each durable entry, the newest first,
// until yield returns false. yield must not call the log.
func (l *Log) Sizes(yield func(index uint64, bytes int) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Backward(l.live) {
		for i, p := range slices.Backward(s.places) {
			if index := s.first + uint64(i); index < l.first || !yield(index, int(p.length)) {
				return
			}
		}
	}
}

// Place returns the file of a durable entry, and the bytes in it that have the entry, whole sectors.
func (l *Log) Place(index uint64) (file string, offset, length int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, p, ok := l.find(index)
	if !ok {
		return "", 0, 0, raft.ErrLogNotFound
	}
	at, end := p.pos/payloadSize, (p.pos+p.length-1)/payloadSize
	return s.name, int64(at) * sectorSize, int64(end-at+1) * sectorSize, nil
}

func bytesOf(logs []*raft.Log) (sum int) {
	for _, e := range logs {
		sum += transport.EntryBytes(e)
	}
	return sum
}

var (
	_ raft.MonotonicLogStore = (*Log)(nil)
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ transport.Position     = (*Log)(nil)
)

// Free returns the free bytes on the disk; ok is false if they are unknown.
func (l *Log) Free() (bytes int64, ok bool) { return l.disk.Free() }
