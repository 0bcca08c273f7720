package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"osqueue/storage"
)

// What is not an object, relative to the bucket's directory. No key begins with a dot.
const (
	privateDir = ".osqueue"
	chainsDir  = privateDir + "/chain"
	tempDir    = privateDir + "/tmp"
)

// Bucket is a directory. It is safe for concurrent use, together with any
// number of other Buckets on the same directory in any number of processes.
type Bucket struct {
	dir      string
	readOnly bool // see OpenReadOnly

	mu       sync.Mutex
	id       string          // content of the marker; "": no marker was seen yet
	place    *place          // the directory when it was last the bucket; nil: it was not yet
	prepared bool            // see prepare
	unsynced map[string]bool // directories whose last fsync failed

	// at is called with the name of each step of a write, and fails it by
	// returning an error. Tests kill the process there; otherwise it is nil.
	at func(step string) error
	// sync makes the names in a directory durable. Tests let it fail.
	sync func(root *os.Root, dir string) error
}

var (
	_ storage.Bucket   = (*Bucket)(nil)
	_ storage.Streamer = (*Bucket)(nil)
)

// Open opens the bucket that file:///DIR stands for. See OpenDir.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	dir, err := directory(u)
	if err != nil {
		return nil, err
	}
	return OpenDir(ctx, dir)
}

// OpenKnown is Open for a node that has state, and so has used the bucket before. A directory that has
// neither a marker nor a document is not that bucket: every call fails until it has one of them.
// OpenKnown itself neither reads nor writes.
func OpenKnown(_ context.Context, u *url.URL) (*Bucket, error) {
	dir, err := directory(u)
	if err != nil {
		return nil, err
	}
	return newBucket(dir)
}

// OpenReadOnly opens a bucket, or a copy of one, for a reader that changes nothing in the directory, as
// on a disk that is mounted for reading. A directory that does not exist has no objects. Writes fail.
func OpenReadOnly(ctx context.Context, u *url.URL) (*Bucket, error) {
	b, err := OpenKnown(ctx, u)
	if err == nil {
		b.readOnly = true
	}
	return b, err
}

// errReadOnly is the answer to a write of a bucket of OpenReadOnly.
var errReadOnly = errors.New("the bucket is open for reading only")

func directory(u *url.URL) (string, error) {
	if u.Host != "" && u.Host != "localhost" || u.Opaque != "" || u.Path == "" {
		return "", fmt.Errorf("bucket URL %q: a directory is named by its absolute path after three slashes: write file:///DIR", storage.RedactURL(u))
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("bucket URL %q: a directory bucket has no parameters (a ? or # in the path is written %%3F or %%23)", storage.RedactURL(u))
	}
	return filepath.FromSlash(u.Path), nil
}

// OpenDir opens the bucket in dir, which is made if it does not exist.
func OpenDir(_ context.Context, dir string) (*Bucket, error) {
	b, err := newBucket(dir)
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(b.dir, dirMode); err == nil {
		b.prepared = true
		err = b.atRoot(func(v *visit) (err error) { b.place, err = v.here(); return err })
	}
	if err == nil {
		err = b.visit((*visit).prepare)
	}
	if err != nil {
		return nil, fmt.Errorf("open directory bucket: %w", err)
	}
	return b, nil
}

func newBucket(dir string) (*Bucket, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory bucket: %w", err)
	}
	return &Bucket{dir: root, unsynced: map[string]bool{}, sync: syncDir}, nil
}

// Close implements storage.Bucket. A Bucket holds nothing between operations, so that its file
// system can be unmounted.
func (b *Bucket) Close() error { return nil }

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (o storage.Object, err error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Object{}, err
	}
	err = b.visit(func(v *visit) error {
		data, sum, _, err := v.read(ctx, key)
		o = storage.Object{Data: data, Version: version(sum)}
		return ofReader(err)
	})
	if err != nil {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.dir, err)
	}
	return o, nil
}

// version is the version of bytes with this hash.
func version(sum string) storage.Version { return storage.Version("sha256-" + sum) }

// visit is one operation on the directory. All its paths are relative to the directory that was
// checked at its beginning, and lead to no other one, whatever is mounted or moved meanwhile.
type visit struct {
	*Bucket
	root *os.Root
}

// read returns the object and the hash of its bytes, and the chain as it was
// before. An object that does not exist is an absent error.
func (v *visit) read(ctx context.Context, key string) ([]byte, string, chain, error) {
	at, c, err := v.locate(ctx, key)
	if err != nil {
		return nil, "", c, err
	}
	data, sum, err := v.readObject(at)
	if err != nil && at != path(key) { // published since
		data, sum, err = v.readObject(path(key))
	}
	return data, sum, c, err
}

// locate returns the path of the file that has the object's bytes, and the chain as it was before. There may
// be no such file.
func (v *visit) locate(ctx context.Context, key string) (string, chain, error) {
	if err := ctx.Err(); err != nil {
		return "", chain{}, err
	}
	if err := v.resync(filepath.Dir(path(key)), chainDir(key)); err != nil {
		return "", chain{}, err
	}
	c, err := v.settle(key)
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		if staged, err := v.unpublished(key); err == nil {
			return staged, c, nil
		}
		err = nil // published since
	}
	return path(key), c, err
}

// open opens the object for reading. An object that does not exist is an absent error.
func (v *visit) open(ctx context.Context, key string) (*os.File, int64, error) {
	at, _, err := v.locate(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	f, size, err := v.openObject(at)
	if err != nil && at != path(key) { // published since
		f, size, err = v.openObject(path(key))
	}
	return f, size, err
}

// ofReader returns the error for a caller who reads.
func ofReader(err error) error {
	if absent(err) {
		return storage.ErrNotFound
	}
	return err
}

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, err error) {
	if err := storage.ValidateRange(key, offset, length); err != nil {
		return nil, err
	}
	err = b.visit(func(v *visit) error {
		f, size, err := v.open(ctx, key)
		if err == nil {
			end := min(offset+length, size)
			body = &part{ctx: ctx, f: f, at: min(offset, end), end: end}
		}
		return ofReader(err)
	})
	if err != nil {
		return nil, fmt.Errorf("get %q from %s: %w", key, b.dir, err)
	}
	return body, nil
}

// part reads a part of an object.
type part struct {
	ctx     context.Context
	f       *os.File
	at, end int64
}

// Read implements io.Reader.
func (p *part) Read(into []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if p.at == p.end {
		return 0, io.EOF
	}
	n, err := p.f.ReadAt(into[:min(int64(len(into)), p.end-p.at)], p.at)
	p.at += int64(n)
	switch {
	case n > 0:
		err = nil // the next read returns it
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // it was cut since it was opened
	}
	return n, err
}

// Close implements io.Closer.
func (p *part) Close() error { return p.f.Close() }

// Stat implements storage.Streamer. The hash of an object is in no place other than its bytes.
func (b *Bucket) Stat(ctx context.Context, key string) (s storage.Stat, err error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Stat{}, err
	}
	err = b.visit(func(v *visit) error {
		f, size, err := v.open(ctx, key)
		if err != nil {
			return ofReader(err)
		}
		s.Size = size
		return f.Close()
	})
	if err != nil {
		return storage.Stat{}, fmt.Errorf("stat %q in %s: %w", key, b.dir, err)
	}
	return s, nil
}

// readObject reads a file and hashes its bytes.
func (v *visit) readObject(path string) (data []byte, sum string, err error) {
	f, size, err := v.openObject(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if size > storage.MaxObjectBytes {
		return nil, "", fmt.Errorf("%s has %d bytes; at most %d are allowed", path, size, storage.MaxObjectBytes)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err = buf.ReadFrom(io.LimitReader(f, storage.MaxObjectBytes)); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), hexSum(hash(buf.Bytes())), nil
}

// openAttempts bounds how often a file is opened again that was replaced meanwhile.
const openAttempts = 100

// openObject opens a regular file, and nothing else that has its name: a symbolic link in the
// inbox must not make a node read what its author cannot.
func (v *visit) openObject(path string) (*os.File, int64, error) {
	for range openAttempts {
		named, err := v.root.Lstat(path)
		switch {
		case err != nil:
			return nil, 0, err
		case named.IsDir():
			return nil, 0, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
		case !named.Mode().IsRegular():
			return nil, 0, fmt.Errorf("%s is not a regular file", path)
		}
		f, err := v.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err == nil && os.SameFile(named, info) {
			return f, info.Size(), nil
		}
		f.Close() // another one by now
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("%s is replaced all the time", path)
}

// path is the file of a key.
func path(key string) string { return filepath.FromSlash(key) }

// chainDir is the directory of a key's chain. Its name begins with a dot, so
// that it is none of the directories that lead to the chains of longer keys.
func chainDir(key string) string {
	dir, name := filepath.Split(path(key))
	return filepath.Join(chainsDir, dir, "."+name)
}

// List implements storage.Bucket. It walks only the directories that can hold
// keys with the prefix. Files whose names are no keys (an editor's backups)
// are left out.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	err := b.visit(func(v *visit) error {
		w := walk{visit: v, ctx: ctx, prefix: prefix, fn: fn}
		return w.dir(".", "")
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("list %q in %s: %w", prefix, b.dir, err)
	}
	return nil
}

type walk struct {
	*visit
	ctx     context.Context
	prefix  string
	fn      func(storage.Info) bool
	stopped bool
}

// dir visits the keys that begin with base, whose files are in path.
func (w *walk) dir(path, base string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := w.readDir(path)
	if absent(err) {
		return nil // removed since its parent was read
	}
	if err != nil {
		return err
	}
	// Keys sort by their bytes, in which a directory's name is followed by a
	// slash: "a-b" comes before "a/x", though "a" comes before "a-b".
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		if err := w.entry(path, base, e); err != nil || w.stopped {
			return err
		}
	}
	return nil
}

func (w *walk) entry(path, base string, e fs.DirEntry) error {
	key := base + sortName(e)
	switch {
	case !nameable(strings.TrimSuffix(key, "/")):
		return nil
	case e.IsDir():
		if strings.HasPrefix(key, w.prefix) || strings.HasPrefix(w.prefix, key) {
			return w.dir(filepath.Join(path, e.Name()), key)
		}
		return nil
	case !e.Type().IsRegular() || !strings.HasPrefix(key, w.prefix):
		return nil
	}
	info, err := w.root.Lstat(filepath.Join(path, e.Name()))
	if absent(err) {
		return nil // deleted during the listing
	}
	if err != nil {
		return err
	}
	w.stopped = info.Mode().IsRegular() && !w.fn(storage.Info{Key: key, Size: info.Size()})
	return nil
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// nameable reports whether an object can have that key. Files of others may
// have names that none can.
func nameable(key string) bool { return storage.ValidateKey(key) == nil }
