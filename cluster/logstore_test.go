package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/raftlog"
	"osqueue/cluster/transport"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/script"
)

func largeJob(id string, size int) *fsmpb.Mutation {
	payload := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, size)...), '"')
	op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t", Payload: payload}}}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// largeScene runs three nodes in simulated time, without load.
func largeScene(t *testing.T, tune func(*Config), act func(*simCluster) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(1, storagetest.NewCounts())
		c := newSimCluster(w, "a", 3, w.record)
		c.tune = tune
		c.startAll()
		err := simAwait(calmWait, c.whole)
		if err == nil {
			err = act(c)
		}
		c.end()
		if err != nil {
			t.Errorf("%v; %v", err, w.failed())
		}
	})
}

func enqueueLarge(lead *simLife, n, size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for i := range n {
		r, _, err := lead.Propose(ctx, largeJob(fmt.Sprintf("large%d", i), size))
		if err != nil || r.Code != fsm.OK {
			return fmt.Errorf("enqueue large%d: %v %w", i, r.Code, err)
		}
	}
	return nil
}

// A follower is cut off while large jobs come in. The entries that it lacks are larger
// than its link carries within the deadline of one request, but it catches up.
func TestLaggingFollowerTakesLargeEntries(t *testing.T) {
	tune := func(cfg *Config) {
		cfg.SnapshotThreshold, cfg.TrailingLogs = 10_000, 10_000 // so that it catches up from the log, not from a snapshot
	}
	largeScene(t, tune, func(c *simCluster) error {
		lead := c.active()
		var behind *simNode
		for _, n := range c.nodes {
			if n != lead.place {
				behind = n
			}
		}
		var others []*simNode
		for _, n := range c.nodes {
			if n != behind {
				others = append(others, n)
			}
		}
		mend := c.net.cut(true, between([]*simNode{behind}, others)...)
		if err := enqueueLarge(lead, 40, 1<<20); err != nil {
			return err
		}
		c.net.mu.Lock()
		c.net.rate = 1 << 20
		c.net.mu.Unlock()
		mend()
		err := simAwait(2*time.Minute, c.whole)
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		if most := transport.AppendMaxBytes + (1 << 20); err == nil && c.net.most > most {
			err = fmt.Errorf("a request had %d bytes of entries, more than %d", c.net.most, most)
		}
		return err
	})
}

// A log of large entries is truncated long before it has SnapshotThreshold entries, and
// the entries that stay are bounded in bytes, too.
func TestLargeEntriesAreCutByBytes(t *testing.T) {
	tune := func(cfg *Config) {
		cfg.SnapshotThreshold, cfg.TrailingLogs = 10_000, 5_000
		cfg.SnapshotBytes, cfg.TrailingBytes = 4<<20, 2<<20
		cfg.Settings.RetainCompletedCount = 0
	}
	largeScene(t, tune, func(c *simCluster) error {
		ctx := context.Background()
		lead := c.active()
		for i := range 60 { // each job is removed again, so that the state stays small
			id := fmt.Sprintf("large%d", i)
			if _, _, err := lead.Propose(ctx, largeJob(id, 512<<10)); err != nil {
				return err
			}
			if _, _, err := lead.Propose(ctx, script.ChangeOf(fsm.DeleteJobs, id)); err != nil {
				return err
			}
			time.Sleep(200 * time.Millisecond)
		}
		return simAwait(10*time.Second, func() string {
			for _, l := range c.lives() {
				d := l.place.mark(false)
				size := d.bytes()
				if size > 9<<20 {
					return fmt.Sprintf("the log of %s has %d bytes", l.place.name, size)
				}
			}
			return ""
		})
	})
}

// The error of a full disk says once which disk it is.
func TestAFullDiskIsExplained(t *testing.T) {
	err := explainFull("/data", fmt.Errorf("write raft's term: %w", &os.PathError{Op: "write", Path: "votes", Err: syscall.ENOSPC}))
	if text := err.Error(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(text, "the disk of /data is full") ||
		explainFull("/data", err).Error() != text {
		t.Error(text)
	}
}

// openLog opens a log until the test ends.
func openLog(t *testing.T, d raftlog.Disk, o raftlog.Options) *raftlog.Log {
	t.Helper()
	o.Size = memorySegment
	l, err := raftlog.Open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestSizesOfTheNewestEntries(t *testing.T) {
	l := openLog(t, raftlog.Memory(), raftlog.Options{})
	for i := range uint64(100) {
		if err := l.StoreLog(&raft.Log{Index: i + 1, Data: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	for size, want := range map[int]uint64{10 << 20: 9, 200 << 20: 50, 0: 0} {
		if got := newestWithin(l.Sizes, 50, size); got != want {
			t.Errorf("%d of the newest entries have %d bytes, want %d", got, size, want)
		}
	}
	if got := newestWithin(l.Sizes, 500, 200<<20); got != 500 {
		t.Errorf("all entries are fewer than %d", got)
	}
	if got := bytesAfter(l.Sizes, 90); got>>10 != 10<<10 { // and less than 1 KiB for what an entry has besides its data
		t.Errorf("%d bytes are after 90", got)
	}
	if err := l.DeleteRange(96, 100); err != nil {
		t.Fatal(err)
	}
	if got := bytesAfter(l.Sizes, 90); got>>10 != 5<<10 {
		t.Errorf("%d bytes are after 90 once the end was removed", got)
	}
}

// A disk that hangs while a snapshot is read is fatal.
func TestASnapshotThatCannotBeReadInTimeIsFatal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) { c.LogStallLimit = time.Second })...)
	l.enqueue(n, "a")
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	all, err := n.snapshots.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d snapshots, %v", len(all), err)
	}
	meta := filepath.Join(n.cfg.DataDir, "snapshots", all[0].ID, "meta.json")
	if err := errors.Join(os.Remove(meta), syscall.Mkfifo(meta, 0o600)); err != nil { // a read of it waits for a writer
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = n.snapshots.List()
	}()
	select {
	case err := <-n.Fatal():
		if !strings.Contains(err.Error(), "read the description of a snapshot") {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a read that hangs is not fatal")
	}
	w, err := os.OpenFile(meta, os.O_WRONLY, 0) // lets the read end
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(meta), w.Close()); err != nil { // removed first: the node would wait in another read of it
		t.Error(err)
	}
	<-read
}
