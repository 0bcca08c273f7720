package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

const (
	testKey     = "queue.json"
	testCluster = "c1"
)

// queue is a machine with its log, as a cluster that adopted a document has it: the terms of
// its LSNs are not raft's.
type queue struct {
	m       *fsm.Machine
	content document.Content
}

// newQueue makes a queue with one entry for each of the raft indexes.
func newQueue(t *testing.T, indexes ...uint64) *queue {
	t.Helper()
	m := fsm.New()
	m.Transplant(testCluster, "v1", 5, 100)
	bucket := mem.New()
	checkpoint, err := archive.WriteCheckpoint(t.Context(), bucket, "lineage", fsm.LSN{}, m.View())
	if err != nil {
		t.Fatal(err)
	}
	tail := archive.NewTail(checkpoint.LSN)
	for _, index := range indexes {
		batch := &fsmpb.Batch{NowMs: int64(1000 * index), Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_RegisterBroker{
			RegisterBroker: &fsmpb.RegisterBroker{Node: "n1", Address: "a", Epoch: index, Lineage: "lineage", Cluster: testCluster},
		}}}}
		data, err := fsm.EncodeEntry(batch)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(index, 5, batch)
		if err := tail.Append(archive.Entry{LSN: m.LSN(), At: m.Now(), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	_ = bucket.Close()
	return &queue{m, document.Content{
		Archive: &document.Archive{Checkpoint: checkpoint, Tail: tail.Frame()}, Meta: m.Meta(), Counts: m.Counts(), Jobs: m.View(),
	}}
}

// flush writes the checkpoint of the queue and its document, of a cluster.
func (q *queue) flush(t *testing.T, bucket storage.Bucket, cluster string) {
	t.Helper()
	start := fsm.New()
	start.Transplant(testCluster, "v1", 5, 100)
	var err error
	q.content.Archive.Checkpoint, err = archive.WriteCheckpoint(t.Context(), bucket, "lineage", fsm.LSN{}, start.View())
	if err != nil {
		t.Fatal(err)
	}
	data := document.Encode(&q.content, document.Header{Lineage: "lineage", Cluster: cluster, Epoch: 1, Node: "n1", Write: "w", Writes: []string{"w"}}, "a", 1)
	if w := bucket.PutIfAbsent(t.Context(), testKey, data); w.Outcome != storage.Committed {
		t.Fatal(w.Err)
	}
}

// confirm is a leader that has every entry of term 5.
func confirm(_ context.Context, _ fsm.LSN) (Place, error) {
	return Place{Term: 5, Configuration: threeServers, ConfigurationIndex: 30}, nil
}

func seedOptions(dir string, bucket storage.Bucket) SeedOptions {
	return SeedOptions{Bucket: bucket, Key: testKey, Dir: dir, Cluster: testCluster, Confirm: confirm, Logger: hclog.NewNullLogger()}
}

func TestSeed(t *testing.T) {
	bucket, dir := newBucket(t), t.TempDir()
	q := newQueue(t, 40, 42)
	q.flush(t, bucket, testCluster)
	o := seedOptions(dir, bucket)
	o.Confirm = func(ctx context.Context, lsn fsm.LSN) (Place, error) {
		if lsn != (fsm.LSN{Term: 100, Index: 42}) {
			t.Errorf("the leader is asked for %s", lsn)
		}
		return confirm(ctx, lsn)
	}
	made, err := Seed(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t, dir)
	if err := s.Prepare(raft.NewInmemStore()); err != nil {
		t.Fatal(err)
	}
	m, rc, err := s.Open(made.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	state, err := fsm.Decode(rc)
	if err != nil || state.View().Hash() != q.m.View().Hash() {
		t.Errorf("the snapshot has another state, %v", err)
	}
	if m.Term != 5 || m.Index != 42 || m.ConfigurationIndex != 30 || len(m.Configuration.Servers) != 3 || m.Size != made.Size {
		t.Errorf("the snapshot is described as %+v", m)
	}
	if _, err := Seed(t.Context(), o); err == nil {
		t.Error("a node with snapshots is seeded")
	}
}

// TestSeedNeedsTheLeader has documents whose state must not become a snapshot.
func TestSeedNeedsTheLeader(t *testing.T) {
	errLeader := errors.New("no such entry")
	for name, c := range map[string]struct {
		indexes []uint64
		cluster string
		place   Place
		err     error
		want    string
	}{
		"refused":                 {[]uint64{40}, testCluster, Place{}, errLeader, errLeader.Error()},
		"other term":              {[]uint64{40}, testCluster, Place{Term: 6}, nil, "is not the one that the leader has"},
		"members of a later time": {[]uint64{40}, testCluster, Place{Term: 5, ConfigurationIndex: 41}, nil, "is not the one that the leader has"},
		"other cluster":           {[]uint64{40}, "c2", Place{Term: 5}, nil, "another cluster"},
		"adopted":                 {nil, testCluster, Place{Term: 5}, nil, "no log entry"},
	} {
		t.Run(name, func(t *testing.T) {
			bucket, dir := newBucket(t), t.TempDir()
			newQueue(t, c.indexes...).flush(t, bucket, c.cluster)
			o := seedOptions(dir, bucket)
			o.Confirm = func(context.Context, fsm.LSN) (Place, error) { return c.place, c.err }
			if _, err := Seed(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
			if names := dirNames(t, dir, localDir); len(names) != 0 {
				t.Errorf("the directory has %v", names)
			}
		})
	}
}

// TestSeedFailsCleanly breaks off at each object of the bucket.
func TestSeedFailsCleanly(t *testing.T) {
	for _, suffix := range []string{testKey, ".json", "part-000000"} {
		bucket, dir := newBucket(t), t.TempDir()
		newQueue(t, 40, 42).flush(t, bucket, testCluster)
		spoil(t, bucket, suffix)
		if _, err := Seed(t.Context(), seedOptions(dir, bucket)); err == nil {
			t.Errorf("%s: a damaged state is used", suffix)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Seed(ctx, seedOptions(dir, bucket)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if names := dirNames(t, dir, localDir); len(names) != 0 {
			t.Errorf("%s: the directory has %v", suffix, names)
		}
	}
}

// spoil flips a bit of the objects in the bucket whose key has the suffix.
func spoil(t testing.TB, b storage.Bucket, suffix string) {
	t.Helper()
	var keys []string
	err := b.List(t.Context(), "", func(i storage.Info) bool {
		if strings.HasSuffix(i.Key, suffix) {
			keys = append(keys, i.Key)
		}
		return true
	})
	if err != nil || len(keys) == 0 {
		t.Fatalf("no object ends in %q, %v", suffix, err)
	}
	for _, key := range keys {
		o, err := b.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		data := append([]byte(nil), o.Data...)
		data[len(data)/2] ^= 0x10
		if w := b.PutIfMatch(t.Context(), key, data, o.Version); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
	}
}

func newBucket(t testing.TB) storage.Bucket {
	b := mem.New()
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestAgrees(t *testing.T) {
	logs := logOf(t, span{1, 5, 10}, span{3, 11, 20})
	for _, c := range []struct {
		committed, term, index uint64
		want                   bool
	}{
		{20, 1, 5, true},
		{20, 1, 10, true},
		{20, 3, 20, true},
		{12, 3, 12, true},
		{12, 3, 13, false},
		{20, 1, 11, false},
		{20, 2, 11, false},
		{20, 1, 4, false},
		{30, 3, 21, false},
	} {
		if got := Agrees(logs, c.committed, c.term, c.index); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
