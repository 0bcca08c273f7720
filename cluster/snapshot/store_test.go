package snapshot

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// TestRestartWithoutTheBucket uses a store whose bucket does not answer.
func TestRestartWithoutTheBucket(t *testing.T) {
	dir := t.TempDir()
	b := fault.New(newBucket(t), 1)
	away := b.Inject(fault.Rule{Kind: fault.LoseRequest})
	a := take(t, newStore(t, dir, b), 1, 10)
	c := take(t, newStore(t, dir, b), 1, 20)
	s := newStore(t, dir, b)
	if err := s.Prepare(t.Context(), raft.NewInmemStore()); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, c, a)
	wantRead(t, s, c, 20)
	if away.Hits() != 0 {
		t.Errorf("the bucket was asked %d times", away.Hits())
	}
}

// TestWritingDoesNotWaitForTheBucket writes a snapshot during a stalled upload.
func TestWritingDoesNotWaitForTheBucket(t *testing.T) {
	b := fault.New(newBucket(t), 1)
	s := newStore(t, t.TempDir(), b)
	stuck := b.Inject(fault.Rule{Kind: fault.Stall})
	stop := running(t, s)
	defer stop()
	last := take(t, s, 1, 10)
	if err := stuck.WaitHits(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for index := uint64(20); index < 30; index++ {
		last = take(t, s, 1, index)
	}
	wantRead(t, s, last, 29)
}

func TestDamagedCopyIsReadFromTheBucket(t *testing.T) {
	for _, file := range []string{stateFile, metaFile, recordFile} {
		t.Run(file, func(t *testing.T) {
			dir, b := t.TempDir(), newBucket(t)
			s := newStore(t, dir, b)
			id := take(t, s, 1, 10)
			put(t, s)
			flip(t, dir, localDir, id, file)
			s = newStore(t, dir, b)
			wantRead(t, s, id, 10)
			if err := os.RemoveAll(filepath.Join(dir, localDir, id)); err != nil {
				t.Fatal(err)
			}
			wantRead(t, s, id, 10)
		})
	}
}

// TestBucketOnlyHelpsWithTheSameState has uploads that must not replace the lost snapshot.
func TestBucketOnlyHelpsWithTheSameState(t *testing.T) {
	b := newBucket(t)
	for _, other := range []struct {
		name        string
		term, index uint64
		servers     raft.Configuration
	}{
		{"older", 1, 9, threeServers},
		{"newer", 1, 11, threeServers},
		{"of another term", 2, 10, threeServers},
		{"with other servers", 1, 10, raft.Configuration{Servers: threeServers.Servers[:1]}},
	} {
		s := newStore(t, t.TempDir(), b, func(o *Options) { o.Slack = 1; o.Node = "other" })
		sink, err := s.Create(1, other.index, other.term, other.servers, 3, addresses{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sink.Write(content(10))
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := s.local.newest()
		if err != nil {
			t.Fatal(err)
		}
		r := *c.record
		_, rc, err := s.local.open(c.id)
		if err != nil {
			t.Fatal(err)
		}
		u := upload{cluster: testCluster, node: "other", point: c.point, at: c.at, id: "X"}
		r.Cluster, r.Node = u.cluster, u.node
		if err := (uploader{bucket: b, note: func(error) {}}).write(t.Context(), u, &r, rc); err != nil {
			t.Fatal(err)
		}
		_ = rc.Close()
	}
	dir := t.TempDir()
	s := newStore(t, dir, b)
	id := take(t, s, 1, 10)
	flip(t, dir, localDir, id, stateFile)
	if _, _, err := newStore(t, dir, b).Open(id); !errors.Is(err, ErrDamaged) || !errors.Is(err, errOtherConfiguration) {
		t.Errorf("it is opened: %v", err)
	}
}

// TestDamagedBothTimes damages the copy in the bucket, too, and expects an error.
func TestDamagedBothTimes(t *testing.T) {
	for _, suffix := range []string{".part", "manifest.json"} {
		t.Run(suffix, func(t *testing.T) {
			dir, b := t.TempDir(), newBucket(t)
			s := newStore(t, dir, b)
			id := take(t, s, 1, 10)
			put(t, s)
			spoil(t, b, suffix)
			flip(t, dir, localDir, id, stateFile)
			_, data, err := read(newStore(t, dir, b), id)
			if err == nil || bytes.Equal(data, content(10)) {
				t.Fatalf("%d bytes, %v", len(data), err)
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("the error does not say what happened: %v", err)
			}
		})
	}
}

// TestBucketThatDoesNotAnswer checks that a bucket that does not answer does not block raft
// without a limit.
func TestBucketThatDoesNotAnswer(t *testing.T) {
	for _, op := range []storage.Op{storage.OpList, storage.OpGet} {
		t.Run(string(op), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				dir, b := t.TempDir(), fault.New(newBucket(t), 1)
				s := newStore(t, dir, b)
				id := take(t, s, 1, 10)
				put(t, s)
				flip(t, dir, localDir, id, stateFile)
				hole := b.Inject(fault.Rule{Kind: fault.Stall, Ops: []storage.Op{op}})
				began := time.Now()
				_, _, err := read(newStore(t, dir, b), id)
				if err == nil || time.Since(began) > findLimit+2*readLimit || hole.Hits() == 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	b := newBucket(t)
	for name, o := range map[string]Options{
		"no directory": {Bucket: b, Node: "n1", Cluster: cluster},
		"no cluster":   {Dir: t.TempDir(), Bucket: b, Node: "n1"},
		"no node":      {Dir: t.TempDir(), Bucket: b, Cluster: cluster},
		"two nodes":    {Dir: t.TempDir(), Bucket: b, Node: "n1/n2", Cluster: cluster},
		"a file":       {Dir: filepath.Join(t.TempDir(), "x", "\x00")},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// All reads of the disk are watched, because raft reads snapshots on its main goroutine.
func TestReadsOfTheDiskAreWatched(t *testing.T) {
	seen := make(map[string]int) // bytes, at most
	s := newStore(t, t.TempDir(), nil, func(o *Options) {
		o.Watch = func(what string, bytes int, fn func() error) error {
			seen[what] = max(seen[what], bytes)
			return fn()
		}
	})
	id := take(t, s, 1, 10)
	clear(seen)
	wantIDs(t, s, id)
	if want := map[string]int{"list the snapshots": 0, "read the description of a snapshot": 0}; !maps.Equal(seen, want) {
		t.Errorf("List: %v", seen)
	}
	clear(seen)
	wantRead(t, s, id, 10)
	if seen["read a snapshot"] == 0 || len(seen) != 2 {
		t.Errorf("Open and Read: %v", seen)
	}
}
