package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asLacking marks a test process that lacks something, and names its directory.
const asLacking = "OSQUEUE_TEST_LACKS"

// A worker that is root reports a missing feature at its start, not in its jobs.
func TestMissingFeaturesOfRootFailTheStart(t *testing.T) {
	if dir := os.Getenv(asLacking); dir != "" {
		b, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: dir, UIDs: UIDRange{First: 1_910_000_048, Count: 4}})
		if err != nil {
			t.Log("it says: " + err.Error())
			return
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	needRoot(t)
	for _, tool := range []string{"setpriv", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for _, c := range []struct{ name, before, without, want string }{
		{"processes hidden", "mount -t proc -o hidepid=4 proc /proc", "sys_ptrace", "CAP_SYS_PTRACE"},
		{"files of others", "true", "dac_override,-dac_read_search", "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			script := c.before + ` && exec setpriv --bounding-set=-` + c.without + ` "$0" -test.run=^TestMissingFeaturesOfRootFailTheStart$ -test.v`
			cmd := exec.CommandContext(limited(t), "/bin/sh", "-c", script, os.Args[0])
			cmd.Env = append(os.Environ(), asLacking+"="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "it says: this machine does not support the sandbox level process: ") ||
				!strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
