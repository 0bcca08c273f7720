package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"osqueue/storage"
)

// bucketWithDocument is a bucket that a cluster uses.
func bucketWithDocument(t *testing.T) (b *Bucket, v storage.Version) {
	t.Helper()
	b = open(t, filepath.Join(t.TempDir(), "bucket"))
	w := b.PutIfAbsent(t.Context(), documentName, []byte("1"))
	if w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	return b, w.Version
}

// refuses checks that each operation fails and changes nothing in the directory.
func refuses(t *testing.T, b *Bucket, v storage.Version) {
	t.Helper()
	ctx := t.Context()
	before := namesIn(t, b.dir)
	_, get := b.Get(ctx, documentName)
	for what, err := range map[string]error{
		"get":           get,
		"list":          b.List(ctx, "", func(storage.Info) bool { return true }),
		"put if absent": b.PutIfAbsent(ctx, "log/1", nil).Err,
		"put if match":  b.PutIfMatch(ctx, documentName, []byte("2"), v).Err,
		"delete":        b.Delete(ctx, documentName),
	} {
		if !errors.Is(err, ErrElsewhere) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s = %v, want that the directory is another one", what, err)
		}
	}
	if after := namesIn(t, b.dir); after != before {
		t.Errorf("the directory holds %s, before %s", after, before)
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func replaceDocument(t *testing.T, b *Bucket, v storage.Version, data string) storage.Version {
	t.Helper()
	w := b.PutIfMatch(t.Context(), documentName, []byte(data), v)
	if w.Outcome != storage.Committed {
		t.Fatalf("write = %+v", w)
	}
	return w.Version
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Another directory at the path of a bucket is neither read nor written, as the one below a
// mount point is when the mount goes away. The bucket works again when it is back.
func TestAnotherDirectory(t *testing.T) {
	for name, put := range map[string]func(dir string) error{
		"none":         func(string) error { return nil },
		"a file":       func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"an empty one": func(dir string) error { return os.Mkdir(dir, 0o700) },
		"one with a document": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, documentName), []byte("1"), 0o600))
		},
		"another bucket": func(dir string) error {
			other, err := OpenDir(t.Context(), dir)
			return errors.Join(err, other.PutIfAbsent(t.Context(), documentName, []byte("1")).Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, v := bucketWithDocument(t)
			v = replaceDocument(t, b, v, "1") // the same bytes as those of the others
			away := b.dir + ".away"
			must(t, os.Rename(b.dir, away), put(b.dir))
			refuses(t, b, v)
			must(t, os.RemoveAll(b.dir), os.Rename(away, b.dir))
			replaceDocument(t, b, v, "2")
		})
	}
}

// A bucket that was emptied by hand is the same one, with the same marker.
func TestEmptiedBucket(t *testing.T) {
	b, v := bucketWithDocument(t)
	b.PutIfAbsent(t.Context(), "log/1", nil)
	replaceDocument(t, b, v, "2")
	id, _ := b.opened()
	other, err := OpenKnown(t.Context(), dirURL(b.dir))
	must(t, err)
	if _, err := other.Get(t.Context(), documentName); err != nil {
		t.Fatal(err)
	}
	for _, e := range must1(os.ReadDir(b.dir)) {
		must(t, os.RemoveAll(filepath.Join(b.dir, e.Name())))
	}
	for _, b := range []*Bucket{b, other} {
		if _, err := b.Get(t.Context(), documentName); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get = %v", err)
		}
	}
	w := other.PutIfAbsent(t.Context(), documentName, []byte("3"))
	if w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	replaceDocument(t, b, w.Version, "4")
	if data, err := os.ReadFile(filepath.Join(b.dir, storage.MarkerKey)); storage.MarkerID(data) != id || id == "" {
		t.Errorf("the marker is %q, %v; before %q", data, err, id)
	}
}

func must1[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// A copy of a bucket, made while a process uses it, has its marker, and so is it.
func TestCopyAtThePath(t *testing.T) {
	b, v := bucketWithDocument(t)
	v = replaceDocument(t, b, v, "2")
	must(t, os.Rename(b.dir, b.dir+".old"), os.CopyFS(b.dir, os.DirFS(b.dir+".old")))
	replaceDocument(t, b, v, "3")
}

// A node with state uses a directory only if it is a bucket. It makes nothing in another one,
// and needs no restart when the bucket is there.
func TestKnownBucket(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a document": func(dir string) error { return os.WriteFile(filepath.Join(dir, documentName), []byte("1"), 0o600) },
		"a marker": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, storage.MarkerKey), storage.NewMarker(), 0o600)
		},
		"a cut marker and a document": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, storage.MarkerKey), []byte("ABC"), 0o600),
				os.WriteFile(filepath.Join(dir, documentName), []byte("1"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bucket")
			b, err := OpenKnown(t.Context(), dirURL(dir))
			must(t, err)
			refuses(t, b, "")
			must(t, os.Mkdir(dir, 0o700))
			refuses(t, b, "")
			must(t, os.WriteFile(filepath.Join(dir, storage.MarkerKey), []byte("cut"), 0o600))
			refuses(t, b, "")
			must(t, os.Remove(filepath.Join(dir, storage.MarkerKey)), prepare(dir))
			if w := b.PutIfAbsent(t.Context(), "log/1", nil); w.Outcome != storage.Committed {
				t.Errorf("put = %+v", w)
			}
			data, err := os.ReadFile(filepath.Join(dir, storage.MarkerKey))
			if id, _ := b.opened(); err != nil || id == "" || storage.MarkerID(data) != id {
				t.Errorf("the marker is %q, %v; of the process %q", data, err, id)
			}
		})
	}
}

// An empty node does not mark a directory before a cluster begins its document there: the mount
// may be away on this machine only.
func TestNoMarkerWithoutADocument(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	empty := open(t, dir)
	if w := empty.PutIfAbsent(t.Context(), "log/1", nil); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	if _, err := os.Stat(filepath.Join(dir, storage.MarkerKey)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a marker: %v", err)
	}
	b, v := bucketWithDocument(t) // what the other machines see
	must(t, os.Rename(dir, dir+".bare"), os.Rename(b.dir, dir))
	replaceDocument(t, empty, v, "2")
	must(t, os.Rename(dir, b.dir), os.Rename(dir+".bare", dir))
	refuses(t, empty, v)
}

// Processes that begin a bucket at the same time agree on one marker.
func TestManyMark(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir := t.TempDir()
		all := make([]*Bucket, 6)
		for i := range all {
			all[i] = open(t, dir)
		}
		must(t, os.WriteFile(filepath.Join(dir, storage.MarkerKey), []byte("cut"), 0o600))
		var group sync.WaitGroup
		for _, b := range all {
			group.Go(func() { b.PutIfAbsent(t.Context(), documentName, nil) })
		}
		group.Wait()
		ids := make(map[string]bool)
		for _, b := range all {
			if _, err := b.Get(t.Context(), documentName); err != nil {
				t.Error(err)
			}
			id, _ := b.opened()
			ids[id] = true
		}
		if len(ids) != 1 || ids[""] {
			t.Fatalf("the processes know the markers %v", ids)
		}
	}
}

// Nothing outside of a bucket is read or written through a link in it.
func TestLinksOutOfABucket(t *testing.T) {
	ctx, b, outside := t.Context(), open(t, t.TempDir()), t.TempDir()
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600), os.Mkdir(filepath.Join(b.dir, "inbox"), 0o700),
		os.Symlink(secret, filepath.Join(b.dir, "inbox", "a.json")),
		os.Symlink(outside, filepath.Join(b.dir, "inbox-rejected")),
		os.WriteFile(filepath.Join(b.dir, "inbox", "b.json"), nil, 0o600))
	for _, key := range []string{"inbox/a.json", "inbox-rejected/secret"} {
		if o, err := b.Get(ctx, key); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get %s = %q, %v", key, o.Data, err)
		}
	}
	var keys []string
	err := b.List(ctx, "inbox", func(i storage.Info) bool { keys = append(keys, i.Key); return true })
	if err != nil || strings.Join(keys, " ") != "inbox/b.json" {
		t.Errorf("list = %v, %v", keys, err)
	}
	if w := b.PutIfAbsent(ctx, "inbox-rejected/new", nil); w.Outcome == storage.Committed {
		t.Error("an object was written outside")
	}
	if err := b.Delete(ctx, "inbox-rejected/secret"); err == nil {
		t.Error("a file was deleted outside")
	}
	if got := namesIn(t, outside); got != outside+" "+secret {
		t.Errorf("outside there is %s", got)
	}
}
