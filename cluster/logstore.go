package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/snapshot"
)

// stores are what raft keeps on disk.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	kept      *snapshot.Store // the same; nil if nothing is kept on disk
	close     func() error
}

const logCacheEntries = 1024

// openStores opens the log, guarded by a watchdog, and the snapshots.
func openStores(cfg *Config, dog *watchdog, o snapshot.Options) (*stores, error) {
	if cfg.ground != nil {
		return cfg.ground.stores(dog)
	}
	if cfg.RaftLog == RaftLogMemory {
		mem := raft.NewInmemStore()
		return &stores{log: mem, stable: mem, snapshots: raft.NewInmemSnapshotStore(), close: func() error { return nil }}, nil
	}
	db, err := openLog(cfg)
	if err != nil {
		return nil, err
	}
	s, err := guard(db, dog)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.kept, err = snapshot.New(o)
	if err == nil {
		err = prepare(s.kept, s.log)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshots under %s: %w", cfg.DataDir, err), db.Close())
	}
	s.snapshots = s.kept
	return s, nil
}

// guard puts the cache and the watchdog before a log.
func guard(db diskLog, dog *watchdog) (*stores, error) {
	guarded := &guardedLog{LogStore: db, StableStore: db, dog: dog}
	cached, err := raft.NewLogCache(logCacheEntries, guarded)
	if err != nil {
		return nil, err
	}
	return &stores{log: cached, stable: guarded, close: db.Close}, nil
}

// prepareTimeout bounds how long a node with a damaged snapshot looks for another
// one in the bucket before it gives up.
const prepareTimeout = 5 * time.Minute

// prepare makes sure that raft can start from what is on the disk.
func prepare(s *snapshot.Store, logs raft.LogStore) error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	return s.Prepare(ctx, logs)
}

func openLog(cfg *Config) (*raftlog.Log, error) {
	if cfg.RaftLog == RaftLogWAL {
		return raftlog.OpenWAL(cfg.DataDir, cfg.Logger.Named("wal"))
	}
	return raftlog.OpenBolt(cfg.DataDir)
}

// guardedLog reports to the watchdog what raft would live with: a write that
// fails or hangs. A node that cannot write its log must stop, so that another
// leads.
type guardedLog struct {
	raft.LogStore
	raft.StableStore
	dog *watchdog
}

// IsMonotonic implements raft.MonotonicLogStore: raft must know when it has to
// clear a log that takes no gaps.
func (g *guardedLog) IsMonotonic() bool {
	m, ok := g.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore. What cannot be read as it was written must not be
// applied, nor sent to others, and does not get better by trying again.
func (g *guardedLog) GetLog(index uint64, l *raft.Log) error {
	err := g.LogStore.GetLog(index, l)
	if errors.Is(err, raftlog.ErrDamaged) {
		g.dog.bite(err)
	}
	return err
}

// StoreLog implements raft.LogStore.
func (g *guardedLog) StoreLog(l *raft.Log) error {
	return g.dog.watch("append to the raft log", func() error { return g.LogStore.StoreLog(l) })
}

// StoreLogs implements raft.LogStore.
func (g *guardedLog) StoreLogs(logs []*raft.Log) error {
	return g.dog.watch("append to the raft log", func() error { return g.LogStore.StoreLogs(logs) })
}

// Set implements raft.StableStore.
func (g *guardedLog) Set(key, val []byte) error {
	return g.dog.watch("write raft's vote", func() error { return g.StableStore.Set(key, val) })
}

// SetUint64 implements raft.StableStore.
func (g *guardedLog) SetUint64(key []byte, val uint64) error {
	return g.dog.watch("write raft's term", func() error { return g.StableStore.SetUint64(key, val) })
}

// watchdog bites when a disk write fails or hangs. It counts its own rounds
// instead of reading a clock, so that a process that was itself stopped for a
// while (SIGSTOP, a suspended machine) does not take that for a slow disk.
type watchdog struct {
	limit  time.Duration
	bite   func(error)
	writes atomic.Uint64 // odd while a write is under way
}

// roundsToBite is how often the same write must be seen under way.
const roundsToBite = 10

// watch runs one write. Raft writes from one goroutine at a time.
func (d *watchdog) watch(what string, write func() error) error {
	d.writes.Add(1)
	err := write()
	d.writes.Add(1)
	if err != nil {
		d.bite(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// run checks until stop is closed.
func (d *watchdog) run(stop <-chan struct{}) {
	tick := time.NewTicker(max(d.limit/roundsToBite, time.Millisecond))
	defer tick.Stop()
	var seen uint64
	rounds := 0
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := d.writes.Load()
		if now%2 == 0 || now != seen {
			seen, rounds = now, 0
			continue
		}
		if rounds++; rounds == roundsToBite {
			d.bite(fmt.Errorf("the disk of the raft log has not answered for %v", d.limit))
			return
		}
	}
}
