package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/storage"
)

// Errors of Fetch that callers tell apart.
var (
	// ErrNone means that the bucket has no complete snapshot of the cluster.
	ErrNone = errNone
	// ErrNotEmpty means that the data directory has snapshots already.
	ErrNotEmpty = errors.New("the data directory has snapshots already")
)

var (
	errNone               = errors.New("the bucket has no complete snapshot of the cluster that fits")
	errOtherConfiguration = errors.New("it was made with another configuration of the cluster")
)

// FetchOptions are optional; the zero value is valid.
type FetchOptions struct {
	// Accept is asked before a snapshot is downloaded; an error leaves it out.
	// It should ask the cluster's leader (see Agrees): the bucket can hold
	// snapshots of entries that the cluster has lost, if it was recovered from
	// a minority, and raft would not notice that this node has them.
	Accept func(context.Context, raft.SnapshotMeta) error
	Logger hclog.Logger // nil logs nothing
}

// Fetch downloads the newest complete snapshot of a cluster, of whichever node,
// to a data directory without snapshots, so that raft starts from it and the
// leader has to send the log behind it only. It is for a new node that joins a
// living cluster, before its raft starts and with an empty raft log. A snapshot
// that turns out to be damaged is logged, and the next older one is tried.
//
// If Fetch fails there is no snapshot in the directory, whatever the moment at
// which the process or the machine died. Without one the node still can join:
// the leader sends its own. ctx bounds all of it; a bucket that does not answer
// is otherwise waited for.
func Fetch(ctx context.Context, b storage.Bucket, dataDir, cluster string, o FetchOptions) (raft.SnapshotMeta, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Accept == nil {
		o.Accept = func(context.Context, raft.SnapshotMeta) error { return nil }
	}
	l, err := openLocal(dataDir, o.Logger)
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	present, err := l.list()
	if err == nil && len(present) > 0 {
		err = fmt.Errorf("%w: %s", ErrNotEmpty, dataDir)
	}
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	all, err := listUploads(ctx, b, cluster)
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	errs := []error{ErrNone}
	for _, f := range completed(all) {
		m, err := download(ctx, b, f.upload, l, func(r *record) error { return o.Accept(ctx, *r.meta("")) })
		if err == nil {
			o.Logger.Info("fetched a snapshot from the bucket", "from", f.prefix(), "bytes", m.Size)
			return *m, nil
		}
		o.Logger.Warn("a snapshot in the bucket is of no use", "key", f.prefix(), "error", err)
		errs = append(errs, fmt.Errorf("%s: %w", f.prefix(), err))
		if ctx.Err() != nil {
			break
		}
	}
	return raft.SnapshotMeta{}, errors.Join(errs...)
}

// download copies an upload to the disk, where it then is the newest.
func download(ctx context.Context, b storage.Bucket, u upload, l *local, accept func(*record) error) (*raft.SnapshotMeta, error) {
	r, rc, err := openUpload(ctx, b, u)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if err := accept(r); err != nil {
		return nil, err
	}
	var made raft.SnapshotMeta
	to, err := l.create(*r.meta(""), addresses{}, func(m raft.SnapshotMeta) { made = m })
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(to, rc); err != nil {
		return nil, errors.Join(err, to.Cancel())
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	return &made, nil
}

// addresses encodes peers as raft's transports do, which raft's store of
// snapshots wants of the one that it is given.
type addresses struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (addresses) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// Agrees reports whether a snapshot at (term, index) is of the history that this
// log, of which all up to committed is committed, goes on with. The leader says
// so to FetchOptions.Accept. What it has compacted away it cannot vouch for, and
// it would send a snapshot of its own then, anyway.
func Agrees(logs raft.LogStore, committed, term, index uint64) bool {
	return index <= committed && holds(logs, point{term, index})
}
