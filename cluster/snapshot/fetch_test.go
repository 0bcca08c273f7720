package snapshot

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// filled returns a bucket with uploads of two nodes: 1-10, 1-20 and 2-35.
func filled(t *testing.T) storage.Bucket {
	b := newBucket(t)
	for _, c := range []struct {
		node        string
		term, index uint64
	}{{"n1", 1, 10}, {"n2", 1, 20}, {"n1", 2, 35}} {
		s := newStore(t, t.TempDir(), b, func(o *Options) { o.Node, o.Slack = c.node, 1 })
		take(t, s, c.term, c.index)
		put(t, s)
	}
	wantUploads(t, b, "n1/2-35", "n2/1-20", "n1/1-10")
	return b
}

func TestFetchTakesTheNewest(t *testing.T) {
	dir := t.TempDir()
	m, err := Fetch(t.Context(), filled(t), dir, testCluster, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Index != 35 || m.Term != 2 || len(m.Configuration.Servers) != 3 || m.Size != int64(len(content(35))) {
		t.Errorf("it is %+v", m)
	}
	s := newStore(t, dir, nil)
	wantIDs(t, s, m.ID)
	wantRead(t, s, m.ID, 35)
	if _, err := Fetch(t.Context(), filled(t), dir, testCluster, FetchOptions{}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a second one: %v", err)
	}
}

func TestFetchFindsNone(t *testing.T) {
	for _, name := range []string{"c2", "c"} {
		dir := t.TempDir()
		if _, err := Fetch(t.Context(), filled(t), dir, name, FetchOptions{}); !errors.Is(err, ErrNone) {
			t.Errorf("of cluster %s: %v", name, err)
		}
		wantIDs(t, newStore(t, dir, nil))
	}
}

func TestFetchAsksTheLeader(t *testing.T) {
	var asked []uint64
	refusal := errors.New("not mine")
	accept := func(_ context.Context, m raft.SnapshotMeta) error {
		if asked = append(asked, m.Index); m.Index > 15 {
			return refusal
		}
		return nil
	}
	m, err := Fetch(t.Context(), filled(t), t.TempDir(), testCluster, FetchOptions{Accept: accept})
	if err != nil || m.Index != 10 || fmt.Sprint(asked) != "[35 20 10]" {
		t.Errorf("it is %+v, %v; the leader was asked for %v", m, err, asked)
	}
	_, err = Fetch(t.Context(), filled(t), t.TempDir(), testCluster,
		FetchOptions{Accept: func(context.Context, raft.SnapshotMeta) error { return refusal }})
	if !errors.Is(err, refusal) || !errors.Is(err, ErrNone) {
		t.Errorf("the error is %v", err)
	}
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

func TestFetchSkipsDamagedUploads(t *testing.T) {
	for _, suffix := range []string{".part", "manifest.json"} {
		b := filled(t)
		good := newBucket(t)
		for _, key := range keys(t, b) { // only the newest is damaged
			o, err := b.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			good.PutIfAbsent(t.Context(), key, o.Data)
		}
		newest := completed(survey(keys(t, b), testCluster))[0]
		spoilt := splice{Bucket: good, bad: b, prefix: newest.prefix()}
		spoil(t, b, suffix)
		dir := t.TempDir()
		m, err := Fetch(t.Context(), spoilt, dir, testCluster, FetchOptions{})
		if err != nil || m.Index != 20 {
			t.Errorf("%s: %+v, %v", suffix, m, err)
		}
		wantIDs(t, newStore(t, dir, nil), m.ID)
		_, err = Fetch(t.Context(), b, t.TempDir(), testCluster, FetchOptions{})
		if !errors.Is(err, ErrDamaged) || !errors.Is(err, ErrNone) {
			t.Errorf("%s: if all are bad: %v", suffix, err)
		}
	}
}

// splice reads keys with a prefix from another bucket.
type splice struct {
	storage.Bucket
	bad    storage.Bucket
	prefix string
}

func (s splice) Get(ctx context.Context, key string) (storage.Object, error) {
	if len(key) > len(s.prefix) && key[:len(s.prefix)] == s.prefix {
		return s.bad.Get(ctx, key)
	}
	return s.Bucket.Get(ctx, key)
}

// TestFetchFailsCleanly stops the bucket's answers at each operation. There is no snapshot
// unless all operations succeed, and the next attempt starts again.
func TestFetchFailsCleanly(t *testing.T) {
	inner := filled(t)
	for skip := 0; ; skip++ {
		b := fault.New(inner, 1)
		away := b.Inject(fault.Rule{Kind: fault.LoseRequest, Skip: skip})
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // bounds the retries
			if away.WaitHits(ctx, 3) == nil {
				cancel()
			}
		}()
		_, err := Fetch(ctx, b, dir, testCluster, FetchOptions{})
		cancel()
		if err == nil {
			if skip < 3 {
				t.Errorf("there were %d operations only", skip)
			}
			break
		}
		wantIDs(t, newStore(t, dir, nil))
		if names := dirNames(t, dir, localDir); len(names) != 0 {
			t.Errorf("the directory has %v", names)
		}
		if _, err := Fetch(t.Context(), inner, dir, testCluster, FetchOptions{}); err != nil {
			t.Errorf("the next one: %v", err)
		}
	}
}
