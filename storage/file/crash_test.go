package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"osqueue/storage"
)

// dieEnv asks a child process to begin a write and to die at one step of it.
const dieEnv = "OSQUEUE_FILE_TEST_DIE"

var (
	createSteps  = []string{stepStaged, stepTaken, stepSynced}
	replaceSteps = []string{stepStaged, stepTaken, stepSynced, stepPublished, stepDone}
)

// committedAt reports whether a write that ended at step has been applied.
func committedAt(step string) bool { return step != stepStaged }

// dieIfAsked is called by TestMain in every process. In a child, it writes
// "new" under key "k" (by PutIfMatch, or by PutIfAbsent if there is no such
// object), and kills its own process at the step.
func dieIfAsked() {
	step, dir, ok := strings.Cut(os.Getenv(dieEnv), " ")
	if !ok {
		return
	}
	b, err := OpenDir(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b.at = func(s string) error {
		if s == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	o, err := b.Get(context.Background(), "k")
	switch {
	case step == stepStreaming:
		b.PutStream(context.Background(), "k", io.MultiReader(strings.NewReader("new"), killer{}), storage.Content{Size: 6})
	case errors.Is(err, storage.ErrNotFound):
		b.PutIfAbsent(context.Background(), "k", []byte("new"))
	default:
		b.PutIfMatch(context.Background(), "k", []byte("new"), o.Version)
	}
	os.Exit(1) // not reached
}

// stepStreaming is the middle of a stream.
const stepStreaming = "streaming"

// killer is a stream whose reader dies.
type killer struct{}

func (killer) Read([]byte) (int, error) {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// A writer that is killed in the middle of a stream leaves a file that is no object, and that is removed later.
func TestKilledInAStream(t *testing.T) {
	b := open(t, t.TempDir())
	die(t, stepStreaming, b.dir)
	if s, err := b.Stat(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("%+v, %v", s, err)
	}
	tmp := filepath.Join(b.dir, tempDir)
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 1 {
		t.Fatalf("%d files are left, %v", len(left), err)
	}
	old := time.Now().Add(-2 * stale)
	if err := os.Chtimes(filepath.Join(tmp, left[0].Name()), old, old); err != nil {
		t.Fatal(err)
	}
	again := open(t, b.dir)
	if left, err = os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("%d files stay, %v", len(left), err)
	}
	c := storage.Content{Size: 3, Sum: hash([]byte("new"))}
	if w := again.PutStream(t.Context(), "k", strings.NewReader("new"), c); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	holds(t, again, "new")
}

func die(t *testing.T, step, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), dieEnv+"="+step+" "+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child did not die by its own hand: %v\n%s", err, out)
	}
}

// TestKilledAtEachStep kills writers at every step and checks that the object
// is the old version or the new one, and that others can write it.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range replaceSteps {
		t.Run("replace/"+step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v0 := b.PutIfAbsent(ctx, "k", []byte("older")).Version
			b.PutIfMatch(ctx, "k", []byte("old"), v0)
			die(t, step, b.dir)
			holds(t, b, map[bool]string{false: "old", true: "new"}[committedAt(step)])
			goesOn(t, b)
		})
	}
	for _, step := range createSteps {
		t.Run("create/"+step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			die(t, step, b.dir)
			if !committedAt(step) {
				if o, err := b.Get(ctx, "k"); !errors.Is(err, storage.ErrNotFound) {
					t.Fatalf("after the kill: %q, %v", o.Data, err)
				}
				if w := b.PutIfAbsent(ctx, "k", []byte("new")); w.Outcome != storage.Committed {
					t.Fatal(w)
				}
			}
			holds(t, b, "new")
			goesOn(t, b)
		})
	}
}

// holds checks that the object has these bytes, for this program and in its file.
func holds(t *testing.T, b *Bucket, want string) {
	t.Helper()
	o, err := b.Get(t.Context(), "k")
	if err != nil || string(o.Data) != want {
		t.Fatalf("get: %q, %v, want %q", o.Data, err, want)
	}
	if file, err := os.ReadFile(b.path("k")); err != nil || string(file) != want {
		t.Fatalf("the file holds %q, %v, want %q", file, err, want)
	}
}

// goesOn checks that the current version can be replaced, and only that one.
func goesOn(t *testing.T, b *Bucket) {
	t.Helper()
	o, err := b.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	next := "after " + string(o.Data)
	w := b.PutIfMatch(t.Context(), "k", []byte(next), o.Version)
	if w.Outcome != storage.Committed || w.Version == o.Version {
		t.Fatalf("write of the current version: %+v", w)
	}
	if w := b.PutIfMatch(t.Context(), "k", []byte("stale"), o.Version); w.Outcome != storage.Conflict {
		t.Fatalf("stale write: %+v", w)
	}
	holds(t, b, next)
}

// TestErrorAtEachStep lets each step fail, as a full or broken disk would.
func TestErrorAtEachStep(t *testing.T) {
	for _, step := range replaceSteps {
		t.Run(step, func(t *testing.T) {
			ctx, b := t.Context(), open(t, t.TempDir())
			v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
			b.at = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			w := b.PutIfMatch(ctx, "k", []byte("new"), v)
			if w.Outcome != storage.Unknown || !errors.Is(w.Err, syscall.ENOSPC) {
				t.Fatalf("write = %+v, want unknown and the disk's error", w)
			}
			b.at = nil
			holds(t, b, map[bool]string{false: "old", true: "new"}[committedAt(step)])
			goesOn(t, b)
			if left, err := os.ReadDir(filepath.Join(b.dir, tempDir)); err != nil || len(left) != 0 {
				t.Errorf("the failed write left %d files in tmp, %v", len(left), err)
			}
		})
	}
}

// TestDirectorySyncFails lets the fsync of directories fail. A reader must not get data
// that was written meanwhile, and take it for durable, before it is.
func TestDirectorySyncFails(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
	b.sync = func(*os.Root, string) error { return syscall.EIO }
	for what, w := range map[string]storage.Write{
		"replace": b.PutIfMatch(ctx, "k", []byte("new"), v),
		"create":  b.PutIfAbsent(ctx, "other", []byte("x")),
	} {
		if w.Outcome != storage.Unknown || !errors.Is(w.Err, syscall.EIO) {
			t.Errorf("%s = %+v, want unknown and the disk's error", what, w)
		}
	}
	if o, err := b.Get(ctx, "other"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get = %q, %v, want an error while the directory cannot be synced", o.Data, err)
	}
	b.sync = syncDir
	if o, err := b.Get(ctx, "other"); err != nil || string(o.Data) != "x" {
		t.Errorf("get after the disk has recovered = %q, %v", o.Data, err)
	}
	goesOn(t, b)
}

// TestFrozenWriter stops a writer at each step of a replacement and lets it go
// on after many others have written. It delays no other writer, and it changes nothing
// when it continues.
func TestFrozenWriter(t *testing.T) {
	t.Parallel()
	for _, step := range replaceSteps {
		for _, more := range []int{1, kept + 10} {
			t.Run(fmt.Sprintf("%s/%d", step, more), func(t *testing.T) {
				t.Parallel()
				ctx, b := t.Context(), open(t, t.TempDir())
				v := b.PutIfAbsent(ctx, "k", []byte("start")).Version
				v = b.PutIfMatch(ctx, "k", []byte("old"), v).Version
				frozen, stopped, cont := open(t, b.dir), make(chan struct{}), make(chan struct{})
				frozen.at = func(s string) error {
					if s == step {
						close(stopped)
						<-cont
					}
					return nil
				}
				done := make(chan storage.Write)
				go func() { done <- frozen.PutIfMatch(ctx, "k", []byte("frozen"), v) }()
				<-stopped
				last := ""
				for i := range more {
					o, err := b.Get(ctx, "k")
					if err != nil {
						t.Fatal(err)
					}
					last = fmt.Sprint("others ", i)
					if w := b.PutIfMatch(ctx, "k", []byte(last), o.Version); w.Outcome != storage.Committed {
						t.Fatalf("write %d beside a frozen writer: %+v", i, w)
					}
				}
				close(cont)
				w := <-done
				if committed := w.Outcome == storage.Committed; committed && !committedAt(step) {
					t.Errorf("a write that others came before: %+v", w)
				} else if !committed && committedAt(step) && more < kept {
					t.Errorf("a write that was committed before it froze: %+v", w)
				}
				holds(t, b, last)
				goesOn(t, b)
			})
		}
	}
}

// TestEditBesideAFrozenWriter edits the file while a committed write waits to
// be published: the edit is the newer one and stays.
func TestEditBesideAFrozenWriter(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
	b.at = func(s string) error {
		if s == stepTaken {
			return os.WriteFile(b.path("k"), []byte("edited"), 0o600)
		}
		return nil
	}
	if w := b.PutIfMatch(ctx, "k", []byte("new"), v); w.Outcome != storage.Unknown || !errors.Is(w.Err, errEdited) {
		t.Fatalf("write under an edit: %+v", w)
	}
	b.at = nil
	holds(t, b, "edited")
	goesOn(t, b)
}

// TestDeleteBesideAReplacement removes an object while a replacement is about to put its
// bytes there: nothing is there in the end.
func TestDeleteBesideAReplacement(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
	writer, stopped, cont := open(t, b.dir), make(chan struct{}), make(chan struct{})
	writer.at = func(s string) error {
		if s == stepChecked {
			close(stopped)
			<-cont
		}
		return nil
	}
	done := make(chan storage.Write)
	deleter, began := open(t, b.dir), false
	deleter.at = func(s string) error {
		if s == stepUnchained && !began {
			began = true
			go func() { done <- writer.PutIfMatch(ctx, "k", []byte("new"), v) }()
			<-stopped
		}
		return nil
	}
	if err := deleter.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	close(cont)
	<-done
	if o, err := b.Get(ctx, "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("after the delete: %q, %v", o.Data, err)
	}
	if w := b.PutIfAbsent(ctx, "k", []byte("again")); w.Outcome != storage.Committed {
		t.Errorf("create: %+v", w)
	}
	goesOn(t, b)
}

// TestDirectoryOfAnObjectIsSyncedAgain: the name of a directory that a failed write has made
// is not durable before its parent's fsync has succeeded.
func TestDirectoryOfAnObjectIsSyncedAgain(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	synced := make(map[string]int)
	b.sync = func(*os.Root, string) error { return syscall.EIO }
	if w := b.PutIfAbsent(ctx, "a/b/k", nil); w.Outcome != storage.Unknown {
		t.Fatalf("write = %+v", w)
	}
	b.sync = func(root *os.Root, dir string) error {
		synced[dir]++
		return syncDir(root, dir)
	}
	if w := b.PutIfAbsent(ctx, "a/b/k", nil); w.Outcome != storage.Committed || synced["."] == 0 {
		t.Errorf("write = %+v, fsyncs: %v", w, synced)
	}
}

// TestFsyncsOfAReplacement: a replacement syncs the staged bytes, and each directory once.
func TestFsyncsOfAReplacement(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("1")).Version
	v = b.PutIfMatch(ctx, "k", []byte("2"), v).Version // makes the chain
	var synced []string
	b.sync = func(root *os.Root, dir string) error {
		synced = append(synced, dir)
		return syncDir(root, dir)
	}
	if w := b.PutIfMatch(ctx, "k", []byte("3"), v); w.Outcome != storage.Committed {
		t.Fatalf("write = %+v", w)
	}
	if want := []string{chainDir("k"), "."}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
}

// TestPrivateFilesRemoved removes all that is not an object under a running
// process.
func TestPrivateFilesRemoved(t *testing.T) {
	ctx, b := t.Context(), open(t, t.TempDir())
	v := b.PutIfAbsent(ctx, "k", []byte("old")).Version
	b.PutIfMatch(ctx, "k", []byte("new"), v)
	if err := os.RemoveAll(filepath.Join(b.dir, privateDir)); err != nil {
		t.Fatal(err)
	}
	goesOn(t, b)
	if w := b.PutIfAbsent(ctx, "k2", nil); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
}
