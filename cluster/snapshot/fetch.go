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

// Errors of Fetch that callers can distinguish.
var (
	// ErrNone means that the bucket has no complete snapshot of the cluster that fits.
	ErrNone = errNone
	// ErrNotEmpty means that the data directory already has snapshots.
	ErrNotEmpty = errors.New("the data directory has snapshots already")
)

var (
	errNone               = errors.New("the bucket has no complete snapshot of this cluster that fits")
	errOtherConfiguration = errors.New("the snapshot was made with another configuration of the cluster")
	errNotAccepted        = errors.New("not accepted")
)

// FetchOptions has optional settings; the zero value is valid.
type FetchOptions struct {
	// Accept is called before a snapshot is downloaded; an error skips the snapshot. It
	// should ask the cluster's leader (see Agrees): if the cluster was recovered from a
	// minority, the bucket can have snapshots of entries that the cluster has lost, and
	// raft would not detect them on this node.
	Accept func(context.Context, raft.SnapshotMeta) error
	Logger hclog.Logger // nil: no log
}

// Fetch downloads the newest complete snapshot of a cluster, of any node, to a data
// directory without snapshots. Raft then starts from it, and the leader only has to send
// the log after it. Fetch is for a new node that joins a live cluster, before its raft
// starts and with an empty raft log. If a snapshot is damaged, Fetch logs that and tries
// the next older one.
//
// If Fetch fails, or the process or the machine dies at any moment before it returns, the
// directory has no partial snapshot. The node can join without a snapshot: the leader sends
// its own. ctx bounds the whole call; there is no other timeout for a bucket that does not
// answer.
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
	var refused error // by Accept, the first one
	for _, f := range completed(all) {
		m, err := download(ctx, b, f.upload, l, func(r *record) error {
			err := o.Accept(ctx, *r.meta(""))
			if refused == nil && err != nil {
				refused = fmt.Errorf("%s: %w", f.prefix(), err)
				errs = append(errs, refused)
			}
			if err != nil {
				return errNotAccepted
			}
			return nil
		})
		if err == nil {
			o.Logger.Info("fetched a snapshot from the bucket", "from", f.prefix(), "bytes", m.Size)
			return *m, nil
		}
		if errors.Is(err, errNotAccepted) { // as a node does that does not lead: nothing is wrong with it
			continue
		}
		o.Logger.Warn("cannot use a snapshot in the bucket", "key", f.prefix(), "error", err)
		errs = append(errs, fmt.Errorf("%s: %w", f.prefix(), err))
		if ctx.Err() != nil {
			break
		}
	}
	return raft.SnapshotMeta{}, errors.Join(errs...)
}

// download copies an upload to the disk as the newest snapshot, if accept returns nil for
// its record.
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

// addresses encodes peers as raft's transports do. Raft's snapshot store only uses this
// method of its transport.
type addresses struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (addresses) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// Agrees reports whether a snapshot at (term, index) belongs to the history of this log,
// whose entries up to committed are committed. The leader's answer is for
// FetchOptions.Accept. Agrees returns false for an entry that the log has compacted; in
// that case the leader would send a snapshot of its own anyway.
func Agrees(logs raft.LogStore, committed, term, index uint64) bool {
	return index <= committed && holds(logs, point{term, index})
}
