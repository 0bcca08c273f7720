package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
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

// local stores snapshots in the data directory, by means of raft's own store. It is safe
// for concurrent use.
type local struct {
	base  string // the data directory
	files *raft.FileSnapshotStore
	log   hclog.Logger
	watch func(what string, bytes int, fn func() error) error // runs each read

	settling sync.Mutex // held during settle

	mu   sync.Mutex
	own  map[string]bool  // ids that this process has begun to write
	sure map[string]bool  // ids whose bytes were whole when last read to the end
	bad  map[string]error // ids whose bytes were damaged
}

// openLocal opens the snapshots of a data directory, and removes unfinished ones.
func openLocal(base string, log hclog.Logger) (*local, error) {
	// raft makes the directory and the files for all users to read; a data directory that an operator
	// has made may let them in.
	dir := filepath.Join(base, localDir)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open the snapshots under %s: %w", base, err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(base, everything, log)
	if err != nil {
		return nil, fmt.Errorf("open the snapshots under %s: %w", base, err)
	}
	l := &local{base: base, files: files, log: log, watch: unwatched, own: make(map[string]bool), sure: make(map[string]bool), bad: make(map[string]error)}
	entries, err := os.ReadDir(l.path())
	if err != nil {
		return nil, fmt.Errorf("open the snapshots under %s: %w", base, err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.RemoveAll(l.path(e.Name())); err != nil {
				return nil, fmt.Errorf("remove an unfinished snapshot: %w", err)
			}
		}
	}
	return l, nil
}

func (l *local) path(elem ...string) string {
	return filepath.Join(append([]string{l.base, localDir}, elem...)...)
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
func (l *local) list() ([]copyOnDisk, error) {
	var entries []os.DirEntry
	err := l.watch("list the snapshots", 0, func() (err error) {
		entries, err = os.ReadDir(l.path())
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
		c, ok := l.look(e.Name())
		if ok && (c.err == nil || l.exists(c.id)) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b copyOnDisk) int {
		return cmp.Or(b.point.compare(a.point), cmp.Compare(b.at, a.at))
	})
	return all, nil
}

// exists distinguishes a damaged snapshot from one that was just removed.
func (l *local) exists(id string) bool {
	_, err := os.Stat(l.path(id))
	return err == nil
}

// look reads the description of one snapshot. ok is false if id is not the name of a
// snapshot.
func (l *local) look(id string) (c copyOnDisk, ok bool) {
	c.id = id
	if c.point, c.at, ok = parseID(id); !ok {
		return c, false
	}
	c.err = l.watch("read the description of a snapshot", 0, func() (err error) {
		c.meta, c.record, err = l.describe(id, c.point)
		return err
	})
	return c, true
}

func (l *local) describe(id string, p point) (*raft.SnapshotMeta, *record, error) {
	m, err := l.readMeta(id)
	if err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(l.path(id, stateFile))
	if err != nil {
		return nil, nil, err
	}
	if m.ID != id || (point{m.Term, m.Index}) != p || m.Size != info.Size() {
		return nil, nil, fmt.Errorf("%w: %s is of the snapshot %q of %d bytes; the file has %d bytes", ErrDamaged, metaFile, m.ID, m.Size, info.Size())
	}
	data, err := os.ReadFile(l.path(id, recordFile))
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

func (l *local) readMeta(id string) (*raft.SnapshotMeta, error) {
	data, err := os.ReadFile(l.path(id, metaFile))
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
func (l *local) newest() (*copyOnDisk, error) {
	all, err := l.list()
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

// open opens a snapshot after a check of its bytes. The check happens once in the life of
// the store; in addition the reader checks the bytes.
func (l *local) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	c, ok := l.look(id)
	if !ok {
		return nil, nil, fmt.Errorf("%q is not the id of a snapshot: %w", id, fs.ErrNotExist)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if err := l.ensure(&c); err != nil {
		return nil, nil, err
	}
	rc, err := l.stream(&c)
	return c.meta, rc, err
}

// ensure checks a snapshot by reading it to the end, unless that was done before.
func (l *local) ensure(c *copyOnDisk) error {
	if l.isSure(c.id) {
		return nil
	}
	rc, err := l.stream(c)
	if err != nil {
		return err
	}
	defer rc.Close()
	if _, err := io.Copy(io.Discard, rc); err != nil {
		return err
	}
	l.judge(c.id, nil)
	return nil
}

// stream opens the bytes of a snapshot.
func (l *local) stream(c *copyOnDisk) (io.ReadCloser, error) {
	f, err := os.Open(l.path(c.id, stateFile))
	if err != nil {
		return nil, err
	}
	return newCheckedReader(watchedFile{f, l}, c.record, func(err error) { l.judge(c.id, err) }), nil
}

// watchedFile is a file whose reads are watched.
type watchedFile struct {
	*os.File
	local *local
}

// Read implements io.Reader.
func (f watchedFile) Read(p []byte) (n int, err error) {
	err = f.local.watch("read a snapshot", len(p), func() (err error) {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (l *local) isSure(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sure[id]
}

// judge records the result of reading the bytes of a snapshot; nil means whole.
func (l *local) judge(id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sure, id)
	delete(l.bad, id)
	if err == nil {
		l.sure[id] = true
	} else {
		l.bad[id] = err
	}
}

func (l *local) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, id)
	delete(l.sure, id)
	delete(l.bad, id)
}

// fault returns the known damage of a snapshot, or nil.
func (l *local) fault(c *copyOnDisk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(c.err, l.bad[c.id])
}

// settle makes id, which was just written, the newest snapshot in the directory. It sets
// aside the snapshots that would be listed before id, because they belong to a history that
// raft has left. The exception is a snapshot that overtook id. settle also sets damaged
// snapshots aside, and removes the oldest ones beyond retain.
func (l *local) settle(id string) error {
	l.settling.Lock() // raft may write its own snapshot and one from the leader concurrently
	defer l.settling.Unlock()
	all, err := l.list()
	if err != nil {
		return err
	}
	own, _, _ := parseID(id)
	reached, kept := false, 0
	for i := range all {
		c := &all[i]
		reached = reached || c.id == id
		damage := l.fault(c)
		switch {
		case damage != nil:
			err = l.setAside(c.id, damage.Error())
		case !reached && !l.overtook(c, own):
			err = l.setAside(c.id, "a snapshot of an older entry was written after it")
		default:
			if kept++; kept > retain {
				err = l.remove(c.id)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begun records that this process writes the snapshot id.
func (l *local) begun(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own[id] = true
}

// overtook reports whether this process has written c and c reaches a later entry than
// late. Within one process raft never goes back: its log continues from c, and the snapshot
// at late is the older one.
func (l *local) overtook(c *copyOnDisk, late point) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[c.id] && c.Index > late.Index
}

// remove deletes a snapshot. A rename hides it first, so that no partly deleted snapshot is
// visible.
func (l *local) remove(id string) error {
	l.forget(id)
	gone := l.path(id + tmpSuffix)
	if err := os.Rename(l.path(id), gone); err != nil {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	return nil
}

// setAside moves a snapshot to a directory that raft does not read, for inspection by a
// person.
func (l *local) setAside(id, reason string) error {
	l.forget(id)
	dir := filepath.Join(l.base, asideDir)
	to := filepath.Join(dir, fmt.Sprintf("%s~%d", id, time.Now().UnixMilli()))
	l.log.Warn("moving a snapshot to quarantine", "id", id, "to", to, "reason", reason)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("move a snapshot to quarantine: %w", err)
	}
	if err := os.Rename(l.path(id), to); err != nil {
		return fmt.Errorf("move a snapshot to quarantine: %w", err)
	}
	return errors.Join(trimAside(dir), syncDir(dir), syncDir(l.path()))
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
