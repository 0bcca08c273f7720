package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Prepare makes sure that raft can start from the snapshots of this node and
// the log behind them. It is called before raft is, with the log open. If the
// newest snapshot is whole, for which all of it is read, Prepare does nothing
// and does not touch the bucket.
//
// A damaged one is replaced by an older one, or one from the bucket, but only
// if nothing is lost with it: this node has told others that it has all up to
// the damaged snapshot, and must not come back with less. Raft by itself would
// start from the next older one whether or not the log goes on from there, and
// panic if it does not.
//
// An error says what to do. Prepare may be repeated. ctx bounds what it does in
// the bucket.
func (s *Store) Prepare(ctx context.Context, logs raft.LogStore) error {
	all, err := s.local.list()
	if err != nil {
		return err
	}
	bad, whole, err := s.sift(all)
	if err != nil {
		return err
	}
	if len(bad) == 0 {
		return s.checkStart(logs, whole)
	}
	lost := bad[0]
	if whole == nil || continues(logs, whole.point, lost.point, true) != nil {
		if err := s.replace(ctx, logs, lost); err != nil {
			return fmt.Errorf("the snapshot %s is damaged (%w) and nothing can replace it: %w; %s", lost.id, lost.err, err, s.wayOut())
		}
	}
	for _, c := range bad {
		if s.local.exists(c.id) {
			if err := s.local.setAside(c.id, c.err.Error()); err != nil {
				return err
			}
		}
	}
	return s.refresh()
}

func (s *Store) wayOut() string {
	return fmt.Sprintf("if the other nodes are well, move %s away: this node joins them as a new one", s.opts.Dir)
}

// sift returns the newest snapshot that is whole, and the damaged ones that are
// newer, with what is wrong with them.
func (s *Store) sift(all []copyOnDisk) (bad []copyOnDisk, whole *copyOnDisk, err error) {
	for i := range all {
		c := &all[i]
		if c.err == nil {
			c.err = s.local.ensure(c)
		}
		switch {
		case c.err == nil:
			return bad, c, nil
		case errors.Is(c.err, errNewer):
			return nil, nil, fmt.Errorf("the snapshot %s: %w", c.id, c.err)
		}
		s.opts.Logger.Error("a snapshot is damaged", "id", c.id, "error", c.err)
		bad = append(bad, *c)
	}
	return bad, nil, nil
}

// checkStart says what raft would panic over.
func (s *Store) checkStart(logs raft.LogStore, newest *copyOnDisk) error {
	first, err := logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the raft log: %w", err)
	}
	var end uint64
	if newest != nil {
		end = newest.Index
	}
	if first > end+1 {
		return fmt.Errorf("the raft log begins at entry %d, and the newest snapshot ends at %d: snapshots were removed; %s", first, end, s.wayOut())
	}
	return nil
}

// continues says why raft, started from a snapshot at from, would not have all
// that it had with the one that was lost. ours tells that from is certain to be
// of this node's own history; that of the bucket may have been left when a
// cluster was recovered from a minority.
func continues(logs raft.LogStore, from, lost point, ours bool) error {
	if from != lost {
		if !ours && !holds(logs, from) {
			return fmt.Errorf("the log does not hold the entry %s, so that nothing shows that they belong together", from)
		}
		if from.Index < lost.Index && !holds(logs, lost) {
			return fmt.Errorf("the log does not reach %s", lost)
		}
	}
	last, err := logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the raft log: %w", err)
	}
	var entry raft.Log
	for i := from.Index + 1; i <= last; i++ {
		if err := logs.GetLog(i, &entry); err != nil {
			return fmt.Errorf("the log lacks entry %d: %w", i, err)
		}
	}
	return nil
}

func holds(logs raft.LogStore, p point) bool {
	var entry raft.Log
	return logs.GetLog(p.Index, &entry) == nil && entry.Term == p.Term
}

// replace brings a snapshot from the bucket to the disk that can stand for the
// one that was lost.
func (s *Store) replace(ctx context.Context, logs raft.LogStore, lost copyOnDisk) error {
	if s.opts.Bucket == nil || s.opts.Cluster() == "" {
		return errNoBucket
	}
	all, err := listUploads(ctx, s.opts.Bucket, s.opts.Cluster())
	if err != nil {
		return err
	}
	errs := []error{errors.New("no snapshot in the bucket fits")}
	for _, f := range completed(all) {
		if err := continues(logs, f.point, lost.point, false); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.prefix(), err))
			continue
		}
		_, err := download(ctx, s.opts.Bucket, f.upload, s.local, func(r *record) error {
			if f.point == lost.point && lost.record != nil && !r.equivalent(lost.record) {
				return errOtherConfiguration
			}
			return nil
		})
		if err == nil {
			s.opts.Logger.Warn("replaced a damaged snapshot from the bucket", "damaged", lost.id, "by", f.prefix())
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", f.prefix(), err))
	}
	return errors.Join(errs...)
}
