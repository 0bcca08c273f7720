package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// backupPrefix begins the keys of the documents of backups.
const backupPrefix = "backup/"

// Backup names a backup: a copy of a document, with all objects that it needs, in another bucket.
type Backup struct {
	Lineage string
	LSN     fsm.LSN
	At      int64 // when the leader wrote the document, by its clock, ms
}

// Key returns the key of the copy of the document.
func (b Backup) Key() string {
	return fmt.Sprintf("%s%s/%020d-%020d~%d.json", backupPrefix, b.Lineage, b.LSN.Term, b.LSN.Index, b.At)
}

func (b Backup) compare(c Backup) int { return cmp.Or(b.LSN.Compare(c.LSN), cmp.Compare(b.At, c.At)) }

var backupPattern = regexp.MustCompile(`^` + backupPrefix + `([^/]+)/([0-9]+-[0-9]+)~([0-9]+)\.json$`)

// parseBackup parses a key. ok is false for a key that Backup.Key does not return.
func parseBackup(key string) (b Backup, ok bool) {
	f := backupPattern.FindStringSubmatch(key)
	if f == nil {
		return b, false
	}
	lsn, err := fsm.ParseLSN(f[2])
	at, failed := strconv.ParseInt(f[3], 10, 64)
	b = Backup{f[1], lsn, at}
	return b, err == nil && failed == nil && b.Key() == key
}

// IsBackup reports whether a key is that of a backup.
func IsBackup(key string) bool {
	_, ok := parseBackup(key)
	return ok
}

// Backups returns the backups in a bucket, the newest one last. The error wraps ErrOtherQueue if they are of several
// lineages.
func Backups(ctx context.Context, bucket storage.Bucket) ([]Backup, error) {
	var all []Backup
	err := bucket.List(ctx, backupPrefix, func(i storage.Info) bool {
		if b, ok := parseBackup(i.Key); ok {
			all = append(all, b)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", backupPrefix, err)
	}
	slices.SortFunc(all, Backup.compare)
	for _, b := range all {
		if b.Lineage != all[0].Lineage {
			return nil, fmt.Errorf("%w: of the lineages %s and %s", ErrOtherQueue, all[0].Lineage, b.Lineage)
		}
	}
	return all, nil
}

// OpenBackup opens the history of the newest backup in a bucket. For an earlier state it has the objects of the two
// backups around that one, too: between two backups it may have a hole. The error wraps storage.ErrNotFound if there
// is no backup.
func OpenBackup(ctx context.Context, bucket storage.Bucket, t Target) (*History, error) {
	all, err := Backups(ctx, bucket)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no backup: %w", storage.ErrNotFound)
	}
	newest := len(all) - 1
	keys := []string{all[newest].Key()}
	if t != (Target{}) {
		before := func(b Backup) bool { return b.LSN.Compare(t.LSN) < 0 || b.At < t.Time.UnixMilli() }
		at := 0 // the first one that is not before the state
		for at < newest && before(all[at]) {
			at++
		}
		for _, b := range all[max(0, at-1):min(at+1, newest)] {
			keys = append(keys, b.Key())
		}
	}
	return open(ctx, bucket, keys...)
}

var (
	// ErrOtherQueue is wrapped if a bucket has backups of another queue, or of several ones.
	ErrOtherQueue = errors.New("the bucket has backups of another queue")
	// ErrIsQueue is wrapped if the target of a backup has a document: it is the bucket of a queue.
	ErrIsQueue = errors.New("the target is the bucket of a queue")
)

// backupTries is how often a backup begins with the newest document, after an object of the one before was gone.
const backupTries = 5

// BackedUp is the result of BackUp.
type BackedUp struct {
	Backup
	Newer     *Backup // there was a newer backup: none was written; or nil
	Objects   int     // of the checkpoint and the log
	Copied    int     // those of them that were not there
	Bytes     int64   // of those
	Counts    fsm.Counts
	Artefacts int
	Missing   []string // objects of artefacts that the source does not have
	Removed   int      // backups that were too old
}

// BackUp copies the state of the document at key to another bucket, and rebuilds it from there. doc.go has the
// rules. If keep is positive, it first removes the backups that are more than that older than the newest one. If only
// that fails, there is a result with the error. BackUp keeps one state in memory.
func BackUp(ctx context.Context, from, to storage.Bucket, key string, keep time.Duration) (*BackedUp, error) {
	if _, err := to.Get(ctx, key); err == nil {
		return nil, fmt.Errorf("%w: it has a %s", ErrIsQueue, key)
	} else if !errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("read the target: %w", err)
	}
	all, err := Backups(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("read the target: %w", err)
	}
	b := &backup{from: from, to: to}
	removed, pruneErr := b.prune(ctx, all, keep)
	var seen []byte // the document that lacked an object
	for try := 1; ; try++ {
		r, err := readOriginal(ctx, from, key)
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		last := try == backupTries || bytes.Equal(r.data, seen)
		out, err := b.copy(ctx, r, last)
		if err == nil {
			out.Removed = removed
			return out, pruneErr
		}
		if last || !errors.Is(err, storage.ErrNotFound) {
			return nil, errors.Join(err, pruneErr)
		}
		seen = r.data
	}
}

// original is a document as it was read.
type original struct {
	data []byte
	doc  *document.File
}

// readOriginal reads a document. The error wraps storage.ErrNotFound if there is none, and ErrDamaged if it cannot be read.
func readOriginal(ctx context.Context, bucket storage.Bucket, key string) (original, error) {
	r, err := blob.Fetch(ctx, bucket, key, func(data []byte) (original, error) {
		doc, err := document.Decode(data)
		return original{data, doc}, err
	})
	switch {
	case errors.Is(err, blob.ErrDamaged):
		err = fmt.Errorf("%q: %w: %w", key, ErrDamaged, err)
	case err == nil && r.doc.Header == nil:
		err = fmt.Errorf("%q is of the legacy broker: start a cluster on it first", key)
	}
	return r, err
}

// backup is one call of BackUp.
type backup struct{ from, to storage.Bucket }

// copy copies what a document needs, checks it, and then copies the document. last says that an artefact which is
// missing is not a reason to begin again.
func (b *backup) copy(ctx context.Context, r original, last bool) (*BackedUp, error) {
	out := &BackedUp{Backup: Backup{r.doc.Lineage(), r.doc.LSN(), r.doc.Header.Heartbeat}}
	var err error
	if out.Newer, err = b.newer(ctx, out.Backup); err != nil || out.Newer != nil {
		return out, err
	}
	all, found, err := NewAudit(b.from).needs(ctx, r.doc.Archive)
	if found != nil {
		err = &ObjectError{found.Key, found.Err}
	}
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	if err := b.objects(ctx, all, out); err != nil {
		return nil, err
	}
	m, err := b.rebuild(ctx, r.doc, all)
	if err != nil {
		return nil, fmt.Errorf("rebuild the state from the target: %w", err)
	}
	out.Counts = m.Counts()
	if out.Artefacts, out.Missing, err = CopyArtefacts(ctx, b.from, b.to, m.View()); err != nil {
		return nil, err
	}
	if len(out.Missing) > 0 && !last {
		return nil, fmt.Errorf("artefact %q: %w", out.Missing[0], storage.ErrNotFound)
	}
	if out.Newer, err = b.newer(ctx, out.Backup); err != nil || out.Newer != nil {
		return out, err
	}
	// The document of that LSN and time is the same one, or differs in what is not part of the state.
	if err := Put(ctx, b.to, out.Key(), r.data); err != nil && !errors.Is(err, blob.ErrTaken) {
		return nil, fmt.Errorf("write to the target: %w", err)
	}
	return out, nil
}

// newer returns the newest backup in the target if it is newer than this one, or nil. The error wraps ErrOtherQueue
// if it is of another lineage.
func (b *backup) newer(ctx context.Context, this Backup) (*Backup, error) {
	all, err := Backups(ctx, b.to)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	newest := all[len(all)-1]
	switch {
	case newest.Lineage != this.Lineage:
		return nil, fmt.Errorf("%w: of lineage %s, and the source has %s", ErrOtherQueue, newest.Lineage, this.Lineage)
	case newest.compare(this) > 0:
		return &newest, nil
	}
	return nil, nil
}

// objects copies the objects that the target does not have.
func (b *backup) objects(ctx context.Context, all []needed, out *BackedUp) error {
	there := make(map[string]bool)
	err := each(ctx, b.to, out.Lineage, func(i storage.Info) bool {
		there[i.Key] = true
		return true
	})
	if err != nil {
		return err
	}
	absent := slices.DeleteFunc(slices.Clone(all), func(n needed) bool { return there[n.key] })
	out.Objects, out.Copied = len(all), len(absent)
	for size, err := range blob.Ahead(ctx, readAhead, absent, b.object) {
		if err != nil {
			return err
		}
		out.Bytes += int64(size)
	}
	return nil
}

// object copies an object, and returns its size.
func (b *backup) object(ctx context.Context, n needed) (size int, err error) {
	data, err := n.fetch(ctx, b.from)
	if err != nil {
		return 0, fmt.Errorf("read the source: %w", err)
	}
	if err := Put(ctx, b.to, n.key, data); err != nil {
		return 0, fmt.Errorf("write to the target: %w", err)
	}
	return len(data), nil
}

// rebuild returns the state of a document whose objects are in the target. Each object that is damaged there is
// copied again, once.
func (b *backup) rebuild(ctx context.Context, doc *document.File, all []needed) (*fsm.Machine, error) {
	for {
		m, err := Machine(ctx, b.to, doc)
		var about *ObjectError
		switch {
		case err == nil && !doc.Header.Describes(m):
			return nil, &ObjectError{"", fmt.Errorf("%w: the description differs from the state that the log leads to", ErrDamaged)}
		case err == nil:
			return m, nil
		case !errors.As(err, &about) || !errors.Is(err, ErrDamaged):
			return nil, err
		}
		again, failed := b.replace(ctx, all, about.Key)
		if !again {
			return nil, errors.Join(err, failed)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(n needed) bool { return n.named == about.Key || n.key == about.Key })
	}
}

// replace copies an object again, and those that it names, where the target has other bytes than the source.
func (b *backup) replace(ctx context.Context, all []needed, key string) (done bool, err error) {
	for _, n := range all {
		if n.named != key && n.key != key {
			continue
		}
		data, err := n.fetch(ctx, b.from)
		if err != nil {
			return false, err
		}
		if o, err := b.to.Get(ctx, n.key); err == nil && bytes.Equal(o.Data, data) {
			continue
		}
		if err := b.to.Delete(ctx, n.key); err != nil {
			return false, err
		}
		if err := Put(ctx, b.to, n.key, data); err != nil {
			return false, err
		}
		done = true
	}
	return done, nil
}

// prune removes those of all backups that are more than keep older than the newest one, and then the objects that only
// they need.
func (b *backup) prune(ctx context.Context, all []Backup, keep time.Duration) (removed int, err error) {
	if len(all) == 0 || keep <= 0 {
		return 0, nil
	}
	oldest := all[len(all)-1].At - keep.Milliseconds()
	var expired []string
	var kept []Backup
	for _, one := range all {
		if one.At < oldest {
			expired = append(expired, one.Key())
		} else {
			kept = append(kept, one)
		}
	}
	if expired == nil {
		return 0, nil
	}
	if removed, err = remove(ctx, b.to, expired); err == nil {
		err = b.collect(ctx, kept[0])
	}
	if err != nil {
		err = fmt.Errorf("remove old backups: %w", err)
	}
	return removed, err
}

// collect removes the objects that neither a backup nor a later one needs.
func (b *backup) collect(ctx context.Context, first Backup) error {
	r, err := readOriginal(ctx, b.to, first.Key())
	if err != nil {
		return err
	}
	from := r.doc.Archive.Checkpoint.LSN
	var keys []string
	err = each(ctx, b.to, first.Lineage, func(i storage.Info) bool {
		n, ok := parseName(i.Key)
		if ok && n.lineage == first.Lineage && (n.last.Compare(from) < 0 || n.last == from && !n.kind.ofCheckpoint()) {
			keys = append(keys, i.Key)
		}
		return true
	})
	if err != nil {
		return err
	}
	if _, err := remove(ctx, b.to, keys); err != nil {
		return err
	}
	return b.collectArtefacts(ctx, first, r.doc)
}

// idClocks bounds the difference between the clock in the id of an artefact and that of a backup.
const idClocks = 24 * time.Hour

// collectArtefacts removes the artefacts that were made before a backup and are not in its state: no later state has them.
func (b *backup) collectArtefacts(ctx context.Context, first Backup, doc *document.File) error {
	before := time.UnixMilli(first.At).Add(-idClocks)
	old := make(map[string]bool)
	err := b.to.List(ctx, artefacts.Prefix, func(i storage.Info) bool {
		id, err := uuid.Parse(strings.TrimPrefix(i.Key, artefacts.Prefix))
		if err == nil && id.Version() == 7 && time.Unix(id.Time().UnixTime()).Before(before) {
			old[i.Key] = true
		}
		return true
	})
	if err != nil || len(old) == 0 {
		return err
	}
	m, err := Machine(ctx, b.to, doc)
	if err != nil {
		return err
	}
	m.View().AllArtefacts(func(a *fsm.Artefact) bool {
		if a.ReleasedMs == 0 {
			delete(old, artefacts.Key(a))
		}
		return true
	})
	keys := make([]string, 0, len(old))
	for key := range old {
		keys = append(keys, key)
	}
	_, err = remove(ctx, b.to, keys)
	return err
}
