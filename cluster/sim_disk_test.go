package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
)

// simDisk is the part of a node that survives a crash: its identity, the files of raft's log, its votes and
// witness, and its snapshots. A sync takes some time; what was written is durable when it has returned, and
// lost before. A disk can be full, and it can hang.
type simDisk struct {
	id raft.ServerID

	raftlog.Disk // the files that are durable, and the votes

	mu    sync.Mutex
	r     *rand.Rand
	log   *raftlog.Log // of the node's process
	quick bool         // a sync takes no time

	unwitnessed bool // it loses the witness at once

	snapshots []*simSnapshot // complete ones, newest last
	made      int            // number of snapshots so far
	full      bool
	refused   int           // writes refused since the disk is full, after which a node must stop
	postponed int           // snapshots and segments that it refused, which the node tries again
	hangs     chan struct{} // closed by goOn; nil: the disk does not hang
	hung      int           // writes and reads that hang
}

var (
	_ raftlog.Disk       = (*simDisk)(nil)
	_ raft.SnapshotStore = simSnapshots{}

	errSimFull     = errors.New("no space left on device")
	errSimNotThere = errors.New("not found")
)

func newSimDisk(name string, r *rand.Rand) *simDisk {
	id := raft.ServerID(fmt.Sprintf("%s~%016x", name, r.Uint64()))
	d := &simDisk{id: id, r: rand.New(rand.NewPCG(r.Uint64(), 0)), Disk: raftlog.Memory()}
	_ = d.Disk.SaveWitness(raftlog.Witnessed{Server: id}) // never fails
	return d
}

// image returns a copy of the disk as it is now, for the next process of the node. Writes
// to the old disk have no effect any more, as after a crash. forgets is the number of the
// newest entries that the copy lacks, for a disk that confirms writes before they are
// durable.
func (d *simDisk) image(forgets uint64) *simDisk {
	d.mu.Lock()
	next := &simDisk{
		id: d.id, unwitnessed: d.unwitnessed, r: rand.New(rand.NewPCG(d.r.Uint64(), 0)),
		Disk: raftlog.Copy(d.Disk), snapshots: slices.Clone(d.snapshots), made: d.made,
	}
	d.mu.Unlock()
	if forgets > 0 { // the witness as well
		next.read(func(l *raftlog.Log) error {
			first, _ := l.FirstIndex()
			last, _ := l.LastIndex()
			w, _ := next.LoadWitness()
			w.Index = min(w.Index, last-min(last, forgets))
			return errors.Join(next.SaveWitness(w), l.DeleteRange(max(first, last-min(last, forgets))+1, last))
		})
	}
	return next
}

// read opens the log of a disk without a process.
func (d *simDisk) read(fn func(*raftlog.Log) error) {
	d.quick = true
	l, err := raftlog.Open(d, raftlog.Options{Size: memorySegment})
	if err == nil {
		err = errors.Join(fn(l), l.Close())
	}
	if err != nil {
		panic(err)
	}
	d.quick = false
}

// end returns the index of the newest entry of the log after a crash.
func (d *simDisk) end() (last uint64) {
	d.image(0).read(func(l *raftlog.Log) (err error) {
		last, err = l.LastIndex()
		return err
	})
	return last
}

// withoutLog returns a copy of the disk whose log and votes are those of older; nil: they
// are lost. The identity and the witness are kept.
func (d *simDisk) withoutLog(older *simDisk) *simDisk {
	next := d.image(0)
	w, _ := next.Disk.LoadWitness() // never fails
	if next.Disk = raftlog.Memory(); older != nil {
		was := older.image(0)
		next.Disk, next.snapshots = was.Disk, was.snapshots
	}
	_ = next.Disk.SaveWitness(w)
	return next
}

// LoadWitness implements raftlog.Disk.
func (d *simDisk) LoadWitness() (raftlog.Witnessed, error) {
	if d.unwitnessed {
		return raftlog.Witnessed{Server: d.id}, nil
	}
	return d.Disk.LoadWitness()
}

// SaveWitness implements raftlog.Disk. It waits while the disk hangs, but does not count as a write: a
// node continues without its witness. For the same reason a full disk accepts it.
func (d *simDisk) SaveWitness(w raftlog.Witnessed) error {
	d.stall(0)
	return d.Disk.SaveWitness(w)
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

// await waits while the disk hangs, and counts that.
func (d *simDisk) await() { d.stall(1) }

func (d *simDisk) stall(counts int) {
	d.mu.Lock()
	hangs := d.hangs
	if hangs != nil {
		d.hung += counts
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
	full := d.full
	if full {
		d.refused++
	}
	d.mu.Unlock()
	if full {
		return errSimFull
	}
	d.sync(fn)
	return nil
}

// sync calls fn after as much time as a sync takes.
func (d *simDisk) sync(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if took := time.Duration(d.r.Int64N(int64(2 * time.Millisecond))); !d.quick {
		d.mu.Unlock()
		time.Sleep(took)
		d.mu.Lock()
	}
	fn()
}

// has reports whether an entry is durable: in the log, or in a snapshot.
func (d *simDisk) has(index, term uint64) bool {
	var e raft.Log
	log := d.ofProcess()
	file, at, n, err := log.Place(index)
	if err == nil && d.synced(file, at, at+n) && log.GetLog(index, &e) == nil {
		return e.Term == term
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := len(d.snapshots)
	return k > 0 && d.snapshots[k-1].meta.Index >= index
}

func (d *simDisk) ofProcess() *raftlog.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log
}

// synced reports whether a file has content in a range.
func (d *simDisk) synced(file string, from, to int64) bool {
	content := make([]byte, to-from)
	f, err := d.Disk.Open(file)
	if err == nil {
		_, err = f.ReadAt(content, from)
	}
	return err == nil && len(bytes.Trim(content, "\x00")) > 0
}

// newest returns the index and the term of the newest durable entry of the log.
func (d *simDisk) newest() (index, term uint64) {
	log := d.ofProcess()
	for i := range log.Sizes {
		index = i
		break
	}
	var e raft.Log
	if index > 0 && log.GetLog(index, &e) == nil {
		term = e.Term
	}
	return index, term
}

// bytes returns the size of all durable entries.
func (d *simDisk) bytes() (sum int) {
	for _, n := range d.ofProcess().Sizes {
		sum += n
	}
	return sum
}

// Create implements raftlog.Disk.
func (d *simDisk) Create(name string) (raftlog.File, error) {
	d.mu.Lock()
	full := d.full
	if full {
		d.postponed++
	}
	d.mu.Unlock()
	if full {
		return nil, errSimFull
	}
	f, err := d.Disk.Create(name)
	return &simFile{File: f, disk: d}, err
}

// Open implements raftlog.Disk.
func (d *simDisk) Open(name string) (raftlog.File, error) {
	f, err := d.Disk.Open(name)
	return &simFile{File: f, disk: d}, err
}

// Set implements raftlog.Disk. A full disk accepts a term, too: if it fails, the node has to end.
func (d *simDisk) Set(key, val []byte) (err error) {
	if !bytes.HasSuffix(key, []byte("LastVoteCand")) {
		d.await()
		return d.Disk.Set(key, val)
	}
	return cmp.Or(d.write(func() { err = d.Disk.Set(key, val) }), err)
}

// simFile is a file. What is written has an effect when it is synced.
type simFile struct {
	raftlog.File
	disk *simDisk

	mu      sync.Mutex
	pending []simWrite
}

type simWrite struct {
	at      int64
	content []byte
}

// ReadAt implements raftlog.File.
func (f *simFile) ReadAt(p []byte, at int64) (int, error) {
	f.disk.await()
	return f.File.ReadAt(p, at)
}

// WriteAt implements raftlog.File.
func (f *simFile) WriteAt(p []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, simWrite{at, bytes.Clone(p)})
	return len(p), nil
}

// Sync implements raftlog.File. A full disk refuses what is appended, and takes what replaces a sector.
func (f *simFile) Sync() error {
	f.mu.Lock()
	pending := f.pending
	f.pending = nil
	f.mu.Unlock()
	apply := func() {
		for _, w := range pending {
			_, _ = f.File.WriteAt(w.content, w.at) // never fails
		}
	}
	for _, w := range pending {
		if bytes.HasPrefix(w.content, []byte("osql")) { // entries, or the removal of some
			return f.disk.write(apply)
		}
	}
	f.disk.stall(0)
	f.disk.sync(apply)
	return nil
}

// simSnapshot is a complete snapshot.
type simSnapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

const simSnapshotsKept = 2

// simSnapshots are the snapshots of a disk.
type simSnapshots struct{ *simDisk }

// Create implements raft.SnapshotStore.
func (d simSnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		d.postponed++
		return nil, errSimFull
	}
	d.made++
	return &simSink{disk: d.simDisk, snapshot: simSnapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d-%d", term, index, d.made), Index: index, Term: term,
		Configuration: c.Clone(), ConfigurationIndex: cIndex,
	}}}, nil
}

// List implements raft.SnapshotStore.
func (d simSnapshots) List() ([]*raft.SnapshotMeta, error) {
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
func (d simSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
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
