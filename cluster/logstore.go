package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/raftlog/queue"
	"osqueue/cluster/snapshot"
	"osqueue/cluster/transport"
)

// stores are the log, the votes and the snapshots of raft.
type stores struct {
	log       raft.LogStore
	bounded   *boundedLog // log, or below it
	queue     *queue.Log  // the same as log and stable; nil without a disk
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	kept      *snapshot.Store // below snapshots; nil without a disk
	guarded   *guardedLog     // below queue; nil without a disk
	close     func() error
}

// openStores opens the log, guarded by a watchdog, and the snapshots.
func openStores(cfg *Config, dog *watchdog, o snapshot.Options) (*stores, error) {
	if cfg.testEnv != nil {
		return cfg.testEnv.stores(cfg, dog), nil
	}
	if cfg.Memory {
		mem := raft.NewInmemStore()
		bounded := newBoundedLog(mem, cfg.remembered())
		return &stores{log: bounded, bounded: bounded, stable: mem, snapshots: raft.NewInmemSnapshotStore(), close: func() error { return nil }}, nil
	}
	db, err := openLog(cfg)
	if err != nil {
		return nil, err
	}
	s := guard(cfg, db, dog)
	s.kept, err = snapshot.New(o)
	if err == nil {
		err = prepare(s.kept, s.log)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshots under %s: %w", cfg.DataDir, err), db.Close())
	}
	s.snapshots = watchedSnapshots{s.kept, dog}
	return s, nil
}

// guard adds the watchdog, the cache and the queue to a log.
func guard(cfg *Config, db diskLog, dog *watchdog) *stores {
	guarded := &guardedLog{LogStore: db, StableStore: db, dog: dog}
	cached := newBoundedLog(guarded, cfg.remembered())
	q := queue.New(cached, guarded, dog.closing)
	s := &stores{log: q, bounded: cached, queue: q, stable: q, guarded: guarded, close: func() error {
		_ = q.Flush() // its error was fatal
		return db.Close()
	}}
	guarded.snapshot = s.snapshotIndex
	return s
}

// serve sets the raft node whose entries may be queued.
func (s *stores) serve(r *raft.Raft) {
	if s.queue != nil {
		s.queue.Serve(r)
	}
	if s.guarded != nil {
		s.guarded.raft.Store(r)
	}
}

// durable implements transport.Durable.
func (s *stores) durable(index uint64, stop <-chan struct{}) error {
	if s.queue == nil {
		return nil
	}
	return s.queue.Await(index, stop)
}

// remembered returns the number of the newest entries whose sizes are recorded. The sizes
// decide when the log is truncated.
func (c *Config) remembered() uint64 { return min(c.SnapshotThreshold+c.TrailingLogs, rememberedMax) }

// rememberedMax bounds the memory for the sizes: each takes 16 bytes.
const rememberedMax = 1 << 18

// prepareTimeout bounds how long a node with a damaged snapshot looks for another one in
// the bucket.
const prepareTimeout = 5 * time.Minute

// prepare ensures that raft can start from the log and the snapshots on the disk.
func prepare(s *snapshot.Store, logs raft.LogStore) error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	return s.Prepare(ctx, logs)
}

func openLog(cfg *Config) (*raftlog.Log, error) {
	log := cfg.Logger.Named("raft-log")
	return raftlog.Open(cfg.DataDir, func(err error) { log.Warn(err.Error()) })
}

// guardedLog reports to the watchdog the reads and the writes that hang, and the writes that fail.
// Raft itself would continue after them, but a node that cannot use its log must stop, so that
// another node leads. Every access to the disk of the log goes through guardedLog, so a goroutine
// that waits for another one's access (package queue, a lock of the log) is covered, too.
type guardedLog struct {
	raft.LogStore
	raft.StableStore
	dog     *watchdog
	witness *witness                  // of the stored entries; nil: none
	raft    atomic.Pointer[raft.Raft] // nil until raft runs
	// snapshot returns the index of the newest snapshot on the disk.
	snapshot func() uint64
}

// IsMonotonic implements raft.MonotonicLogStore: raft must know if it has to clear a log
// that allows no gaps.
func (g *guardedLog) IsMonotonic() bool {
	m, ok := g.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore. A damaged entry is fatal: it must not be applied or
// sent to other nodes, and reading it again does not help.
func (g *guardedLog) GetLog(index uint64, l *raft.Log) error {
	err := g.dog.watch("read the raft log", 0, func() error { return g.LogStore.GetLog(index, l) })
	if errors.Is(err, raftlog.ErrDamaged) {
		g.dog.fatal(err)
	}
	return err
}

// StoreLog implements raft.LogStore.
func (g *guardedLog) StoreLog(l *raft.Log) error {
	return g.StoreLogs([]*raft.Log{l})
}

// StoreLogs implements raft.LogStore.
func (g *guardedLog) StoreLogs(logs []*raft.Log) error {
	size := 0
	for _, l := range logs {
		size += transport.EntryBytes(l)
	}
	err := g.dog.write("append to the raft log", size, func() error { return g.LogStore.StoreLogs(logs) })
	if err == nil && g.witness != nil && len(logs) > 0 {
		g.witness.stored(logs[len(logs)-1].Index)
	}
	return err
}

// DeleteRange implements raft.LogStore. Raft removes the start of the log, which may fail until there
// is room again, and the end of it, which others have replaced: a node that cannot write is stopped
// then, too.
func (g *guardedLog) DeleteRange(from, to uint64) error {
	last, err := g.LogStore.LastIndex()
	if err != nil {
		return err
	}
	if to < last {
		return g.dog.watch("remove the start of the raft log", 0, func() error { return g.LogStore.DeleteRange(from, to) })
	}
	return g.dog.write("shorten the raft log", 0, func() error {
		if err := g.mayLose(from); err != nil {
			return err
		}
		if g.witness != nil {
			if err := g.witness.lower(from); err != nil {
				return err
			}
		}
		return g.LogStore.DeleteRange(from, to)
	})
}

// mayLose returns an error if the log must not lose its end from an index on: this node has
// confirmed committed entries there, and the disk has no snapshot that contains them.
func (g *guardedLog) mayLose(from uint64) error {
	r := g.raft.Load()
	if r == nil {
		return nil
	}
	committed := r.CommitIndex()
	if newest := g.snapshot(); from <= committed && newest < committed {
		return fmt.Errorf("entry %d is committed, and the newest snapshot on the disk is that of entry %d: this node keeps entry %d "+
			"and what follows", committed, newest, from)
	}
	return nil
}

// Set implements raft.StableStore.
func (g *guardedLog) Set(key, val []byte) error {
	return g.dog.write("write raft's vote", 0, func() error { return g.StableStore.Set(key, val) })
}

// Get implements raft.StableStore.
func (g *guardedLog) Get(key []byte) (val []byte, err error) {
	err = g.dog.watch("read raft's vote", 0, func() (err error) { val, err = g.StableStore.Get(key); return err })
	return val, err
}

// GetUint64 implements raft.StableStore.
func (g *guardedLog) GetUint64(key []byte) (val uint64, err error) {
	err = g.dog.watch("read raft's term", 0, func() (err error) { val, err = g.StableStore.GetUint64(key); return err })
	return val, err
}

// SetUint64 implements raft.StableStore. Raft panics if it cannot store its term, before the
// node can say why it ends. So a failed write returns only when the node is being closed, and
// then without an error. The node sends nothing by then (Node.die), and grants no vote in a term
// that is not stored, because votes are stored too.
func (g *guardedLog) SetUint64(key []byte, val uint64) error {
	err := g.dog.write("write raft's term", 0, func() error { return g.StableStore.SetUint64(key, val) })
	if err != nil {
		<-g.dog.closing
		return nil //nolint:nilerr // see above
	}
	if g.witness != nil {
		g.witness.voted(string(key), val)
	}
	return nil
}

// watchdog calls fatal when an access to the disk hangs, or when a write fails. It counts its own
// rounds instead of reading a clock, so that a process that was stopped for a while (SIGSTOP, a
// suspended machine) does not take that for a slow disk.
type watchdog struct {
	limit   time.Duration // for writes of up to transport.AppendMaxBytes; in proportion for larger ones
	fatal   func(error)
	before  func()          // called at the start of each write, unless nil
	closing <-chan struct{} // closed when the node is being closed

	mu      sync.Mutex
	running map[*access]struct{}
}

// access is one access to the disk. The goroutines of raft's replication read at the same time.
type access struct {
	what   string
	rounds int // that the watchdog still waits for it
}

// fatalRounds is the number of rounds in a row, after the first one, in which the watchdog must see
// the same access under way before it is fatal.
const fatalRounds = 10

// write runs one write of some bytes. It is fatal if the write fails.
func (d *watchdog) write(what string, bytes int, fn func() error) error {
	err := d.watch(what, bytes, func() error {
		if d.before != nil {
			d.before()
		}
		return fn()
	})
	if err != nil {
		d.fatal(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// watch runs one access to the disk.
func (d *watchdog) watch(what string, bytes int, fn func() error) error {
	a := &access{what: what, rounds: 1 + fatalRounds*(1+bytes/transport.AppendMaxBytes)}
	d.mu.Lock()
	if d.running == nil {
		d.running = make(map[*access]struct{})
	}
	d.running[a] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.running, a)
	}()
	return fn()
}

// run checks the accesses until stop is closed, or until one of them hangs.
func (d *watchdog) run(stop <-chan struct{}) {
	tick := time.NewTicker(max(d.limit/fatalRounds, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if access := d.hanging(); access != "" {
			d.fatal(fmt.Errorf("the disk of the raft log has not answered for %v: %s", d.limit, access))
			return
		}
	}
}

// hanging counts one round, and returns what an access wants to do that has taken too long, or "".
func (d *watchdog) hanging() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range d.running {
		if a.rounds--; a.rounds <= 0 {
			return a.what
		}
	}
	return ""
}
