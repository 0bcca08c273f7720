package work

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// greetWait is the time after which greet reports that no node answers: the worker's own
// calls are retried for much longer before they fail.
const greetWait = 3 * time.Second

// checkPrograms refuses types whose payloads are programs if the nodes let producers without the right
// to run programs enqueue them.
func checkPrograms(ctx context.Context, c *client.Client, jobs []workerJob) error {
	runs := func(j workerJob) bool { return j.Python || j.Commands }
	if !slices.ContainsFunc(jobs, runs) {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	self, err := c.Self(short)
	if err != nil {
		return nil // greet reports it
	}
	for _, j := range jobs {
		guarded := slices.ContainsFunc(self.ProgramTypes, func(glob string) bool {
			ok, err := path.Match(glob, j.Type)
			return glob == j.Type || ok && err == nil && j.Type != "*"
		})
		if runs(j) && self.ID != "" && !guarded {
			return view.Usagef("%s: any producer could run programs here, because the nodes do not know that jobs of this type are programs: "+
				"start the nodes with --program-types %s, or use one of these types: %s",
				j, strings.Join(append(self.ProgramTypes[:len(self.ProgramTypes):len(self.ProgramTypes)], j.Type), ","), strings.Join(self.ProgramTypes, ", "))
		}
	}
	return nil
}

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
			"name", name, "heard", view.AgoText(other.LastSeen, time.Now())+" ago")
	}
}
