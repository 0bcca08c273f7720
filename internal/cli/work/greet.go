package work

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
)

// greetWait is the time after which greet reports that no node answers: the worker's own
// calls are retried for much longer before they fail.
const greetWait = 3 * time.Second

// greet warns at the start of problems that would show late: no node answers, or another
// worker has the same name.
func greet(ctx context.Context, c *client.Client, name string, log hclog.Logger) {
	short, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	other, err := c.Worker(short, name)
	switch {
	case ctx.Err() != nil || client.HasTag(err, v1.TagNotFound):
	case client.HasTag(err, v1.TagForbidden): // a token of the role worker does not show workers
	case err != nil:
		log.Warn("no node has answered yet; the worker keeps trying", "error", view.Explain(err, greetWait))
	default:
		log.Warn("a worker with this name sent a heartbeat a moment ago; if it is to go on, give each worker its own --name",
			"name", name, "heard", units.AgoText(other.LastSeen, time.Now())+" ago")
	}
}
