package raftlog

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog/segment"
)

// copyBytes is the size of the data of the entries that a conversion copies with one write.
const copyBytes = 1 << 20

// convert converts the log of the given name. It holds the lock on that log until the new
// one counts, so that no other process converts it at the same time.
func (d layout) convert(name string, into func(from *Log) error) error {
	var from *Log
	ok, err := exists(d.path(name))
	switch {
	case err != nil || !ok: // only the marker is there: the log was deleted
	case name == boltName:
		from, err = d.readBolt()
	default:
		from, err = d.readSegments(segment.Options{Spares: -1})
	}
	if err != nil {
		return err
	}
	err = into(from)
	if from != nil {
		err = errors.Join(err, from.Close())
	}
	if err != nil {
		return fmt.Errorf("convert the raft log %s (--raft-log bolt, or segments, leaves a log of that kind as it is): %w", d.path(name), err)
	}
	return nil
}

// makeSegments creates a log in segments with the content of another one, or an empty one.
func (d layout) makeSegments(from *Log) error {
	tmp := segmentName + unfinished
	if err := d.discard(segmentName, tmp); err != nil {
		return err
	}
	if err := d.before("create " + tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path(tmp+"/"+entriesName), 0o700); err != nil {
		return err
	}
	to, err := openSegmentStore(d.path(tmp), segment.Options{Spares: -1, Free: freeBytes(d.dir)})
	if err != nil {
		return err
	}
	err = d.copyAll(&Log{store: to}, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := syncDir(d.path(tmp)); err != nil {
		return err
	}
	if err := d.rename(tmp, segmentName); err != nil || from == nil {
		return err
	}
	return d.mark()
}

// mark makes raft.db the marker.
func (d layout) mark() error {
	tmp := boltName + unfinished
	if err := d.discard(tmp); err != nil {
		return err
	}
	if err := d.before("create the marker"); err != nil {
		return err
	}
	if err := os.Symlink(marker, d.path(tmp)); err != nil {
		return fmt.Errorf("%w; --raft-log bolt needs no symbolic link", err)
	}
	return d.rename(tmp, boltName)
}

// makeBolt creates a raft-boltdb with the content of another log, or an empty one.
func (d layout) makeBolt(from *Log) error {
	tmp := boltName + unfinished
	if err := d.discard(tmp); err != nil {
		return err
	}
	if err := d.before("create " + tmp); err != nil {
		return err
	}
	to, err := openBolt(d.path(tmp))
	if err != nil {
		return err
	}
	err = d.copyAll(&Log{store: to, sealed: true}, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return d.rename(tmp, boltName)
}

// rename gives a complete log its name, durably.
func (d layout) rename(from, to string) error {
	if err := d.before("rename " + from); err != nil {
		return err
	}
	if err := os.Rename(d.path(from), d.path(to)); err != nil {
		return err
	}
	if err := d.before("sync after the rename of " + from); err != nil {
		return err
	}
	return syncDir(d.dir)
}

func syncDir(path string) error { return segment.Dir(path).SyncDir() }

// copyAll copies votes, terms and entries.
func (d layout) copyAll(to, from *Log) error {
	if from == nil {
		return nil
	}
	if err := d.before("copy the votes"); err != nil {
		return err
	}
	if err := copyVotes(to, from); err != nil {
		return err
	}
	if err := d.before("copy the entries"); err != nil {
		return err
	}
	return copyEntries(to, from)
}

func copyVotes(to, from *Log) error {
	for _, key := range []string{keyTerm, keyVoteTerm} {
		switch val, err := from.GetUint64([]byte(key)); {
		case notFound(err):
		case err != nil:
			return err
		default:
			if err := to.SetUint64([]byte(key), val); err != nil {
				return err
			}
		}
	}
	switch val, err := from.Get([]byte(keyVote)); {
	case notFound(err):
		return nil
	case err != nil:
		return err
	default:
		return to.Set([]byte(keyVote), val)
	}
}

// copyEntries copies the entries. Raft may have left a hole in a raft-boltdb; a segment log
// then keeps only the entries behind the hole. A snapshot has the others.
func copyEntries(to, from *Log) error {
	first, errFirst := from.FirstIndex()
	last, errLast := from.LastIndex()
	if err := errors.Join(errFirst, errLast); err != nil || last == 0 {
		return err
	}
	var batch []*raft.Log
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := to.StoreLogs(batch)
		batch, size = nil, 0
		return err
	}
	for i := first; i <= last; i++ {
		e := new(raft.Log)
		err := from.GetLog(i, e)
		switch {
		case errors.Is(err, raft.ErrLogNotFound):
			err = flush()
		case err == nil:
			batch = append(batch, e)
			if size += len(e.Data); size >= copyBytes {
				err = flush()
			}
		}
		if err != nil {
			return err
		}
	}
	return flush()
}
