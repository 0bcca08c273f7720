package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"osqueue/storage"
)

// documentName is the object whose presence says that a directory without a marker is a bucket.
const documentName = "queue.json"

// ErrElsewhere is wrapped by the error of every call while the directory at the bucket's path
// is not the one that was opened.
var ErrElsewhere = errors.New("the directory of the bucket is another one: is it mounted?")

// visit calls do with the bucket's directory, if that is the one that was opened. A reader that changes
// nothing takes any directory.
func (b *Bucket) visit(do func(*visit) error) error {
	return b.atRoot(func(v *visit) error {
		if !b.readOnly {
			if err := v.identify(); err != nil {
				return err
			}
		}
		return do(v)
	})
}

// atRoot calls do with the directory at the bucket's path, whichever it is.
func (b *Bucket) atRoot(do func(*visit) error) error {
	root, err := os.OpenRoot(b.dir)
	if b.readOnly && errors.Is(err, fs.ErrNotExist) {
		return storage.ErrNotFound
	}
	if err != nil { // not wrapped as fs.ErrNotExist: it is no object that is missing
		return fmt.Errorf("%w (%s)", ErrElsewhere, err.Error())
	}
	defer func() { _ = root.Close() }() // a handle, with nothing to write
	return do(&visit{Bucket: b, root: root})
}

// place identifies a directory for as long as the machine runs. A device or an inode number
// alone does not: the next file system that is mounted can get the same ones.
type place struct {
	info  os.FileInfo
	birth [2]int64 // of the directory; zero: unknown
	mount uint64   // of its file system; 0: unknown
}

func (p *place) is(q *place) bool {
	return p != nil && os.SameFile(p.info, q.info) && p.birth == q.birth && p.mount == q.mount
}

// here returns the place of the directory.
func (v *visit) here() (*place, error) {
	d, err := v.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	p := &place{}
	if p.info, err = d.Stat(); err != nil {
		return nil, err
	}
	p.birth, p.mount = birthAndMount(d)
	return p, nil
}

// identify returns an error if the directory is not the bucket. It makes the marker again that
// was removed by hand, together with everything else in the same directory, and makes the marker
// of a bucket that was copied without it.
func (v *visit) identify() error {
	here, err := v.here()
	if err != nil {
		return err
	}
	found, err := v.marker()
	if err != nil {
		return err
	}
	known, at := v.opened()
	same := at.is(here)
	switch {
	case found != "" && (known == "" || found == known || same):
	case found != "":
		return fmt.Errorf("%w (%s has the marker %s, and the bucket %s)", ErrElsewhere, v.dir, found, known)
	case same && known != "":
		found = v.mark(known)
	case known == "" && v.hasDocument():
		found = v.mark(rand.Text())
	case !same:
		return fmt.Errorf("%w (%s has neither %s nor %s. If it is the bucket, run: osqueue bucket adopt file://%s)",
			ErrElsewhere, v.dir, documentName, storage.MarkerKey, filepath.ToSlash(v.dir))
	}
	if v.note(found, here) {
		_ = v.prepare() // a later write does it again, or fails
	}
	return nil
}

func (b *Bucket) opened() (id string, at *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id, b.place
}

// note remembers that the bucket is there, and reports whether it was not prepared before.
func (b *Bucket) note(id string, at *place) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.place = at
	if id != "" {
		b.id = id
	}
	first, b.prepared = !b.prepared, true
	return first
}

// marker returns the id in the marker; "" if there is none, or it is cut.
func (v *visit) marker() (string, error) {
	f, _, err := v.openObject(storage.MarkerKey)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return "", err
	}
	return storage.MarkerID(data), nil
}

// mark makes the marker, in the place of one that is cut, and returns the id in it. Of several
// processes that do so at once one wins. If the directory cannot be written, mark returns "":
// a reader does not need the marker.
func (v *visit) mark(id string) string {
	staged := filepath.Join(tempDir, rand.Text())
	if err := v.stage(staged, strings.NewReader(id+"\n")); err != nil {
		return ""
	}
	defer func() { _ = v.root.Remove(staged) }()
	for range 2 {
		err := v.root.Link(staged, storage.MarkerKey)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return ""
		}
		if found, err := v.marker(); err != nil || found != "" {
			_ = v.syncDir(".") // remembered if it fails
			return found
		}
		_ = v.root.Remove(storage.MarkerKey) // it is cut
	}
	return ""
}

// hasDocument reports whether the directory has a document.
func (v *visit) hasDocument() bool {
	info, err := v.root.Lstat(documentName)
	return err == nil && info.Mode().IsRegular()
}

// begin makes the marker of a bucket that gets its first document.
func (v *visit) begin() error {
	id, at := v.opened()
	if id != "" {
		return nil
	}
	if id = v.mark(rand.Text()); id == "" {
		return fmt.Errorf("cannot make the marker %s", storage.MarkerKey)
	}
	v.note(id, at)
	return nil
}
