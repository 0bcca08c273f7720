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
	Resolver *net.Resolver // nil: the system's, for deliveries alone
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

// recentMax is the number of attempts of a hook that are kept.
const recentMax = 50
