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
	"time"

	"osqueue/storage"
)

// privateDir holds all that is not an object. No key begins with a dot.
const privateDir = ".osqueue"

// Bucket is a directory. It is safe for concurrent use, together with any
// number of other Buckets on the same directory in any number of processes.
type Bucket struct {
	root   string
	chains string
	temp   string
	lock   string // see claim
	cards  string // of an older release

	mu       sync.Mutex
	unsynced map[string]bool // directories whose last fsync failed
	own      map[string]bool // see isOwn

	// at is called with the name of each step of a write, and fails it by
	// returning an error. Tests kill the process there; otherwise it is nil.
	at func(step string) error
	// sync makes the names in a directory durable. Tests let it fail.
	sync func(dir string) error
}

var _ storage.Bucket = (*Bucket)(nil)

// Open opens the bucket that file:///DIR stands for. See OpenDir.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	if u.Host != "" && u.Host != "localhost" || u.Opaque != "" || u.Path == "" {
		return nil, fmt.Errorf("bucket URL %q: a directory is named by its absolute path after three slashes: write file:///DIR", storage.RedactURL(u))
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("bucket URL %q: a directory bucket has no parameters (a ? or # in the path is written %%3F or %%23)", storage.RedactURL(u))
	}
	return OpenDir(ctx, filepath.FromSlash(u.Path))
}

// OpenDir opens the bucket in dir, which is made if it does not exist.
func OpenDir(_ context.Context, dir string) (*Bucket, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory bucket %q: %w", dir, err)
	}
	private := filepath.Join(root, privateDir)
	b := &Bucket{
		root:     root,
		chains:   filepath.Join(private, "chain"),
		temp:     filepath.Join(private, "tmp"),
		lock:     filepath.Join(private, "lock"),
		cards:    filepath.Join(private, "version"),
		unsynced: map[string]bool{},
		own:      map[string]bool{},
		sync:     syncDir,
	}
	if err := b.makePrivate(); err != nil {
		return nil, fmt.Errorf("open directory bucket: %w", err)
	}
	if err := errors.Join(syncDir(private), syncDir(root), removeStale(b.temp, time.Now())); err != nil {
		return nil, fmt.Errorf("open directory bucket: %w", err)
	}
	return b, nil
}

// Close implements storage.Bucket. A Bucket holds nothing between operations.
func (b *Bucket) Close() error { return nil }

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Object{}, err
	}
	data, sum, _, err := b.read(ctx, key)
	switch {
	case absent(err):
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.root, storage.ErrNotFound)
	case err != nil:
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.root, err)
	}
	return storage.Object{Data: data, Version: version(sum)}, nil
}

// version is the version of bytes with this hash.
func version(sum string) storage.Version { return storage.Version("sha256-" + sum) }

// read returns the object and the hash of its bytes, and the chain as it was
// before. An object that does not exist is an absent error.
func (b *Bucket) read(ctx context.Context, key string) ([]byte, string, chain, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", chain{}, err
	}
	if err := b.resync(filepath.Dir(b.path(key)), b.chainDir(key)); err != nil {
		return nil, "", chain{}, err
	}
	c, err := b.settle(key)
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		if data, sum, err := b.unpublished(key); err == nil {
			return data, sum, c, nil
		}
		err = nil // published since
	}
	if err != nil {
		return nil, "", c, err
	}
	data, sum, err := readObject(b.path(key))
	return data, sum, c, err
}

// readObject reads a file and hashes its bytes.
func readObject(path string) (data []byte, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() > storage.MaxObjectBytes {
		return nil, "", fmt.Errorf("%s has %d bytes; at most %d are allowed", path, info.Size(), storage.MaxObjectBytes)
	}
	buf := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err = buf.ReadFrom(io.LimitReader(f, storage.MaxObjectBytes)); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), hexSum(hash(buf.Bytes())), nil
}

func (b *Bucket) path(key string) string { return filepath.Join(b.root, filepath.FromSlash(key)) }

// chainDir is the directory of a key's chain. Its name begins with a dot, so
// that it is none of the directories that lead to the chains of longer keys.
func (b *Bucket) chainDir(key string) string {
	dir, name := filepath.Split(filepath.FromSlash(key))
	return filepath.Join(b.chains, dir, "."+name)
}
