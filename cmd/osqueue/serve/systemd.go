package serve

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"osqueue/internal/sleep"
)

// notify tells systemd the state of the node. Without NOTIFY_SOCKET it does nothing.
func notify(log hclog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot tell systemd the state of the node", "state", state, "error", err)
	}
}

// watchdog tells systemd that the node lives, twice in each WatchdogSec, until ctx ends. A node
// whose status does not return says nothing, and systemd kills it.
func (s *server) watchdog(ctx context.Context) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	for sleep.For(ctx, max(every/2, time.Millisecond)) {
		s.node.Status()
		notify(s.log, daemon.SdNotifyWatchdog)
	}
}
