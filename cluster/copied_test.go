package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// copyOf copies the data directory of a member that is stopped or idle.
func (l *lab) copyOf(dir string) string {
	l.t.Helper()
	to := filepath.Join(l.t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		l.t.Fatal(err)
	}
	return to
}

// A copy of a cluster's disks that runs on the same bucket has the same identity. The
// cluster that loses the document to the copy names it in the error, does not take the
// document back while the copy is alive, and continues when the copy has stopped.
func TestCopiedDisksAreNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.leader(l.start("n", 1, nil)...)
	before := l.enqueue(first, "before")
	l.eventually("the flush of the first", func() bool { return l.document().Header.LSN().Compare(before) >= 0 })
	copied := l.copyOf(first.cfg.DataDir) // the member is idle

	elsewhere := l.start("n", 1, func(c *Config) {
		c.DataDir = copied
		// Raft's configuration contains a server's own address, and the other server is
		// running.
		c.RaftAdvertise = string(first.net.LocalAddr())
	})[0]
	second := l.leader(elsewhere)
	l.eventually("the first to be fenced", func() bool {
		_, self := first.Leader()
		return !self && strings.Contains(first.Status().FenceReason, "a copy of its disks")
	})
	lsn := l.enqueue(second, "of the copy")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	epoch := l.document().Header.Epoch
	for end := time.Now().Add(2 * first.cfg.BrokerTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := l.document().Header.Epoch; got != epoch {
			t.Fatalf("the document went from epoch %d to %d", epoch, got)
		}
	}
	second.stop()
	first = l.leader(first)
	if first.Job("before") == nil || first.Job("of the copy") == nil {
		t.Fatalf("jobs: before %v, of the copy %v", first.Job("before"), first.Job("of the copy"))
	}
}
