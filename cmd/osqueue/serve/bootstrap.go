package serve

import (
	"context"
	"errors"
	"time"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/internal/sleep"
)

// bootstrapLook is the interval at which a node checks whether it leads a cluster that has no
// token yet.
const bootstrapLook = 250 * time.Millisecond

// startBootstrap adds the first token when this node leads a cluster that has none, in the
// background. Every node may try: the token is the same, and a second attempt changes nothing.
// The caller calls stop.
func (s *server) startBootstrap(ctx context.Context) (stop func()) {
	if s.first == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := true; again; {
			again = !s.bootstrap(ctx) && sleep.For(ctx, bootstrapLook)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// bootstrap returns true once the cluster has a token. It proposes the first one on the active
// leader only, whose state is complete.
func (s *server) bootstrap(ctx context.Context) bool {
	if v := s.node.View(); v.TokenCount() > 0 || v.Token(fsm.BootstrapMark) != nil {
		return true
	}
	if _, self := s.node.Leader(); !self {
		return false
	}
	results, _, err := s.node.ProposeAll(ctx, s.first.Mutations())
	if err != nil {
		if !errors.Is(err, cluster.ErrNotLeader) && !errors.Is(err, cluster.ErrLevel) && ctx.Err() == nil {
			s.log.Warn("the first token is not added yet", "token", s.first.ID, "error", err)
		}
		return false
	}
	if code := results[0].Code; code != fsm.OK && code != fsm.Duplicate {
		s.log.Error("the first token was refused", "token", s.first.ID, "code", code)
		return true
	}
	s.log.Info("the first admin token of this cluster is valid", "token", s.first.ID)
	return true
}
