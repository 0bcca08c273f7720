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
	dir string

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

var _ storage.Bucket = (*Bucket)(nil)

// Open opens the bucket that file:///DIR stands for. See OpenDir.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	dir, err := directory(u)
	if err != nil {
		return nil, err
	}
	return OpenDir(ctx, dir)
}

// OpenKnown is Open for a node that has state. See OpenKnownDir.
func OpenKnown(_ context.Context, u *url.URL) (*Bucket, error) {
	dir, err := directory(u)
	if err != nil {
		return nil, err
	}
	return OpenKnownDir(dir)
}

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
	if err == nil {
		err = os.MkdirAll(b.dir, dirMode)
	}
	if err == nil {
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

// OpenKnownDir opens the bucket in dir for a node that has state, and so has used it before.
// A directory that has neither a marker nor a document is not that bucket: every call fails
// until it has one of them. OpenKnownDir itself neither reads nor writes.
func OpenKnownDir(dir string) (*Bucket, error) {
	b, err := newBucket(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory bucket: %w", err)
	}
	return b, nil
}

func newBucket(dir string) (*Bucket, error) {
	root, err := filepath.Abs(dir)
	return &Bucket{dir: root, unsynced: map[string]bool{}, sync: syncDir}, err
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
		if absent(err) {
			return storage.ErrNotFound
		}
		return err
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
	if err := ctx.Err(); err != nil {
		return nil, "", chain{}, err
	}
	if err := v.resync(filepath.Dir(path(key)), chainDir(key)); err != nil {
		return nil, "", chain{}, err
	}
	c, err := v.settle(key)
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		if data, sum, err := v.unpublished(key); err == nil {
			return data, sum, c, nil
		}
		err = nil // published since
	}
	if err != nil {
		return nil, "", c, err
	}
	data, sum, err := v.readObject(path(key))
	return data, sum, c, err
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
