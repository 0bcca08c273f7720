package hooks

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
	"osqueue/internal/sleep"
)

// New returns a Sender.
func New(cfg Config) *Sender {
	cfg = limit.Defaults(cfg, Config{Timeout: requestTimeout, Backoff: backoffFirst, Keys: &Keys{}, Log: hclog.NewNullLogger()})
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
		for h := range v.Hooks {
			if senders[h.Name] == nil {
				own, stop := context.WithCancel(ctx)
				hs := newHookSender(s, node, h.Name, stop)
				senders[h.Name] = hs
				wg.Go(func() { hs.run(own) })
			}
		}
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
		sleep.For(ctx, lookIdle)
		return
	}
	sleep.For(ctx, lookAtMost)
	wait, cancel := context.WithTimeout(ctx, lookAtLeast)
	defer cancel()
	node.AwaitEvent(wait)
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

func (s *Sender) forget(hook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recent, hook)
	delete(s.failed, hook)
}
