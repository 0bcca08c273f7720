package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"osqueue/storage"
)

// dirBucket reads a directory bucket, or a copy of one. It is safe for concurrent use.
type dirBucket struct{ root string }

var errReadOnly = errors.New("the bucket is open for reading only")

// Get implements storage.Bucket.
func (d dirBucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := errors.Join(ctx.Err(), storage.ValidateKey(key)); err != nil {
		return storage.Object{}, err
	}
	data, err := d.readFile(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, d.root, storage.ErrNotFound)
	}
	return storage.Object{Data: data}, err
}

// readFile reads a regular file in the directory, and follows no link to it.
func (d dirBucket) readFile(path string) ([]byte, error) {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	info, err := root.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in %s is not a regular file", path, d.root)
	}
	if err != nil {
		return nil, err
	}
	return root.ReadFile(path)
}

// List implements storage.Bucket.
func (d dirBucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	found, err := d.walk(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list %q in %s: %w", prefix, d.root, err)
	}
	slices.SortFunc(found, func(a, b storage.Info) int { return strings.Compare(a.Key, b.Key) })
	for _, i := range found {
		if !fn(i) {
			return nil
		}
	}
	return nil
}

// walk returns the objects below the prefix. It skips objects that are removed during
// the walk, and files whose names are not valid keys.
func (d dirBucket) walk(ctx context.Context, prefix string) (found []storage.Info, err error) {
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	start := filepath.Join(d.root, filepath.FromSlash(folder))
	err = filepath.WalkDir(start, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir() && path != start && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		}
		rel, err := filepath.Rel(d.root, path)
		key := filepath.ToSlash(rel)
		if err != nil || !e.Type().IsRegular() || !strings.HasPrefix(key, prefix) || storage.ValidateKey(key) != nil {
			return err
		}
		info, err := e.Info()
		switch {
		case err == nil:
			found = append(found, storage.Info{Key: key, Size: info.Size()})
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed during the walk
		}
		return err
	})
	return found, err
}

// PutIfAbsent implements storage.Bucket.
func (dirBucket) PutIfAbsent(context.Context, string, []byte) storage.Write {
	return storage.Write{Err: errReadOnly}
}

// PutIfMatch implements storage.Bucket.
func (dirBucket) PutIfMatch(context.Context, string, []byte, storage.Version) storage.Write {
	return storage.Write{Err: errReadOnly}
}

// Delete implements storage.Bucket.
func (dirBucket) Delete(context.Context, string) error { return errReadOnly }

// Close implements storage.Bucket.
func (dirBucket) Close() error { return nil }
