package file

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"osqueue/storage"
)

// List implements storage.Bucket. It walks only the directories that can hold
// keys with the prefix. Files whose names are no keys (an editor's backups)
// are left out.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	err := b.visit(func(v *visit) error {
		w := walk{visit: v, ctx: ctx, prefix: prefix, fn: fn}
		return w.dir(".", "")
	})
	if err != nil {
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
