package hooks

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/client/webhook"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a leader with a real machine. Its clock stands unless it is moved.
type fakeNode struct {
	mu      sync.Mutex
	m       *fsm.Machine
	now     int64
	index   uint64
	changed chan struct{}
	fail    error // of Propose
	lag     int64
}

const startMs = 1_763_700_000_000

func newFake(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{m: fsm.New(), now: startMs, changed: make(chan struct{})}
	return n
}

func (n *fakeNode) put(t *testing.T, ms ...*fsmpb.Mutation) {
	t.Helper()
	for _, m := range ms {
		if res, err := n.apply(m); err != nil || !res.Code.Done() {
			t.Fatalf("%v: %v, %v", m, res.Code, err)
		}
	}
}

func (n *fakeNode) apply(m *fsmpb.Mutation) (fsm.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: n.now, Mutations: []*fsmpb.Mutation{m}})
	if err != nil {
		return fsm.Result{}, err
	}
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		return fsm.Result{}, err
	}
	n.index++
	res := n.m.Apply(n.index, 1, b)[0]
	close(n.changed)
	n.changed = make(chan struct{})
	return res, nil
}

func (n *fakeNode) Propose(_ context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
	n.mu.Lock()
	err := n.fail
	n.mu.Unlock()
	if err != nil {
		return fsm.Result{}, fsm.LSN{}, err
	}
	res, err := n.apply(m)
	return res, fsm.LSN{}, err
}

func (n *fakeNode) View() *fsm.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m.View()
}

func (n *fakeNode) AwaitEvent(ctx context.Context) {
	select {
	case <-n.change():
	case <-ctx.Done():
	}
}

func (n *fakeNode) change() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *fakeNode) Now() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

func (n *fakeNode) AllTypeStats() map[string]fsm.TypeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[string]fsm.TypeStats)
	n.m.Types(func(name string, s fsm.TypeStats) bool { out[name] = s; return true })
	return out
}

func (n *fakeNode) LagMs() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lag
}

func (n *fakeNode) set(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
}

var errAway = errors.New("no quorum")

// testSecret is the secret of the hooks of the tests.
var testSecret = webhook.Secret("0123456789abcdef0123456789abcdef")

func hookMutation(name, url string, change func(*fsmpb.Hook)) *fsmpb.Mutation {
	h := &fsmpb.Hook{Name: name, Url: url, Kinds: uint64(outbox.AllKinds), Secret: testSecret, Plain: true}
	if change != nil {
		change(h)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: h}}}
}

func testEvent(name string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_TestHook{TestHook: &fsmpb.TestHook{Name: name}}}
}

// loopback allows the servers of the tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// start runs a sender until the test ends.
func start(t *testing.T, n *fakeNode, cfg Config) (*Sender, func()) {
	t.Helper()
	if cfg.Backoff == 0 {
		cfg.Backoff = 5 * time.Millisecond
	}
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, n)
	}()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			<-done
		})
	}
	t.Cleanup(stop)
	return s, stop
}

// await waits until a condition of the state holds.
func (n *fakeNode) await(t *testing.T, what string, ok func(*fsm.View) bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		change := n.change()
		v := n.View()
		if ok(v) {
			return
		}
		select {
		case <-change:
		case <-limit:
			v.Hooks(func(h *outbox.Hook) bool { t.Logf("%+v", *h); return true })
			t.Fatalf("%s did not happen", what)
		}
	}
}
