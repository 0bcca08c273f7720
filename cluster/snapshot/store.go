package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

func unwatched(_ string, _ int, fn func() error) error { return fn() }

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

// Store is a raft.SnapshotStore on the node's disk. It is safe for concurrent use, except for
// its sinks.
type Store struct {
	local   *local
	damaged func(error)

	mu     sync.Mutex
	status Status
	told   map[string]bool // ids that were reported as damaged
}

var _ raft.SnapshotStore = (*Store)(nil)

// New opens the snapshots of a data directory.
func New(o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	l, err := openLocal(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	if o.Watch != nil {
		l.watch = o.Watch
	}
	s := &Store{local: l, damaged: o.Damaged, told: make(map[string]bool)}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// refresh records the newest snapshot in the status.
func (s *Store) refresh() error {
	newest, err := s.local.newest()
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
	return s.local.create(m, trans, func(raft.SnapshotMeta) {
		if err := s.refresh(); err != nil {
			s.local.log.Warn("cannot find the newest snapshot", "error", err)
		}
	})
}

// List implements raft.SnapshotStore. It returns the snapshots with valid descriptions, newest
// first.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.local.list()
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
	m, rc, err := s.local.open(id)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || s.local.exists(id) {
			s.report(id, err)
		}
		return nil, nil, fmt.Errorf("open the snapshot %s: %w", id, err)
	}
	return m, rc, nil
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
	s.local.log.Error("a snapshot is damaged", "error", err)
	if s.damaged != nil {
		s.damaged(err)
	}
}
