package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
)

// edit are the flags of "osqueue job set".
type edit struct {
	payload     string
	text        bool
	priority    int32
	runAt       view.Time
	delay       time.Duration
	tags        []string
	limits      []string
	maxAttempts int32
	revision    uint64
	retry       bool
}

func newJobSetCommand(g *view.Globals) *cobra.Command {
	var e edit
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change fields of a job that waits, or of a dead one that is retried",
		Long: `Changes the fields of a job that are given. The job waits: it is available, scheduled
or blocked. With --retry it may also be dead, cancelled or expired, and is retried.
The next attempt sees the new fields. A job that runs cannot be changed: cancel it, and then
change and retry it.`,
		Example: `  osqueue job set order-17 --priority 10
  osqueue job set order-17 --payload '{"to":"ann@example.org"}' --retry
  osqueue job set order-17 --delay 0s --revision 3`,
	}
	flags := cmd.Flags()
	flags.StringVar(&e.payload, "payload", "", "new payload, as JSON")
	flags.BoolVar(&e.text, "text", false, "the payload is text, not JSON")
	flags.Int32Var(&e.priority, "priority", 0, "higher first")
	view.TimeVar(flags, &e.runAt, false, "run-at", "do not run it before that time, as in submit")
	view.SpanVar(flags, &e.delay, "delay", 0, "do not run it before so long from now; 0s is at once")
	flags.StringArrayVar(&e.tags, "tag", nil, "tag, in place of all the job has; may be given several times; '' is no tag")
	flags.StringArrayVar(&e.limits, "limit", nil, "key of a limit, in place of all the job has; may be given several times; '' is no limit")
	flags.Var(view.From(&e.maxAttempts, 0), "max-attempts", "maximum number of attempts, with those that were made")
	flags.Uint64Var(&e.revision, "revision", 0, "change the job only if it has this revision, which osqueue job show prints; 0: it was not changed yet")
	flags.BoolVar(&e.retry, "retry", false, "retry the job if it is dead, cancelled or expired")
	cmd.MarkFlagsMutuallyExclusive("run-at", "delay")
	cmd.RunE = g.Call(func(ctx context.Context, c *client.Client, args []string) error {
		wanted, err := e.read(cmd)
		if err != nil {
			return err
		}
		got, err := c.Edit(ctx, args[0], wanted)
		if err != nil {
			return err
		}
		out := map[string]any{"jobId": got.JobID, "changed": !got.Duplicate, "status": got.Status, "revision": got.Revision}
		text := fmt.Sprintf("changed; revision %d", got.Revision)
		if got.Duplicate {
			text = "unchanged: it has these fields"
		}
		return g.Print(view.Written(g, out), "%s  %s\n", got.JobID, text)
	})
	return cmd
}

// read returns what the given flags change.
func (e *edit) read(cmd *cobra.Command) (wanted client.Edit, err error) {
	given := cmd.Flags().Changed
	wanted.Retry = e.retry
	if given("payload") {
		if wanted.Payload, err = asJSON([]byte(e.payload), e.text); err != nil {
			return wanted, view.Usagef("--payload %w", err)
		}
	}
	if given("priority") {
		wanted.Priority = &e.priority
	}
	if given("run-at") {
		wanted.RunAt = &e.runAt.At
	}
	if given("delay") {
		wanted.Delay = &e.delay
	}
	if given("tag") {
		wanted.Tags = allOf(e.tags)
	}
	if given("limit") {
		wanted.Limits = allOf(e.limits)
	}
	if given("max-attempts") {
		wanted.MaxAttempts = &e.maxAttempts
	}
	if given("revision") {
		wanted.Revision = &e.revision
	}
	return wanted, nil
}

// allOf returns the values of a flag that replaces a list; one empty value is an empty list.
func allOf(values []string) []string {
	if strings.Join(values, "") == "" {
		return []string{}
	}
	return values
}
