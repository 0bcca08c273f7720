package serve

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cmd/osqueue/view"
)

// exitGuard ends the process if a graceful stop takes too long. A hung disk or bucket
// would block the stop, and a process that remains keeps its service manager from
// starting the next one. It is safe for concurrent use.
type exitGuard struct {
	log  hclog.Logger
	exit func(code int)

	mu    sync.Mutex
	at    time.Time // of the exit; zero: none is due
	timer *time.Timer
}

func newExitGuard(log hclog.Logger, exit func(code int)) *exitGuard {
	return &exitGuard{log: log, exit: exit}
}

// within ends the process in d, unless stop is called before. An earlier limit stays.
func (g *exitGuard) within(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := time.Now().Add(d)
	if g.timer != nil {
		if g.at.Before(at) {
			return
		}
		g.timer.Stop()
	}
	g.at = at
	g.timer = time.AfterFunc(d, func() { g.expire(d) })
}

// stop says that the end was orderly.
func (g *exitGuard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}

// lastWords bounds the write of the last line of the log, which may be on the disk
// that hangs.
const lastWords = 50 * time.Millisecond

func (g *exitGuard) expire(d time.Duration) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		g.log.Error("the node did not stop in time; the process exits", "waited", d)
	}()
	select {
	case <-logged:
	case <-time.After(lastWords):
	}
	g.exit(view.ExitFailure)
}
