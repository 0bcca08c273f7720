package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/cluster/raftlog/segment"
)

// Names in a data directory. The type of raft.db decides which log counts:
//
//	raft.db is a file      the log is raft.db; a directory raft is the rest of a conversion
//	raft.db is the marker  the log is in the directory raft
//	there is no raft.db    the log is in the directory raft, or there is none
//
// So the rename that replaces raft.db is the moment of each conversion. The steps before it
// write only what does not count yet, and the steps after it remove what counts no longer.
const (
	boltName    = "raft.db"
	segmentName = "raft"
	votesName   = "votes.db" // in the directory raft
	entriesName = "log"      // in the directory raft
	walName     = "wal"      // of earlier releases

	unfinished = ".tmp" // ends the name of what is being created
)

// marker is the target of the symbolic link raft.db. Its directory does not exist. Releases
// without segments would create an empty log and vote with it; they fail to open the marker
// instead.
const marker = "raft/in-segments--start-the-newer-release-once-with---raft-log-bolt/raft.db"

// layout is a data directory.
type layout struct {
	dir string
	// before is called before each change of the directory. An error ends the conversion
	// there, as a crash does.
	before func(change string) error
}

func newLayout(dir string) layout {
	return layout{dir: dir, before: func(string) error { return nil }}
}

func (d layout) path(name string) string { return filepath.Join(d.dir, name) }

// content is the kind of the log that counts in a data directory.
type content int

const (
	noLog content = iota
	boltLog
	segmentLog
)

var errWAL = errors.New("is a log of --raft-log wal, which this release cannot read: stop this node, delete its data " +
	"directory and start it again, one node after the other; each gets its state from the others. If " +
	"it is the only node, first stop it with SIGTERM while it runs the release that wrote the log, " +
	"so that the bucket has every job")

func (d layout) content() (content, error) {
	_, err := os.Lstat(d.path(boltName))
	if err == nil {
		if to, err := os.Readlink(d.path(boltName)); err == nil && to == marker {
			return segmentLog, nil
		}
		return boltLog, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return noLog, err
	}
	if ok, err := exists(d.path(segmentName)); ok || err != nil {
		return segmentLog, err
	}
	if ok, err := exists(d.path(walName)); ok || err != nil {
		return noLog, errors.Join(fmt.Errorf("%s %w", d.path(walName), errWAL), err)
	}
	return noLog, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// openBolt opens the log as kind bolt.
func (d layout) openBolt() (*Log, error) {
	has, err := d.content()
	if err == nil && has == segmentLog {
		err = d.convert(segmentName, d.makeBolt)
	}
	if err != nil {
		return nil, err
	}
	l, err := d.readBolt()
	if err != nil {
		return nil, err
	}
	if err := d.discard(segmentName, segmentName+unfinished, boltName+unfinished); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// openSegments opens the log as kind segments.
func (d layout) openSegments(o segment.Options) (*Log, error) {
	has, err := d.content()
	if err == nil && has == boltLog {
		err = d.convert(boltName, d.makeSegments)
	} else if err == nil {
		err = d.ensureSegments()
	}
	if err != nil {
		return nil, err
	}
	l, err := d.readSegments(o)
	if err != nil {
		return nil, err
	}
	if err := d.discard(boltName + unfinished); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ensureSegments creates an empty log if there is none, and the marker if it is missing.
func (d layout) ensureSegments() error {
	has, err := exists(d.path(segmentName))
	if err == nil && !has {
		err = d.makeSegments(nil)
	}
	marked, errMarked := exists(d.path(boltName))
	if err = errors.Join(err, errMarked); err == nil && !marked {
		err = d.mark()
	}
	if err != nil {
		return fmt.Errorf("create the raft log %s: %w", d.path(segmentName), err)
	}
	return nil
}

func (d layout) readBolt() (*Log, error) {
	path := d.path(boltName)
	return inspected(path, true, func() (store, error) { return openBolt(path) })
}

func (d layout) readSegments(o segment.Options) (*Log, error) {
	path := d.path(segmentName)
	return inspected(path, false, func() (store, error) {
		if err := complete(path); err != nil {
			return nil, err
		}
		return openSegmentStore(path, o)
	})
}

// discard removes what does not count. The caller has the lock on the log that counts.
func (d layout) discard(names ...string) error {
	for _, name := range names {
		ok, err := exists(d.path(name))
		if err == nil && ok {
			err = d.before("remove " + name)
		}
		if err == nil && ok {
			err = os.RemoveAll(d.path(name))
		}
		if err != nil {
			return fmt.Errorf("remove the leftovers of a conversion: %w", err)
		}
	}
	return nil
}
