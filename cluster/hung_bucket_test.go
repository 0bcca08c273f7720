package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"

	"osqueue/fsm"
	"osqueue/storage"
)

// hungBucket ignores contexts and answers nothing while it hangs, like a directory on a
// file system that hangs.
type hungBucket struct {
	storage.Bucket
	mu      sync.Mutex
	release chan struct{} // nil: the bucket does not hang
	waiting int
}

func (h *hungBucket) hang() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.release = make(chan struct{})
}

func (h *hungBucket) goOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.release)
	h.release = nil
}

func (h *hungBucket) hangs() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

func (h *hungBucket) wait() {
	h.mu.Lock()
	release := h.release
	if release == nil {
		h.mu.Unlock()
		return
	}
	h.waiting++
	h.mu.Unlock()
	<-release
	h.mu.Lock()
	h.waiting--
	h.mu.Unlock()
}

// Get implements storage.Bucket.
func (h *hungBucket) Get(ctx context.Context, key string) (storage.Object, error) {
	h.wait()
	return h.Bucket.Get(ctx, key)
}

// PutIfMatch implements storage.Bucket.
func (h *hungBucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	h.wait()
	return h.Bucket.PutIfMatch(ctx, key, data, v)
}

// The bucket hangs and ignores contexts. Its leader ceases to be the active leader when
// raft's term ends, even if calls still hang. If raft elects it again, it is not active
// before it has acquired the document.
func TestALeaderOfATermThatIsOverAnswersNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	buckets := make(map[string]*hungBucket)
	all := l.start("n", 3, func(c *Config) {
		b := &hungBucket{Bucket: c.Bucket}
		buckets[c.Name] = b
		c.Bucket = b
	})
	old := l.leader(all...)
	b := buckets[old.cfg.Name]
	b.hang()
	stop := sync.OnceFunc(b.goOn)
	defer stop()
	l.enqueue(old, "a")
	l.eventually("the flush to hang", b.hangs)
	if err := old.raft.LeadershipTransfer().Error(); err != nil {
		t.Fatal(err)
	}
	answersNothing := func() {
		t.Helper()
		if _, self := old.Leader(); self {
			t.Error("it still says that it is the leader")
		}
		if s := old.Status(); s.State == "leader" {
			t.Error("its status still says so")
		}
		if _, _, err := old.Propose(t.Context(), claimOf("w", 1)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a claim gets %v", err)
		}
		if err := old.Linearize(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a read gets %v", err)
		}
	}
	answersNothing()
	next := l.leader(others(all, old)...)
	l.enqueue(next, "b")
	answersNothing()
	if err := next.raft.LeadershipTransferToServer(old.id, old.net.LocalAddr()).Error(); err != nil {
		t.Fatal(err)
	}
	answersNothing()
	if !b.hangs() {
		t.Error("the bucket does not hang any more")
	}
	stop()
	l.eventually("an active leader", func() bool {
		for _, m := range all {
			if _, self := m.Leader(); self {
				j := m.Job("b")
				return j != nil && j.Status == fsm.Unclaimed
			}
		}
		return false
	})
}
