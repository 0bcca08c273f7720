package file

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"osqueue/storage"
)

const mountEnv = "OSQUEUE_FILE_TEST_MOUNT"

// TestMounts mounts and unmounts a bucket, in a mount namespace of its own.
func TestMounts(t *testing.T) {
	if os.Getenv(mountEnv) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMounts$", "-test.v")
		cmd.Env = append(os.Environ(), mountEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("mounts need a namespace of their own: %v", err)
		}
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	dir, source := filepath.Join(t.TempDir(), "mount"), t.TempDir()
	must(t, os.Mkdir(dir, 0o700), syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	mount := func(flags uintptr) {
		t.Helper()
		must(t, syscall.Mount(source, dir, "", syscall.MS_BIND, ""))
		if flags != 0 {
			must(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|flags, ""))
		}
	}
	unmount := func() {
		t.Helper()
		must(t, syscall.Unmount(dir, 0)) // not lazily: a Bucket does not keep it busy
	}

	mount(0)
	b := open(t, dir)
	v := b.PutIfAbsent(t.Context(), documentName, []byte("1")).Version
	unmount()
	refuses(t, b, v) // the directory below the mount point
	again, err := OpenKnown(t.Context(), dirURL(dir))
	must(t, err)
	refuses(t, again, v)

	mount(0)
	v = replaceDocument(t, b, v, "2")
	v = replaceDocument(t, again, v, "3")
	unmount()

	mount(syscall.MS_RDONLY)
	if o, err := b.Get(t.Context(), documentName); err != nil || string(o.Data) != "3" {
		t.Errorf("get = %q, %v", o.Data, err)
	}
	if w := b.PutIfMatch(t.Context(), documentName, nil, v); w.Outcome != storage.Unknown || !errors.Is(w.Err, syscall.EROFS) {
		t.Errorf("put = %+v", w)
	}
	unmount()

	// A new file system can have the device and the inode numbers of the one before.
	tmpfs := func() *Bucket {
		t.Helper()
		must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
		return open(t, dir)
	}
	b = tmpfs()
	v = b.PutIfAbsent(t.Context(), documentName, []byte("1")).Version
	before := must1(os.Stat(dir))
	unmount()
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Logf("the next file system has the same numbers: %v", os.SameFile(before, must1(os.Stat(dir))))
	refuses(t, b, v)
	unmount()
}
