package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// rootFaults put another directory in the place of the bucket, as a mount does that goes away.
var rootFaults = []Fault{
	{Name: "bucket-root", NoBucket: true, Needs: NeedFile, Hold: 4 * time.Second, Begin: otherRoot},
	{Name: "mount-away", Elects: true, Needs: NeedFile, Begin: mountAway},
	{Name: "bucket-emptied", Needs: NeedFile, Begin: emptied, Alone: true},
}

// mount is the path by which one node reaches a bucket that is a directory.
type mount struct {
	t    *testing.T
	path string // a link
	bare string // the directory below the mount point
}

// lead lets the path lead to a directory.
func (m *mount) lead(to string) {
	m.t.Helper()
	if err := errors.Join(os.Symlink(to, m.path+".next"), os.Rename(m.path+".next", m.path)); err != nil {
		m.t.Fatal(err)
	}
}

// mountAll gives each node a path of its own to the bucket.
func (w *World) mountAll() {
	w.mounts = make(map[*cluster.Node]*mount)
	dir := strings.TrimPrefix(w.Cluster.Bucket(), "file://")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.T.Fatal(err)
	}
	for _, n := range w.Cluster.Nodes {
		m := &mount{t: w.T, path: filepath.Join(w.T.TempDir(), "mount"), bare: w.T.TempDir()}
		m.lead(dir)
		w.mounts[n] = m
	}
}

// mountFlags are the flags for the path of a node.
func (w *World) mountFlags(n *cluster.Node) []string {
	if m := w.mounts[n]; m != nil {
		return []string{"--bucket", "file://" + m.path}
	}
	return nil
}

// mountAway takes the mount of the leader away until another node leads. The signs are that it says
// so, that another one leads, and that nothing was written below the mount point.
func mountAway(w *World, s *history.FaultSpan) func() {
	old := w.Cluster.WaitLeader()
	const said = "another one can; handing leadership over"
	m, before := w.mounts[old], strings.Count(old.Log(), said)
	m.lead(m.bare)
	next := w.Cluster.WaitOtherLeader(old)
	gave := strings.Count(old.Log(), said) - before
	return func() {
		m.lead(strings.TrimPrefix(w.Cluster.Bucket(), "file://"))
		if entries, err := os.ReadDir(m.bare); err != nil || len(entries) > 0 {
			w.T.Errorf("below the mount point: %v, %v", entries, err)
			return
		}
		if gave == 0 {
			s.Missed(fmt.Sprintf("%s has not handed the leadership over", old.Name))
			return
		}
		s.Hit(fmt.Sprintf("%s lost its mount, and %s led", old.Name, next.Name))
	}
}

// emptied removes everything from the bucket. The signs are that a leader says so, and that the
// document is there again. The archive and the artefacts are put back when the round is over: the
// checkers read all versions of the document, and no node can write an artefact again.
func emptied(w *World, s *history.FaultSpan) func() {
	dir := strings.TrimPrefix(w.Cluster.Bucket(), "file://")
	const said = "another program removed the document"
	times := func() (n int) {
		for _, node := range w.Cluster.Nodes {
			n += strings.Count(node.Log(), said)
		}
		return n
	}
	before := times()
	entries, err := os.ReadDir(dir)
	gone := w.T.TempDir()
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(dir, e.Name()), filepath.Join(gone, e.Name())))
	}
	if err = errors.Join(err, w.spoilAll(gone)); err != nil {
		s.Missed(err.Error()) // the leader has written meanwhile
		return func() {}
	}
	w.Cluster.Eventually(cluster.LeaderTimeout, "the document to be written again", func() error {
		if times() == before {
			return errors.New("no node reports that it was removed")
		}
		_, err := os.Stat(filepath.Join(dir, "queue.json"))
		return err
	})
	s.Hit(fmt.Sprintf("%d entries were removed, and the document is there again", len(entries)))
	return func() {}
}

// spoilAll notes all objects of an archive in a directory, and all artefacts, as spoiled.
func (w *World) spoilAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		key, _ := strings.CutPrefix(path, dir+"/")
		if err != nil || e.IsDir() || !strings.HasPrefix(key, "checkpoint/") && !strings.HasPrefix(key, "log/") && !strings.HasPrefix(key, "artefact/") {
			return err
		}
		data, err := os.ReadFile(path)
		w.spoiled = append(w.spoiled, spoiledObject{key, data})
		return err
	})
}

// otherRoot moves the bucket away and puts an empty directory there. The sign is that the leader
// says so, and that nothing was written to the empty directory.
func otherRoot(w *World, s *history.FaultSpan) func() {
	dir := strings.TrimPrefix(w.Cluster.Bucket(), "file://")
	away := dir + ".away"
	if err := errors.Join(os.Rename(dir, away), os.Mkdir(dir, 0o700)); err != nil {
		w.T.Fatal(err)
	}
	said := ""
	w.Cluster.Eventually(cluster.LeaderTimeout, "the leader to see the other directory", func() error {
		for _, n := range w.Cluster.Nodes {
			if st, err := n.Status(); err == nil && strings.Contains(st.FlushError+st.Fence.Reason, "is it mounted?") {
				said = n.Name
				return nil
			}
		}
		return errors.New("no node reports it")
	})
	return func() {
		err := os.Remove(dir) // fails if it is not empty
		if err = errors.Join(err, os.Rename(away, dir)); err != nil {
			w.T.Errorf("the other directory: %v", err)
			return
		}
		s.Hit(fmt.Sprintf("%s refused the other directory, and left it empty", said))
	}
}
