package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
)

// simDisk is the part of a node that survives a crash: its identity, raft's log, votes and
// witness, and its snapshots. A write takes some time; it is durable when it has returned,
// and has no effect before. A disk can be full, and it can hang.
type simDisk struct {
	id raft.ServerID

	mu        sync.Mutex
	r         *rand.Rand
	logs      map[uint64]*raft.Log
	low, high uint64
	kv        map[string][]byte
	numbers   map[string]uint64
	witness   raftlog.Witnessed

	unwitnessed bool // it loses the witness at once

	snapshots []*simSnapshot // complete ones, newest last
	made      int            // number of snapshots so far
	full      bool
	refused   int           // writes refused since the disk is full, after which a node must stop
	postponed int           // snapshots and removals of old entries that it refused, which raft tries again
	hangs     chan struct{} // closed by goOn; nil: the disk does not hang
	hung      int           // writes and reads that hang
}

var (
	_ raftlog.Store        = (*simDisk)(nil)
	_ raft.SnapshotStore   = (*simDisk)(nil)
	_ raftlog.WitnessStore = (*simDisk)(nil)

	errSimFull     = errors.New("no space left on device")
	errSimNotThere = errors.New("not found") // raft compares this text
)

func newSimDisk(name string, r *rand.Rand) *simDisk {
	id := raft.ServerID(fmt.Sprintf("%s~%016x", name, r.Uint64()))
	return &simDisk{
		id: id, witness: raftlog.Witnessed{Server: id}, r: rand.New(rand.NewPCG(r.Uint64(), 0)),
		logs: make(map[uint64]*raft.Log), kv: make(map[string][]byte), numbers: make(map[string]uint64),
	}
}

// image returns a copy of the disk as it is now, for the next process of the node. Writes
// to the old disk have no effect any more, as after a crash. forgets is the number of the
// newest entries that the copy lacks, for a disk that confirms writes before they are
// durable.
func (d *simDisk) image(forgets uint64) *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &simDisk{
		id: d.id, witness: d.witness, unwitnessed: d.unwitnessed, r: rand.New(rand.NewPCG(d.r.Uint64(), 0)), logs: maps.Clone(d.logs), low: d.low, high: d.high,
		kv: maps.Clone(d.kv), numbers: maps.Clone(d.numbers), snapshots: slices.Clone(d.snapshots), made: d.made,
	}
	if forgets > 0 { // the witness as well
		next.witness.Index = min(next.witness.Index, next.high-min(next.high, forgets))
	}
	for ; forgets > 0 && next.high > next.low; forgets-- {
		delete(next.logs, next.high)
		next.high--
	}
	return next
}

// withoutLog returns a copy of the disk whose log and votes are those of older; nil: they
// are lost. The identity and the witness are kept.
func (d *simDisk) withoutLog(older *simDisk) *simDisk {
	next := d.image(0)
	if older == nil {
		next.logs, next.low, next.high = make(map[uint64]*raft.Log), 0, 0
		next.kv, next.numbers = make(map[string][]byte), make(map[string]uint64)
		return next
	}
	was := older.image(0)
	next.logs, next.low, next.high, next.kv, next.numbers, next.snapshots = was.logs, was.low, was.high, was.kv, was.numbers, was.snapshots
	return next
}

// Load implements raftlog.WitnessStore.
func (d *simDisk) Load() (*raftlog.Witnessed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unwitnessed {
		return &raftlog.Witnessed{Server: d.id}, nil
	}
	w := d.witness
	return &w, nil
}

// Save implements raftlog.WitnessStore. It waits while the disk hangs, but does not count as a write: a
// node continues without its witness. For the same reason a full disk accepts it.
func (d *simDisk) Save(w raftlog.Witnessed) error {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.witness = w
	return nil
}

func (d *simDisk) setFull(full bool) (refused, postponed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
	refused, postponed = d.refused, d.postponed
	d.refused, d.postponed = 0, 0
	return refused, postponed
}

// hang delays all writes, and all reads of entries, until goOn.
func (d *simDisk) hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs, d.hung = make(chan struct{}), 0
}

// goOn ends hang, and returns how many of them hung.
func (d *simDisk) goOn() (hung int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hangs != nil {
		close(d.hangs)
		d.hangs = nil
	}
	return d.hung
}

// await waits while the disk hangs.
func (d *simDisk) await() {
	d.mu.Lock()
	hangs := d.hangs
	if hangs != nil {
		d.hung++
	}
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
}

// write performs a write that is synced.
func (d *simDisk) write(fn func()) error {
	d.await()
	d.mu.Lock()
	full, took := d.full, time.Duration(d.r.Int64N(int64(2*time.Millisecond)))
	if full {
		d.refused++
	}
	d.mu.Unlock()
	if full {
		return errSimFull
	}
	time.Sleep(took)
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	return nil
}

// has reports whether an entry is durable: in the log, or in a snapshot.
func (d *simDisk) has(index, term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[index]; l != nil {
		return l.Term == term
	}
	n := len(d.snapshots)
	return n > 0 && d.snapshots[n-1].meta.Index >= index
}

// newest returns the index and the term of the newest durable entry of the log.
func (d *simDisk) newest() (index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[d.high]; l != nil {
		term = l.Term
	}
	return d.high, term
}

// IsMonotonic implements raft.MonotonicLogStore, as the log of a node does: raft clears the log
// when it installs a snapshot.
func (d *simDisk) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (d *simDisk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.low, nil
}

// LastIndex implements raft.LogStore.
func (d *simDisk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.high, nil
}

// GetLog implements raft.LogStore.
func (d *simDisk) GetLog(index uint64, l *raft.Log) error {
	d.await()
	d.mu.Lock()
	defer d.mu.Unlock()
	got, ok := d.logs[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*l = *got
	return nil
}

// StoreLog implements raft.LogStore.
func (d *simDisk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (d *simDisk) StoreLogs(logs []*raft.Log) error {
	own := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l
		own[i] = &c
	}
	return d.write(func() {
		for _, l := range own {
			d.logs[l.Index] = l
			if d.low == 0 {
				d.low = l.Index
			}
			d.high = max(d.high, l.Index)
		}
	})
}

// DeleteRange implements raft.LogStore.
func (d *simDisk) DeleteRange(from, to uint64) error {
	d.mu.Lock()
	if d.full && to < d.high {
		d.postponed++
		d.mu.Unlock()
		return errSimFull
	}
	d.mu.Unlock()
	return d.write(func() {
		if len(d.logs) == 0 {
			return
		}
		for i := from; i <= to; i++ {
			delete(d.logs, i)
		}
		if from <= d.low {
			d.low = to + 1
		}
		if to >= d.high {
			d.high = from - 1
		}
		if d.low > d.high {
			d.low, d.high = 0, 0
		}
	})
}

// Set implements raft.StableStore.
func (d *simDisk) Set(key, val []byte) error {
	val = bytes.Clone(val)
	return d.write(func() { d.kv[string(key)] = val })
}

// Get implements raft.StableStore.
func (d *simDisk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := d.kv[string(key)]; ok {
		return bytes.Clone(v), nil
	}
	return nil, errSimNotThere
}

// SetUint64 implements raft.StableStore. A full disk accepts it, too: if it fails, raft
// rightly ends the whole process, which would end the test.
func (d *simDisk) SetUint64(key []byte, val uint64) error {
	d.await()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.numbers[string(key)] = val
	return nil
}

// GetUint64 implements raft.StableStore.
func (d *simDisk) GetUint64(key []byte) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.numbers[string(key)], nil
}

// Close implements io.Closer.
func (d *simDisk) Close() error { return nil }

// Sizes implements raftlog.Store.
func (d *simDisk) Sizes(yield func(index uint64, bytes int) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := d.high; d.logs[i] != nil && yield(i, transport.EntryBytes(d.logs[i])); i-- {
	}
}

// simSnapshot is a complete snapshot.
type simSnapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

const simSnapshotsKept = 2

// Create implements raft.SnapshotStore.
func (d *simDisk) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		d.postponed++
		return nil, errSimFull
	}
	d.made++
	return &simSink{disk: d, snapshot: simSnapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d-%d", term, index, d.made), Index: index, Term: term,
		Configuration: c.Clone(), ConfigurationIndex: cIndex,
	}}}, nil
}

// List implements raft.SnapshotStore.
func (d *simDisk) List() ([]*raft.SnapshotMeta, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var metas []*raft.SnapshotMeta
	for _, s := range slices.Backward(d.snapshots) {
		m := s.meta
		metas = append(metas, &m)
	}
	return metas, nil
}

// Open implements raft.SnapshotStore.
func (d *simDisk) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.snapshots {
		if s.meta.ID == id {
			m := s.meta
			return &m, io.NopCloser(bytes.NewReader(s.data)), nil
		}
	}
	return nil, nil, errSimNotThere
}

// simSink is a snapshot that is being written. Close adds it to the disk.
type simSink struct {
	disk     *simDisk
	snapshot simSnapshot
}

// Write implements io.Writer.
func (s *simSink) Write(p []byte) (int, error) {
	s.snapshot.data = append(s.snapshot.data, p...)
	return len(p), nil
}

// ID implements raft.SnapshotSink.
func (s *simSink) ID() string { return s.snapshot.meta.ID }

// Cancel implements raft.SnapshotSink.
func (s *simSink) Cancel() error { return nil }

// Close implements io.Closer.
func (s *simSink) Close() error {
	s.snapshot.meta.Size = int64(len(s.snapshot.data))
	return s.disk.write(func() {
		all := append(s.disk.snapshots, &s.snapshot)
		slices.SortStableFunc(all, func(a, b *simSnapshot) int {
			if a.meta.Term != b.meta.Term {
				return int(a.meta.Term) - int(b.meta.Term)
			}
			return int(a.meta.Index) - int(b.meta.Index)
		})
		s.disk.snapshots = slices.Clone(all[max(0, len(all)-simSnapshotsKept):])
	})
}
