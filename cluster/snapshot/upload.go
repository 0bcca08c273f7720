package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"osqueue/internal/sleep"
)

// Pauses between attempts to upload while the bucket is unavailable.
const (
	firstPause = time.Second
	longPause  = time.Minute
)

// Run uploads snapshots until ctx ends. Only one Run may be active at a time. It uploads
// the newest local snapshot, at the start and whenever made wakes it through due; it never
// uploads older ones. If an upload fails, Run tries again with the newest snapshot at that
// time, until one succeeds.
func (s *Store) Run(ctx context.Context) {
	if s.opts.Bucket == nil {
		return
	}
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: firstPause, MaxInterval: longPause, Multiplier: 2, RandomizationFactor: 0.5,
	}
	settled := "" // id of the snapshot that needs no further upload
	for ctx.Err() == nil {
		next, err := s.local.newest()
		if err == nil && (next == nil || next.id == settled) {
			s.awaitDue(ctx)
			continue
		}
		if err == nil {
			err = s.upload(ctx, next)
		}
		if ctx.Err() != nil {
			return
		}
		s.outcome(err)
		if err != nil {
			sleep.For(ctx, pauses.NextBackOff())
			continue
		}
		settled = next.id
		pauses.Reset()
		sleep.For(ctx, s.opts.UploadInterval)
	}
}

// errNoCluster is not a failure: a new node has no useful state yet.
var errNoCluster = errors.New("the cluster has no id yet: nothing is uploaded")

func (s *Store) outcome(err error) {
	if err != nil && !errors.Is(err, errNoCluster) {
		s.failing(err)
		return
	}
	s.report(func(st *Status) { st.Failing = "" })
}

// failing records why the bucket does not have the newest snapshot. It logs only the first
// failure.
func (s *Store) failing(err error) {
	was := ""
	s.report(func(st *Status) { was, st.Failing = st.Failing, err.Error() })
	if was == "" {
		s.opts.Logger.Warn("cannot upload the newest snapshot yet; trying again", "error", err)
	}
}

func (s *Store) awaitDue(ctx context.Context) {
	select {
	case <-s.due:
	case <-ctx.Done():
	}
}

// upload copies a snapshot to the bucket, unless an existing upload covers it.
func (s *Store) upload(ctx context.Context, c *copyOnDisk) error {
	cluster := s.opts.Cluster()
	if cluster == "" {
		return errNoCluster
	}
	there, err := s.lookThere(ctx, cluster)
	if err != nil {
		return err
	}
	if f := covering(there, c.point, s.opts.Slack); f != nil {
		s.inBucket(f.upload)
		return nil
	}
	_, rc, err := s.local.open(c.id)
	if err != nil {
		if s.local.exists(c.id) {
			s.damaged(c.id, err)
		}
		return fmt.Errorf("read the local snapshot %s: %w", c.id, err)
	}
	defer rc.Close()
	r := *c.record
	u := upload{cluster: cluster, node: s.opts.Node, point: c.point, at: s.opts.Clock().UnixMilli(), id: rand.Text()}
	r.Cluster, r.Node = u.cluster, u.node
	up := uploader{bucket: s.opts.Bucket, partBytes: s.opts.partBytes, note: s.failing}
	if err := up.write(ctx, u, &r, rc); err != nil {
		return fmt.Errorf("upload the snapshot %s: %w", c.id, err)
	}
	s.opts.Logger.Info("uploaded a snapshot", "id", c.id, "to", u.prefix(), "bytes", r.Size)
	s.inBucket(u)
	return nil
}

func (s *Store) lookThere(ctx context.Context, cluster string) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	return listUploads(ctx, s.opts.Bucket, cluster)
}

// covering returns the newest upload if it makes an upload of p unnecessary, and nil
// otherwise. An upload of a later index in an earlier term belongs to a lost history and
// does not count.
func covering(there []found, p point, slack uint64) *found {
	for i := range there {
		f := &there[i]
		switch {
		case !f.complete, f.Term < p.Term && f.Index > p.Index:
		case f.Index >= p.Index || p.Index-f.Index <= slack:
			return f
		default:
			return nil
		}
	}
	return nil
}

func (s *Store) inBucket(u upload) {
	s.report(func(st *Status) {
		st.Bucket, st.BucketNode = newPoint(u.point, u.at), u.node
	})
}
