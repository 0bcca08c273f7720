package hooks

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Config configures a Sender.
type Config struct {
	Allow    []netip.Prefix // addresses that deliveries may reach in addition to public ones
	Roots    *x509.CertPool // nil: the system's
	Keys     *Keys
	Resolver *net.Resolver // nil: the system's
	Timeout  time.Duration // of one request; 0: 10 s
	Log      hclog.Logger
	// Backoff is the pause after the first failure; 0: 1 s.
	Backoff time.Duration
}

// Node is the node that the Sender runs on.
type Node interface {
	// View freezes the state.
	View() *fsm.View
	// Propose commits one mutation, on the active leader.
	Propose(ctx context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error)
	// AwaitEvent returns when there may be a new event, or when ctx ends.
	AwaitEvent(ctx context.Context)
	// Now returns the queue's time, in ms.
	Now() int64
	// AllTypeStats returns the figures of every type that has jobs.
	AllTypeStats() map[string]fsm.TypeStats
	// LagMs returns the age of the oldest change that is not in the bucket.
	LagMs() int64
}

// Sender delivers the events of all hooks. It is safe for concurrent use.
type Sender struct {
	cfg    Config
	client *http.Client

	mu     sync.Mutex
	recent map[string][]v1.HookAttempt // by hook, oldest first
	failed map[string]uint64           // attempts of this process, by hook
}

// recentMax is the number of attempts of a hook that are kept.
const recentMax = 50

// New returns a Sender.
func New(cfg Config) *Sender {
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = backoffFirst
	}
	if cfg.Keys == nil {
		cfg.Keys = &Keys{}
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Sender{cfg: cfg, client: newClient(&cfg), recent: make(map[string][]v1.HookAttempt), failed: make(map[string]uint64)}
}

// The pauses of Run between two looks at the outboxes.
const (
	lookAtMost  = 20 * time.Millisecond  // after a look that found something to do
	lookAtLeast = 250 * time.Millisecond // without events
	lookIdle    = time.Second            // without hooks
)

// Run delivers the events until ctx ends. The active leader calls it.
func (s *Sender) Run(ctx context.Context, node Node) {
	senders := make(map[string]*hookSender)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.client.CloseIdleConnections()
	watch := newRules(s, node)
	for ctx.Err() == nil {
		v := node.View()
		v.Hooks(func(h *fsm.Hook) bool {
			if senders[h.Name] == nil {
				own, stop := context.WithCancel(ctx)
				hs := newHookSender(s, node, h.Name, stop)
				senders[h.Name] = hs
				wg.Go(func() { hs.run(own) })
			}
			return true
		})
		for name, hs := range senders {
			if v.Hook(name) == nil {
				hs.stop()
				delete(senders, name)
				s.forget(name)
				continue
			}
			hs.update(v)
		}
		watch.evaluate(ctx, v)
		pause(ctx, node, len(senders) > 0)
	}
}

// pause waits until there may be something to do.
func pause(ctx context.Context, node Node, hooks bool) {
	if !hooks {
		sleepFor(ctx, lookIdle)
		return
	}
	sleepFor(ctx, lookAtMost)
	wait, cancel := context.WithTimeout(ctx, lookAtLeast)
	defer cancel()
	node.AwaitEvent(wait)
}

func sleepFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Attempts returns the last attempts of a hook on this node, newest first.
func (s *Sender) Attempts(hook string) []v1.HookAttempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.recent[hook]
	out := make([]v1.HookAttempt, 0, len(kept))
	for i := len(kept) - 1; i >= 0; i-- {
		out = append(out, kept[i])
	}
	return out
}

// FailedAttempts calls fn with the number of failed attempts of each hook since this process
// started.
func (s *Sender) FailedAttempts(fn func(hook string, n uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.failed {
		fn(name, n)
	}
}

// Keys returns the keys that seal secrets.
func (s *Sender) Keys() *Keys { return s.cfg.Keys }

func (s *Sender) note(hook string, a v1.HookAttempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[hook] = append(s.recent[hook], a)
	s.recent[hook] = s.recent[hook][max(0, len(s.recent[hook])-recentMax):]
	if a.Error != "" {
		s.failed[hook]++
	} else if _, ok := s.failed[hook]; !ok {
		s.failed[hook] = 0
	}
}

func (s *Sender) forget(hook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recent, hook)
	delete(s.failed, hook)
}
