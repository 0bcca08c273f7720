package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/storage"
)

// TestFileIsTheObject checks that people and tools see the bytes and no more.
func TestFileIsTheObject(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	const doc = `{"broker":null,"jobs":[]}`
	v := b.PutIfAbsent(ctx, "queue.json", []byte("{}")).Version
	b.PutIfMatch(ctx, "queue.json", []byte(doc), v)
	data, err := os.ReadFile(filepath.Join(b.dir, "queue.json"))
	if err != nil || string(data) != doc {
		t.Fatalf("the file holds %q, %v", data, err)
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil || len(entries) != 3 || entries[0].Name() != privateDir || entries[1].Name() != storage.MarkerKey {
		t.Fatalf("the directory holds %v, %v", entries, err)
	}
}

// edits are ways in which people and tools change a file.
var edits = map[string]func(path string, data []byte) error{
	"overwrite": func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) },
	"rename": func(path string, data []byte) error {
		if err := os.WriteFile(path+"~", data, 0o600); err != nil {
			return err
		}
		return os.Rename(path+"~", path)
	},
	"remove and write": func(path string, data []byte) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o600)
	},
	"overwrite, old times": func(path string, data []byte) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, info.ModTime(), info.ModTime()))
	},
}

func TestEditsAreNewVersions(t *testing.T) {
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v1 := b.PutIfAbsent(ctx, "k", []byte("ours 1")).Version
			v2 := b.PutIfMatch(ctx, "k", []byte("ours 2"), v1).Version
			if err := edit(b.path("k"), []byte("edited")); err != nil {
				t.Fatal(err)
			}
			if w := b.PutIfMatch(ctx, "k", []byte("lost"), v2); w.Outcome != storage.Conflict {
				t.Fatalf("a write over an edit that it has not seen: %+v", w)
			}
			o, err := b.Get(ctx, "k")
			if err != nil || string(o.Data) != "edited" || o.Version == v1 || o.Version == v2 {
				t.Fatalf("after the edit: %q %q, %v", o.Data, o.Version, err)
			}
			again, err := b.Get(ctx, "k")
			if err != nil || again.Version != o.Version {
				t.Fatalf("the version of an edit is not stable: %q, then %q, %v", o.Version, again.Version, err)
			}
			goesOn(t, b)
		})
	}
}

func TestForeignFile(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	if err := os.WriteFile(b.path("k"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := b.PutIfAbsent(ctx, "k", []byte("x")); w.Outcome != storage.Conflict {
		t.Fatalf("created over a foreign file: %+v", w)
	}
	holds(t, b, "{}")
	goesOn(t, b)
}

// TestCopiedBucket checks that a copy of the directory is a bucket with the
// same versions.
func TestCopiedBucket(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "a/b", []byte("1")).Version
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	o, err := open(t, copied).Get(ctx, "a/b")
	if err != nil || string(o.Data) != "1" || o.Version != v {
		t.Fatalf("get from the copy: %+v, %v, want version %q", o, err, v)
	}
}

// TestReadOnly checks that a reader sees what the driver does, also a write whose writer has died before
// it was published, and changes nothing.
func TestReadOnly(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
	for _, key := range []string{"queue.json", "a/x", "a-b", "a/b/c.seg", "checkpoint/l/0-0~1-1~5~ID/manifest.json", "log/l/s"} {
		if w := b.PutIfAbsent(ctx, key, []byte("of "+key)); w.Outcome != storage.Committed {
			t.Fatalf("%s: %+v", key, w)
		}
	}
	if w := b.PutIfMatch(ctx, "k", []byte("older"), v); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	die(t, stepTaken, b.dir)
	before := tree(t, b.dir)
	r, err := OpenReadOnly(ctx, dirURL(b.dir))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"k": "new", "a/x": "of a/x"} {
		if o, err := r.Get(ctx, key); err != nil || string(o.Data) != want {
			t.Errorf("%s: %q, %v", key, o.Data, err)
		}
	}
	if _, err := r.Get(ctx, "a/y"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an object that is not there: %v", err)
	}
	put, replaced := r.PutIfAbsent(ctx, "new", nil), r.PutIfMatch(ctx, "k", nil, v)
	for _, err := range []error{put.Err, replaced.Err, r.Delete(ctx, "k")} {
		if !errors.Is(err, errReadOnly) {
			t.Errorf("a write: %v", err)
		}
	}
	for _, prefix := range []string{"", "a", "a/", "a/b/", "checkpoint/l/", "log/l/s", "nothing/", "q"} {
		if got, want := listed(t, r, prefix), listed(t, b, prefix); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", prefix, got, want)
		}
	}
	if after := tree(t, b.dir); after != before {
		t.Errorf("the directory has changed from\n%s to\n%s", before, after)
	}
	holds(t, b, "new")
	none, err := OpenReadOnly(ctx, dirURL(filepath.Join(b.dir, "none")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Get(ctx, "k"); !errors.Is(err, storage.ErrNotFound) || len(listed(t, none, "")) > 0 {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func listed(t *testing.T, b *Bucket, prefix string) (all []storage.Info) {
	t.Helper()
	if err := b.List(t.Context(), prefix, func(i storage.Info) bool { all = append(all, i); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// tree is what a directory has, with the content of files.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		data, _ := os.ReadFile(path) // a directory and a link have none
		fmt.Fprintf(&all, "%s %s %s\n", path, e.Type(), data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestChainWithoutLinks checks that a bucket can be written whose chains were copied without
// their symbolic links, while a write was under way or with files in the place of the links.
func TestChainWithoutLinks(t *testing.T) {
	for _, with := range []string{"staged bytes", "files"} {
		t.Run(with, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
			b.PutIfMatch(ctx, "k", []byte("new"), v)
			die(t, stepStaged, b.dir)
			dir := filepath.Join(b.dir, chainDir("k"))
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Type()&os.ModeSymlink == 0 {
					continue
				}
				err := os.Remove(filepath.Join(dir, e.Name()))
				if with == "files" {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, e.Name()), nil, 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			holds(t, b, "new")
			goesOn(t, b)
			goesOn(t, open(t, b.dir))
		})
	}
}

func TestListLeavesOutWhatIsNoObject(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	b.PutIfAbsent(ctx, "queue.json", nil)
	for _, name := range []string{".queue.json.swp", "with space", "ä"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	var keys []string
	err := b.List(ctx, "", func(i storage.Info) bool { keys = append(keys, i.Key); return true })
	if err != nil || !slices.Equal(keys, []string{storage.MarkerKey, "queue.json"}) {
		t.Fatalf("list = %q, %v", keys, err)
	}
}

// TestDeleteLeavesNothing checks that neither chains nor directories pile up.
func TestDeleteLeavesNothing(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	b.PutIfAbsent(ctx, "a/b/c", nil)
	v := b.PutIfAbsent(ctx, "a/d", nil).Version
	b.PutIfMatch(ctx, "a/d", []byte("x"), v)
	for _, key := range []string{"a/b/c", "a/d"} {
		if err := b.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{b.dir, filepath.Join(b.dir, chainsDir)} {
		entries, err := os.ReadDir(dir)
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == privateDir })
		if err != nil || len(entries) != 0 {
			t.Errorf("%s still holds %v, %v", dir, entries, err)
		}
	}
}

func TestOpenRemovesWhatKilledWritersLeft(t *testing.T) {
	b := open(t, t.TempDir())
	old, fresh := filepath.Join(b.dir, tempDir, "old"), filepath.Join(b.dir, tempDir, "fresh")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * stale)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	open(t, b.dir)
	_, err1 := os.Stat(old)
	_, err2 := os.Stat(fresh)
	if !errors.Is(err1, os.ErrNotExist) || err2 != nil {
		t.Fatalf("old: %v, fresh: %v", err1, err2)
	}
}

func TestKeyBelowAnObject(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	b.PutIfAbsent(ctx, "queue.json", []byte("{}"))
	b.PutIfAbsent(ctx, "dir/k", []byte("{}"))
	for _, key := range []string{"queue.json/old", "dir"} {
		if w := b.PutIfAbsent(ctx, key, nil); w.Outcome != storage.Unknown || w.Err == nil {
			t.Errorf("put %q = %+v, want an error", key, w)
		}
		if _, err := b.Get(ctx, key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get %q = %v, want ErrNotFound", key, err)
		}
	}
	if o, err := b.Get(ctx, "queue.json"); err != nil || string(o.Data) != "{}" {
		t.Errorf("the object above: %q, %v", o.Data, err)
	}
}

func TestUnreadableIsAnErrorAndNotAbsent(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	if err := os.Symlink("loop", b.path("loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(ctx, "loop"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("get of what cannot be opened = %v", err)
	}
	if w := b.PutIfAbsent(ctx, "loop", nil); w.Outcome != storage.Unknown {
		t.Fatalf("put over what cannot be opened = %+v", w)
	}
}
