package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// The leader detects an object that the document needs and that was removed or damaged,
// reports it, and repairs the archive with a new checkpoint. Until then WaitFlushed does
// not confirm a write.
func TestALeaderHealsADamagedArchive(t *testing.T) {
	t.Parallel()
	removed := func(l *lab, key string) {
		if err := l.bucket.Delete(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(l *lab, key string){
		"removed": removed,
		"a bit": func(l *lab, key string) {
			o, err := l.bucket.Get(l.t.Context(), key)
			if err != nil {
				l.t.Fatal(err)
			}
			flipped := append([]byte(nil), o.Data...)
			flipped[len(flipped)/2] ^= 1
			if w := l.bucket.PutIfMatch(l.t.Context(), key, flipped, o.Version); w.Outcome != storage.Committed {
				l.t.Fatalf("%+v", w)
			}
		},
	} {
		for _, kind := range []string{".seg", "manifest.json", ".part"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				read := 20 * time.Millisecond
				if name == "removed" {
					read = time.Hour // so that only the listing can find it
				}
				newLab(t).heals(kind, damage, read)
			})
		}
	}
}

// heals damages an object of a kind, and checks the report, the repair and both events.
func (l *lab) heals(kind string, damage func(l *lab, key string), read time.Duration) {
	faults := fault.New(l.bucket, 1)
	n := l.leader(l.start("n", 1, func(c *Config) {
		c.Bucket = faults
		c.Flush.TailMax, c.Flush.TailMin, c.Flush.CheckpointMin = 64, 16, 0
		c.ArchiveCheck, c.ArchiveRead = 20*time.Millisecond, read
	})...)
	for _, id := range []string{"a", "b", "c"} {
		l.flushed(n, l.enqueue(n, id))
	}
	l.eventually("a document with a log", func() bool {
		d := l.document()
		return d.Archive.Checkpoint.Key != "" && len(d.Archive.Log) > 0
	})
	stalled := faults.Inject(fault.Rule{Kind: fault.Stall, KeyPrefix: "base/", Ops: []storage.Op{storage.OpPutIfAbsent}})
	root := l.document().Archive
	key := root.Log[0].Key
	if kind != ".seg" {
		key = strings.TrimSuffix(root.Checkpoint.Key, "manifest.json") + map[string]string{"manifest.json": "manifest.json", ".part": "part-000000"}[kind]
	}
	damage(l, key)
	l.eventually("the finding", func() bool { return strings.Contains(n.Status().ArchiveError, key) })
	if err := n.WaitFlushed(l.t.Context(), fsm.LSN{}); !errors.Is(err, ErrArchive) {
		l.t.Errorf("a wait for the bucket: %v", err)
	}
	stalled.Stop()
	stalled.Release(l.t.Context()) // releases the write that hangs
	l.eventually("the cure", func() bool { return n.Status().ArchiveError == "" })
	want := []fsm.EventKind{fsm.BucketDamaged, fsm.BucketHealed}
	l.eventually("the events", func() bool { return slices.Equal(l.announcedAbout(n, key), want) })
	l.flushed(n, l.enqueue(n, "d"))
	m, err := archive.Machine(l.t.Context(), l.bucket, l.document())
	if err != nil || m.Counts().Of(fsm.Unclaimed) != 4 {
		l.t.Errorf("the state in the bucket: %v", err)
	}
}

// flushed waits until the bucket has an LSN.
func (l *lab) flushed(n *member, lsn fsm.LSN) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 15*time.Second)
	defer cancel()
	if err := n.WaitFlushed(ctx, lsn); err != nil {
		l.t.Fatal(err)
	}
}

// announcedAbout returns the kinds of the announcements whose text has a key.
func (l *lab) announcedAbout(n *member, key string) (kinds []fsm.EventKind) {
	events, _ := n.Events().Since(notify.EventID{}, 10_000)
	for _, e := range events {
		if e.Kind >= fsm.BucketAway && strings.Contains(e.Message, key) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}
