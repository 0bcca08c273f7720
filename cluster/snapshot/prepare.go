package snapshot

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Prepare makes sure that raft can start from the snapshots of this node and the log after
// them. The caller opens the log, and calls Prepare before it starts raft. Prepare reads
// the newest snapshot in full. If it is whole, Prepare changes nothing.
//
// Prepare replaces a damaged snapshot by an older one, but only if nothing is lost: this node
// has confirmed to other nodes that it has all entries up to the damaged snapshot, and must not
// return with fewer. Raft alone would start from the next older snapshot whether or not the log
// continues from there, and panic if it does not.
//
// An error describes the way out. Prepare may be repeated.
func (s *Store) Prepare(logs raft.LogStore) error {
	all, err := s.list()
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
	err = errors.New("there is no older one")
	if whole != nil {
		err = continues(logs, whole.point, lost.point)
	}
	if err != nil {
		return fmt.Errorf("the snapshot %s is damaged (%w) and nothing can replace it: %w; %s", lost.id, lost.err, err, s.wayOut())
	}
	for _, c := range bad {
		if s.exists(c.id) {
			if err := s.setAside(c.id, c.err.Error()); err != nil {
				return err
			}
		}
	}
	return s.refresh()
}

func (s *Store) wayOut() string {
	return fmt.Sprintf("if the other nodes run, move %s away: this node then joins them as a new one", s.base)
}

// sift returns the newest whole snapshot, and the damaged ones that are newer, each with
// its error.
func (s *Store) sift(all []copyOnDisk) (bad []copyOnDisk, whole *copyOnDisk, err error) {
	for i := range all {
		c := &all[i]
		if c.err == nil {
			c.err = s.ensure(c)
		}
		switch {
		case c.err == nil:
			return bad, c, nil
		case errors.Is(c.err, errNewer):
			return nil, nil, fmt.Errorf("the snapshot %s: %w", c.id, c.err)
		}
		s.log.Error("a snapshot is damaged", "id", c.id, "error", c.err)
		bad = append(bad, *c)
	}
	return bad, nil, nil
}

// checkStart returns an error if raft would panic at its start.
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

// continues returns an error if raft, started from the snapshot at from, would not have all
// entries that it had with the lost snapshot, which is a later one.
func continues(logs raft.LogStore, from, lost point) error {
	if !holds(logs, lost) {
		return fmt.Errorf("the raft log does not reach %s, where the lost snapshot ended", lost)
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
