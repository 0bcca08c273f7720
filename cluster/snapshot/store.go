package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Options has the settings of a Store.
type Options struct {
	// Dir is the node's data directory. No other Store may use it, which the lock of the
	// raft log in it ensures.
	Dir string
	// Damaged is called when a snapshot turns out to be damaged while raft runs; nil: no
	// call. The node should make raft take a new snapshot. Damaged runs on raft's
	// goroutines: it must not block.
	Damaged func(error)
	// Watch runs fn, which reads up to that many bytes of the disk; if fn hangs, the node should end.
	// nil only runs fn. Several goroutines call it.
	Watch  func(what string, bytes int, fn func() error) error
	Logger hclog.Logger // nil: no log
}

// Point is the log entry that a snapshot reaches, and the time of the snapshot.
type Point struct {
	Term  uint64 // raft's term
	Index uint64 // raft's index; 0: no snapshot
	At    time.Time
}

// Status describes a node's snapshots for an operator.
type Status struct {
	Local Point // the newest one on this node's disk
	// Damaged is the error of a damaged snapshot, until a new snapshot is made.
	Damaged string
}

// Store is a raft.SnapshotStore in a node's data directory, by means of raft's own store. It is safe
// for concurrent use, except for its sinks.
type Store struct {
	base    string // the data directory
	files   *raft.FileSnapshotStore
	log     hclog.Logger
	watch   func(what string, bytes int, fn func() error) error // runs each read
	damaged func(error)

	settling sync.Mutex // held during settle

	mu     sync.Mutex
	own    map[string]bool  // ids that this process has begun to write
	sure   map[string]bool  // ids whose bytes were whole when last read to the end
	bad    map[string]error // ids whose bytes were damaged
	told   map[string]bool  // ids that were reported as damaged
	status Status
}

var _ raft.SnapshotStore = (*Store)(nil)

// New opens the snapshots of a data directory, and removes unfinished ones.
func New(o Options) (*Store, error) {
	s := &Store{
		base: o.Dir, log: o.Logger, watch: o.Watch, damaged: o.Damaged, own: make(map[string]bool), sure: make(map[string]bool),
		bad: make(map[string]error), told: make(map[string]bool),
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	if s.watch == nil {
		s.watch = func(_ string, _ int, fn func() error) error { return fn() }
	}
	if err := s.openFiles(); err != nil {
		return nil, fmt.Errorf("open the snapshots under %s: %w", o.Dir, err)
	}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) openFiles() error {
	// raft makes the directory and the files for all users to read; a data directory that an operator
	// has made may let them in.
	err := errors.Join(os.MkdirAll(s.path(), 0o700), os.Chmod(s.path(), 0o700))
	if err != nil {
		return err
	}
	if s.files, err = raft.NewFileSnapshotStoreWithLogger(s.base, everything, s.log); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.path())
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), tmpSuffix) {
			err = errors.Join(err, os.RemoveAll(s.path(e.Name())))
		}
	}
	return err
}

// refresh records the newest snapshot in the status.
func (s *Store) refresh() error {
	newest, err := s.newest()
	if err != nil || newest == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = Status{Local: Point{newest.Term, newest.Index, time.UnixMilli(newest.at)}}
	return nil
}

// Status returns the current status.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Create implements raft.SnapshotStore. The snapshot is durable when Close of the sink returns
// nil. Raft calls Create on its main goroutine when the leader sends a snapshot.
func (s *Store) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	m := raft.SnapshotMeta{Version: version, Index: index, Term: term, Configuration: c, ConfigurationIndex: cIndex}
	return s.create(m, trans)
}

// List implements raft.SnapshotStore. It returns the snapshots with valid descriptions, newest
// first.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	var metas []*raft.SnapshotMeta
	for _, c := range all {
		if c.err != nil {
			s.report(c.id, c.err)
			continue
		}
		metas = append(metas, c.meta)
	}
	return metas, nil
}

// Open implements raft.SnapshotStore. The reader returns the last bytes only if the checksum of
// all bytes matches; otherwise its error wraps ErrDamaged.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, rc, err := s.open(id)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || s.exists(id) {
			s.report(id, err)
		}
		return nil, nil, fmt.Errorf("open the snapshot %s: %w", id, err)
	}
	return m, rc, nil
}

// open opens a snapshot after a check of its bytes. The check happens once in the life of
// the store; in addition the reader checks the bytes.
func (s *Store) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	c, ok := s.look(id)
	if !ok {
		return nil, nil, fmt.Errorf("%q is not the id of a snapshot: %w", id, fs.ErrNotExist)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if err := s.ensure(&c); err != nil {
		return nil, nil, err
	}
	rc, err := s.stream(&c)
	return c.meta, rc, err
}

// report records the damage of a snapshot. It logs and reports each snapshot once.
func (s *Store) report(id string, err error) {
	err = fmt.Errorf("the local snapshot %s: %w", id, err)
	s.mu.Lock()
	known := s.told[id]
	s.told[id] = true
	s.status.Damaged = err.Error()
	s.mu.Unlock()
	if known {
		return
	}
	s.log.Error("a snapshot is damaged", "error", err)
	if s.damaged != nil {
		s.damaged(err)
	}
}

// sink writes one snapshot to the disk, together with its record. Like raft's own sink it
// is for one goroutine.
type sink struct {
	store *Store
	inner raft.SnapshotSink
	meta  raft.SnapshotMeta
	sum   hash.Hash
	size  int64

	ended bool
	err   error
}

var _ raft.SnapshotSink = (*sink)(nil)

// create starts a snapshot.
func (s *Store) create(m raft.SnapshotMeta, trans raft.Transport) (*sink, error) {
	inner, err := s.files.Create(m.Version, m.Index, m.Term, m.Configuration, m.ConfigurationIndex, trans)
	if err != nil {
		return nil, fmt.Errorf("create a snapshot in %s: %w", s.path(), err)
	}
	m.ID = inner.ID()
	s.begun(m.ID)
	return &sink{store: s, inner: inner, meta: m, sum: sha256.New()}, nil
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.inner.ID() }

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	n, err := s.inner.Write(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	return n, err
}

// Close makes the snapshot durable and the newest one of the node, and returns nil only
// after that. Raft may call it again; further calls return the same error.
func (s *sink) Close() error {
	if s.ended {
		return s.err
	}
	s.ended = true
	s.err = s.finish()
	return s.err
}

func (s *sink) finish() error {
	s.meta.Size = s.size
	r := newRecord(&s.meta, s.size, [sha256.Size]byte(s.sum.Sum(nil)))
	// The record becomes visible with the directory, when that gets its final name.
	if err := writeFileSync(s.store.path(s.ID()+tmpSuffix, recordFile), r.encode()); err != nil {
		return errors.Join(fmt.Errorf("write the checksum of a snapshot: %w", err), s.discard())
	}
	if err := s.inner.Close(); err != nil {
		return errors.Join(err, s.discard())
	}
	s.store.judge(s.ID(), nil) // before settle, which forgets a snapshot that it removes
	if err := s.store.settle(s.ID()); err != nil {
		return err
	}
	if err := s.store.refresh(); err != nil {
		s.store.log.Warn("cannot find the newest snapshot", "error", err)
	}
	return nil
}

// Cancel discards the written bytes. After Close it does nothing.
func (s *sink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended, s.err = true, errors.New("the snapshot was cancelled")
	return s.discard()
}

// discard cancels raft's sink, and also removes the directory that raft's sink leaves after
// a failure.
func (s *sink) discard() error {
	s.store.forget(s.ID())
	return errors.Join(s.inner.Cancel(), os.RemoveAll(s.store.path(s.ID()+tmpSuffix)))
}
