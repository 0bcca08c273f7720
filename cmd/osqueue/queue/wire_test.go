package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// Ctrl-C is how one stops to follow events: no failure.
func TestEventsUntilCtrlC(t *testing.T) {
	q := clitest.NewFake(t)
	c := osq.Command(t, q.Server.URL)
	ctx, stop := context.WithCancel(c.Ctx)
	c.Ctx = ctx
	go func() {
		for !strings.Contains(c.Out.String(), "gap") && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		stop()
	}()
	if got := c.Run("events"); got.Code != view.ExitOK || got.Err != "" {
		t.Errorf("%+v", got)
	}
}
