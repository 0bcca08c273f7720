package past

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

const key, start = "queue.json", 1_700_000_000_000

// slowBucket counts the documents that are read, and waits before it returns one if gate is
// set.
type slowBucket struct {
	storage.Bucket
	gate chan struct{}

	mu   sync.Mutex
	gets int
}

func (b *slowBucket) Get(ctx context.Context, name string) (storage.Object, error) {
	if name != key {
		return b.Bucket.Get(ctx, name)
	}
	b.mu.Lock()
	b.gets++
	b.mu.Unlock()
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return storage.Object{}, ctx.Err()
		}
	}
	return b.Bucket.Get(ctx, name)
}

// queue is a bucket with the document of a state of one job.
func queue(t *testing.T) (*slowBucket, fsm.LSN) {
	t.Helper()
	m := fsm.New()
	m.Apply(1, 1, &fsmpb.Batch{NowMs: start, Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{Node: "n1", Address: "a:1", Epoch: 1, Cluster: "c", Lineage: "l"}}},
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "j", Type: "mail"}}}}},
	}})
	b := &slowBucket{Bucket: mem.New()}
	v := m.View()
	checkpoint, err := archive.WriteCheckpoint(t.Context(), b.Bucket, "l", fsm.LSN{}, v)
	if err != nil {
		t.Fatal(err)
	}
	content := &document.Content{
		Archive: &document.Archive{Checkpoint: checkpoint, Tail: archive.NewTail(checkpoint.LSN).Frame()}, Meta: v.Meta(), Counts: v.Counts(),
	}
	doc := document.Encode(content, document.Header{Lineage: "l", Cluster: "c", Epoch: 1, Node: "n1"}, "a:1", start)
	if w := b.PutIfAbsent(t.Context(), key, doc); w.Err != nil {
		t.Fatal(w.Err)
	}
	return b, m.LSN()
}

// Readers of one state share its rebuild, and a reader whose time is over finds the state with
// its next request.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lsn := queue(t)
		b.gate = make(chan struct{})
		s := New(Config{Bucket: b, Key: key, MaxBytes: 1 << 30})
		defer s.Close()
		target := Target{LSN: lsn}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.At(ctx, target); !errors.Is(err, ErrBusy) {
			t.Fatalf("a rebuild that takes longer: %v", err)
		}
		var readers sync.WaitGroup
		states := make([]*State, 10)
		for i := range states {
			readers.Go(func() {
				var err error
				if states[i], err = s.At(t.Context(), target); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(b.gate)
		readers.Wait()
		for _, state := range states {
			if state != states[0] || state.Job("j") == nil || state.AllTypeStats()["mail"] != state.TypeStats("mail") {
				t.Errorf("%+v", state)
			}
		}
		if b.gets != 1 {
			t.Errorf("the document was read %d times", b.gets)
		}
		time.Sleep(keepFor + time.Second) // of the fake clock
		if _, err := s.At(t.Context(), target); err != nil || b.gets != 2 {
			t.Errorf("after the state was released: %v, %d reads", err, b.gets)
		}
	})
}

// Requests that wait, states and their size are bounded.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lsn := queue(t)
		b.gate = make(chan struct{})
		s := New(Config{Bucket: b, Key: key, MaxBytes: 1 << 30})
		var readers sync.WaitGroup
		for range waitersMax {
			readers.Go(func() { _, _ = s.At(t.Context(), Target{LSN: lsn}) })
		}
		synctest.Wait()
		if _, err := s.At(t.Context(), Target{Time: time.UnixMilli(start)}); !errors.Is(err, ErrBusy) {
			t.Errorf("one reader more: %v", err)
		}
		close(b.gate)
		readers.Wait()
		for i := range 3 {
			if _, err := s.At(t.Context(), Target{Time: time.UnixMilli(start + int64(i))}); err != nil {
				t.Fatal(err)
			}
			if len(s.kept) > statesMax {
				t.Errorf("%d states are kept", len(s.kept))
			}
		}
		s.Close()
		if _, err := s.At(t.Context(), Target{LSN: fsm.LSN{Term: 1, Index: 99}}); err == nil {
			t.Error("a rebuild after the end")
		}
	})
}

// A node without memory for earlier states, and a bucket without a queue, say so.
func TestNone(t *testing.T) {
	t.Parallel()
	off := New(Config{Bucket: mem.New(), Key: key})
	defer off.Close()
	if _, err := off.At(t.Context(), Target{}); !errors.Is(err, ErrOff) {
		t.Error(err)
	}
	empty := New(Config{Bucket: mem.New(), Key: key, MaxBytes: 1 << 20})
	defer empty.Close()
	if _, err := empty.At(t.Context(), Target{Time: time.UnixMilli(start)}); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
	if _, err := empty.Spans(t.Context()); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
}

// Requests read the limits of a state at the same time.
func TestLimitsOfManyReaders(t *testing.T) {
	m := fsm.New()
	var ms []*fsmpb.Mutation
	names := []string{"customer:7", "openai:gpt5"}
	for i, name := range names {
		ms = append(ms, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: &fsmpb.SetLimit{Pattern: name, Rule: &fsmpb.LimitRule{Running: int64(i + 1)}}}})
	}
	m.Apply(1, 1, &fsmpb.Batch{NowMs: start, Mutations: ms})
	s := Of(m)
	if uses := s.LimitUses("d", 9); len(uses) != 1 || uses[0].Name != names[1] || uses[0].Rule.Running != 2 {
		t.Errorf("from d on: %+v", uses)
	}
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			want := names[i%2]
			for range 50_000 {
				if got := s.LimitUse(want); got.Name != want {
					t.Errorf("%s instead of %s", got.Name, want)
					return
				}
			}
		})
	}
	readers.Wait()
}
