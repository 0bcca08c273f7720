package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Names in the data directory. raft.FileSnapshotStore defines the first three.
const (
	localDir   = "snapshots"
	metaFile   = "meta.json"
	stateFile  = "state.bin"
	recordFile = "osqueue.json"
	tmpSuffix  = ".tmp"
	asideDir   = "snapshots-aside"
)

const (
	retain    = 2 // number of snapshots kept
	asideKept = 2 // number of snapshots kept that were set aside
	// everything is the number of snapshots that raft's store may keep. This package
	// removes them instead, because raft's store removes by term and index, even the
	// snapshot that it has just written.
	everything = 1 << 20
)

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.base, localDir}, elem...)...)
}

// point is a position in raft's log. Term is raft's term, not that of an LSN.
type point struct{ Term, Index uint64 }

func (p point) compare(q point) int {
	return cmp.Or(cmp.Compare(p.Term, q.Term), cmp.Compare(p.Index, q.Index))
}

// String returns term-index, the form in names.
func (p point) String() string { return fmt.Sprintf("%d-%d", p.Term, p.Index) }

// parseID parses term-index-ms, raft's id of a snapshot. It only accepts the form that raft writes.
func parseID(id string) (p point, at int64, ok bool) {
	_, err := fmt.Sscanf(id, "%d-%d-%d", &p.Term, &p.Index, &at)
	return p, at, err == nil && fmt.Sprintf("%s-%d", p, at) == id
}

// copyOnDisk is a snapshot in the data directory.
type copyOnDisk struct {
	point
	at     int64 // creation time, ms
	id     string
	meta   *raft.SnapshotMeta // nil if err
	record *record            // nil if err
	err    error              // the reason why it cannot be used
}

// list returns all snapshots on the disk, newest first, including damaged ones. It reads
// their descriptions, not their bytes.
func (s *Store) list() ([]copyOnDisk, error) {
	var entries []os.DirEntry
	err := s.watch("list the snapshots", 0, func() (err error) {
		entries, err = os.ReadDir(s.path())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	var all []copyOnDisk
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		c, ok := s.look(e.Name())
		if ok && (c.err == nil || s.exists(c.id)) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b copyOnDisk) int {
		return cmp.Or(b.point.compare(a.point), cmp.Compare(b.at, a.at))
	})
	return all, nil
}

// exists distinguishes a damaged snapshot from one that was just removed.
func (s *Store) exists(id string) bool {
	_, err := os.Stat(s.path(id))
	return err == nil
}

// look reads the description of one snapshot. ok is false if id is not the name of a
// snapshot.
func (s *Store) look(id string) (c copyOnDisk, ok bool) {
	c.id = id
	if c.point, c.at, ok = parseID(id); !ok {
		return c, false
	}
	c.err = s.watch("read the description of a snapshot", 0, func() (err error) {
		c.meta, c.record, err = s.describe(id, c.point)
		return err
	})
	return c, true
}

func (s *Store) describe(id string, p point) (*raft.SnapshotMeta, *record, error) {
	m, err := s.readMeta(id)
	if err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(s.path(id, stateFile))
	if err != nil {
		return nil, nil, err
	}
	if m.ID != id || (point{m.Term, m.Index}) != p || m.Size != info.Size() {
		return nil, nil, fmt.Errorf("%w: %s is of the snapshot %q of %d bytes; the file has %d bytes", ErrDamaged, metaFile, m.ID, m.Size, info.Size())
	}
	data, err := os.ReadFile(s.path(id, recordFile))
	if err != nil {
		return nil, nil, err
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil, nil, err
	}
	if !r.describes(m) {
		return nil, nil, fmt.Errorf("%w: %s and %s describe different snapshots", ErrDamaged, metaFile, recordFile)
	}
	return m, r, nil
}

func (s *Store) readMeta(id string) (*raft.SnapshotMeta, error) {
	data, err := os.ReadFile(s.path(id, metaFile))
	if err != nil {
		return nil, err
	}
	var m raft.SnapshotMeta
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, metaFile, err)
	}
	return &m, nil
}

// newest returns the newest snapshot with a valid description, or nil.
func (s *Store) newest() (*copyOnDisk, error) {
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].err == nil {
			return &all[i], nil
		}
	}
	return nil, nil
}

// ensure checks a snapshot by reading it to the end, unless that was done before.
func (s *Store) ensure(c *copyOnDisk) error {
	if s.isSure(c.id) {
		return nil
	}
	rc, err := s.stream(c)
	if err != nil {
		return err
	}
	defer rc.Close()
	if _, err := io.Copy(io.Discard, rc); err != nil {
		return err
	}
	s.judge(c.id, nil)
	return nil
}

// stream opens the bytes of a snapshot.
func (s *Store) stream(c *copyOnDisk) (io.ReadCloser, error) {
	f, err := os.Open(s.path(c.id, stateFile))
	if err != nil {
		return nil, err
	}
	return newCheckedReader(watchedFile{f, s}, c.record, func(err error) { s.judge(c.id, err) }), nil
}

// watchedFile is a file whose reads are watched.
type watchedFile struct {
	*os.File
	store *Store
}

// Read implements io.Reader.
func (f watchedFile) Read(p []byte) (n int, err error) {
	err = f.store.watch("read a snapshot", len(p), func() (err error) {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (s *Store) isSure(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sure[id]
}

// judge records the result of reading the bytes of a snapshot; nil means whole.
func (s *Store) judge(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sure, id)
	delete(s.bad, id)
	if err == nil {
		s.sure[id] = true
	} else {
		s.bad[id] = err
	}
}

func (s *Store) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, id)
	delete(s.sure, id)
	delete(s.bad, id)
}

// fault returns the known damage of a snapshot, or nil.
func (s *Store) fault(c *copyOnDisk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(c.err, s.bad[c.id])
}

// settle makes id, which was just written, the newest snapshot in the directory. It sets
// aside the snapshots that would be listed before id, because they belong to a history that
// raft has left. The exception is a snapshot that overtook id. settle also sets damaged
// snapshots aside, and removes the oldest ones beyond retain.
func (s *Store) settle(id string) error {
	s.settling.Lock() // raft may write its own snapshot and one from the leader concurrently
	defer s.settling.Unlock()
	all, err := s.list()
	if err != nil {
		return err
	}
	own, _, _ := parseID(id)
	reached, kept := false, 0
	for i := range all {
		c := &all[i]
		reached = reached || c.id == id
		damage := s.fault(c)
		switch {
		case damage != nil:
			err = s.setAside(c.id, damage.Error())
		case !reached && !s.overtook(c, own):
			err = s.setAside(c.id, "a snapshot of an older entry was written after it")
		default:
			if kept++; kept > retain {
				err = s.remove(c.id)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begun records that this process writes the snapshot id.
func (s *Store) begun(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[id] = true
}

// overtook reports whether this process has written c and c reaches a later entry than
// late. Within one process raft never goes back: its log continues from c, and the snapshot
// at late is the older one.
func (s *Store) overtook(c *copyOnDisk, late point) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[c.id] && c.Index > late.Index
}

// remove deletes a snapshot. A rename hides it first, so that no partly deleted snapshot is
// visible.
func (s *Store) remove(id string) error {
	s.forget(id)
	gone := s.path(id + tmpSuffix)
	if err := os.Rename(s.path(id), gone); err != nil {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	return nil
}

// setAside moves a snapshot to a directory that raft does not read, for inspection by a
// person.
func (s *Store) setAside(id, reason string) error {
	s.forget(id)
	dir := filepath.Join(s.base, asideDir)
	to := filepath.Join(dir, fmt.Sprintf("%s~%d", id, time.Now().UnixMilli()))
	s.log.Warn("moving a snapshot to quarantine", "id", id, "to", to, "reason", reason)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("move a snapshot to quarantine: %w", err)
	}
	if err := os.Rename(s.path(id), to); err != nil {
		return fmt.Errorf("move a snapshot to quarantine: %w", err)
	}
	return errors.Join(trimAside(dir), syncDir(dir), syncDir(s.path()))
}

// trimAside removes all but the last asideKept snapshots that were set aside.
func trimAside(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(asideOrder(b), asideOrder(a)) })
	for i, e := range entries {
		if i >= asideKept {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// asideOrder returns the time when an entry was set aside, as text; times in ms have the
// same length and sort as text.
func asideOrder(e os.DirEntry) string {
	_, at, _ := strings.Cut(e.Name(), "~")
	return at
}

// writeFileSync creates a file and makes its content and name durable.
func writeFileSync(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close(), syncDir(filepath.Dir(path)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
