package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Limits for reads of a lost snapshot from the bucket, for which raft waits: findLimit is
// the time to find the snapshot, and readLimit is the time of each read.
const (
	findLimit = 30 * time.Second
	readLimit = 2 * time.Minute
)

// Store is a raft.SnapshotStore on the node's disk, with a copy in the bucket. It is safe
// for concurrent use, except for its sinks. Run uploads; without Run the Store works on the
// disk alone.
type Store struct {
	opts  Options
	local *local
	due   chan struct{} // made sends, Run receives: there is a new local snapshot

	mu     sync.Mutex
	status Status
	told   map[string]bool // ids that were reported as damaged
}

var _ raft.SnapshotStore = (*Store)(nil)

// New opens the snapshots of a data directory. It does not access the bucket.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	l, err := openLocal(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	l.watch = o.Watch
	s := &Store{opts: o, local: l, due: make(chan struct{}, 1), told: make(map[string]bool)}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// refresh records the newest local snapshot in the status.
func (s *Store) refresh() error {
	newest, err := s.local.newest()
	if err != nil || newest == nil {
		return err
	}
	s.report(func(st *Status) {
		st.Local = newPoint(newest.point, newest.at)
		st.Damaged = ""
	})
	return nil
}

// Create implements raft.SnapshotStore. The snapshot is written to the disk only, and is
// durable there when Close of the sink returns nil. Raft calls Create on its main goroutine
// when the leader sends a snapshot.
func (s *Store) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	m := raft.SnapshotMeta{Version: version, Index: index, Term: term, Configuration: c, ConfigurationIndex: cIndex}
	return s.local.create(m, trans, s.made)
}

// made records that there is a new snapshot on the disk, and wakes Run.
func (s *Store) made(raft.SnapshotMeta) {
	if err := s.refresh(); err != nil {
		s.opts.Logger.Warn("cannot find the newest snapshot", "error", err)
	}
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// List implements raft.SnapshotStore. It returns the snapshots on the disk with valid
// descriptions, newest first.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.local.list()
	if err != nil {
		return nil, err
	}
	var metas []*raft.SnapshotMeta
	for _, c := range all {
		if c.err != nil {
			s.damaged(c.id, c.err)
			continue
		}
		metas = append(metas, c.meta)
	}
	return metas, nil
}

// Open implements raft.SnapshotStore. If the snapshot on the disk cannot be read, Open
// reads a snapshot of the same log entry from the bucket. The reader returns the last bytes
// only if the checksum of all bytes matches; otherwise its error wraps ErrDamaged.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, rc, err := s.local.open(id)
	if err == nil {
		return m, rc, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || s.local.exists(id) {
		s.damaged(id, err)
	}
	m, rc, bucketErr := s.openUploaded(id)
	if bucketErr != nil {
		return nil, nil, fmt.Errorf("open the snapshot %s: %w; and in the bucket: %w", id, err, bucketErr)
	}
	s.opts.Logger.Warn("reading a snapshot from the bucket", "id", id, "reason", err)
	return m, rc, nil
}

// damaged records the damage of a local snapshot. It logs and reports each snapshot once.
func (s *Store) damaged(id string, err error) {
	err = fmt.Errorf("the local snapshot %s: %w", id, err)
	s.mu.Lock()
	known := s.told[id]
	s.told[id] = true
	s.status.Damaged = err.Error()
	s.mu.Unlock()
	if !known {
		s.opts.Logger.Error("a snapshot is damaged", "error", err)
		s.opts.Damaged(err)
	}
}

var (
	errNoBucket  = errors.New("there is no bucket for snapshots")
	errUnknownID = errors.New("the snapshots of this cluster cannot be found, because its id is in the snapshot that cannot be read")
)

// searchable returns an error if the bucket cannot be searched for snapshots of this cluster.
func (s *Store) searchable() error {
	switch {
	case s.opts.Bucket == nil:
		return errNoBucket
	case s.opts.Cluster() == "":
		return errUnknownID
	}
	return nil
}

// openUploaded opens an upload that can replace a local snapshot.
func (s *Store) openUploaded(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if err := s.searchable(); err != nil {
		return nil, nil, err
	}
	lost, ok := s.local.look(id)
	if !ok {
		return nil, nil, fs.ErrNotExist
	}
	ctx, cancel := context.WithCancel(context.Background())
	limit := time.AfterFunc(findLimit, cancel)
	defer limit.Stop()
	r, rc, err := s.findDuplicate(ctx, lost)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return r.meta(id), guardReader(rc, readLimit, cancel), nil
}

// findDuplicate opens an upload of the same log entry as a local snapshot.
func (s *Store) findDuplicate(ctx context.Context, lost copyOnDisk) (*record, io.ReadCloser, error) {
	all, err := listUploads(ctx, s.opts.Bucket, s.opts.Cluster())
	if err != nil {
		return nil, nil, err
	}
	errs := []error{errNone}
	for _, f := range completed(all) {
		if f.point != lost.point {
			continue
		}
		r, rc, err := openUpload(ctx, s.opts.Bucket, f.upload)
		if err == nil && lost.record != nil && !r.equivalent(lost.record) {
			err = errors.Join(errOtherConfiguration, rc.Close())
		}
		if err == nil {
			return r, rc, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", f.prefix(), err))
	}
	return nil, nil, errors.Join(errs...)
}
