package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"osqueue/storage"
)

// privateDir holds all that is not an object. No key begins with a dot.
const privateDir = ".osqueue"

// Bucket is a directory. It is safe for concurrent use, together with any
// number of other Buckets on the same directory in any number of processes.
type Bucket struct {
	root     string
	versions string
	temp     string
	locks    *locks
	// at is called with the name of each step of a write, and fails it by
	// returning an error. Tests kill the process there; otherwise it is nil.
	at func(step string) error
}

var _ storage.Bucket = (*Bucket)(nil)

// Open opens the bucket that file:///DIR stands for. See OpenDir.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	if u.Host != "" && u.Host != "localhost" || u.Opaque != "" || u.Path == "" {
		return nil, fmt.Errorf("bucket URL %q: a directory is named by its absolute path after three slashes: write file:///DIR", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("bucket URL %q: a directory bucket has no parameters (a ? or # in the path is written %%3F or %%23)", u.Redacted())
	}
	return OpenDir(ctx, filepath.FromSlash(u.Path))
}

// OpenDir opens the bucket in dir, which is made if it does not exist.
func OpenDir(_ context.Context, dir string) (*Bucket, error) {
	if supported != nil {
		return nil, supported
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory bucket %q: %w", dir, err)
	}
	private := filepath.Join(root, privateDir)
	b := &Bucket{
		root:     root,
		versions: filepath.Join(private, "version"),
		temp:     filepath.Join(private, "tmp"),
		locks:    newLocks(filepath.Join(private, "lock")),
	}
	for _, d := range []string{b.versions, b.temp, b.locks.dir} {
		if err := os.MkdirAll(d, dirMode); err != nil {
			return nil, fmt.Errorf("open directory bucket: %w", err)
		}
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
	s, err := b.read(ctx, key)
	if err != nil {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.root, err)
	}
	if !s.exists {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.root, storage.ErrNotFound)
	}
	return storage.Object{Data: s.data, Version: s.version}, nil
}

// state is what is known of an object at one moment.
type state struct {
	exists  bool
	data    []byte
	sum     [sha256.Size]byte
	card    card
	version storage.Version
}

// read returns the state of key without a lock; doc.go says why that is exact.
func (b *Bucket) read(ctx context.Context, key string) (state, error) {
	var before []byte
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return state{}, err
		}
		s, after, err := b.readOnce(key)
		if err != nil || !s.exists {
			return s, err
		}
		if known, ok := s.card.find(s.sum); ok {
			s.version = known.version()
			return s, nil
		}
		if !first && bytes.Equal(before, after) {
			s.version = foreignVersion(s.sum)
			return s, nil
		}
		before = after
	}
}

// readOnce reads the object first and its card second.
func (b *Bucket) readOnce(key string) (state, []byte, error) {
	data, err := readObject(b.path(key))
	if absent(err) {
		return state{}, nil, nil
	}
	if err != nil {
		return state{}, nil, err
	}
	s := state{exists: true, data: data, sum: hash(data)}
	raw, err := os.ReadFile(b.cardPath(key))
	if err != nil && !absent(err) {
		return state{}, nil, err
	}
	// A damaged card names nothing; the bytes then count as foreign, which is
	// safe, and the next write puts the card right.
	s.card, _ = decodeCard(raw)
	return s, raw, nil
}

func readObject(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > storage.MaxObjectBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", path, info.Size(), storage.MaxObjectBytes)
	}
	data := make([]byte, 0, info.Size()+bytes.MinRead)
	buf := bytes.NewBuffer(data)
	_, err = buf.ReadFrom(io.LimitReader(f, storage.MaxObjectBytes))
	return buf.Bytes(), err
}

func (b *Bucket) path(key string) string { return filepath.Join(b.root, filepath.FromSlash(key)) }
func (b *Bucket) cardPath(key string) string {
	return filepath.Join(b.versions, filepath.FromSlash(key))
}
