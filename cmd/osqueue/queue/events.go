package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// eventKinds are the kinds that a filter accepts.
var eventKinds = []string{
	v1.EventEnqueued, v1.EventDue, v1.EventUnblocked, v1.EventClaimed, v1.EventCompleted, v1.EventFailed,
	v1.EventLeaseExpired, v1.EventTimedOut, v1.EventReleased, v1.EventDead, v1.EventCancelling, v1.EventEdited, v1.EventSignalled, v1.EventSuspended, v1.EventCancelled, v1.EventExpired,
	v1.EventRetried, v1.EventProgress, v1.EventRemoved,
	v1.EventBrokerRegistered, v1.EventWorkerRegistered, v1.EventWorkerDead, v1.EventWorkerSet, v1.EventQueueSet, v1.EventLimitSet,
	v1.EventCronPut, v1.EventCronDeleted, v1.EventCronFired, v1.EventCronSkipped, v1.EventBatchEnded,
	v1.EventBucketAway, v1.EventBucketBack, v1.EventWritesRefused, v1.EventWritesAccepted,
	v1.EventBucketDamaged, v1.EventBucketHealed,
}

// sinceStart is the value of --since for all stored events, and firstEvent an id before
// all of them.
const (
	sinceStart = "start"
	firstEvent = "0-0.0"
)

// eventFlags are the flags of "osqueue events".
type eventFlags struct {
	since string
	kinds []string
	kind  string // of jobs
	job   string
	limit int
}

func newEventsCommand(g *view.Globals) *cobra.Command {
	f := &eventFlags{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Follow the events of the queue",
		Long: `Prints the events of the queue as they happen, until Ctrl-C. --since ID starts after
that event, --since start with the oldest event that the nodes keep. If a node dies, the
stream continues from another node without loss; a line "gap" means that events are
missing because the nodes no longer keep them.

Each line is the event's time, its kind and its object; --json has the ids.

The kinds are:
  ` + strings.ReplaceAll(ansi.Wordwrap(strings.Join(eventKinds, " "), 76, ""), "\n", "\n  "),
		Example: `  osqueue events --type mail --kind job.dead,job.failed
  osqueue events --job 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11 --since start
  osqueue events --json | jq -r 'select(.kind == "job.completed").jobId'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return followEvents(cmd.Context(), g, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "id of the event after which to start, or start for the oldest one (default: new events)")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of these kinds, several with commas")
	flags.StringVar(&f.kind, "type", "", "only jobs of this type")
	flags.StringVar(&f.job, "job", "", "only this job")
	flags.Var(view.From(&f.limit, 0), "limit", "exit after this number of events (default: no limit)")
	view.CompleteFlag(cmd, "kind", eventKinds...)
	return cmd
}

func (f *eventFlags) options() (client.EventOptions, error) {
	o := client.EventOptions{Kinds: f.kinds, Type: f.kind, JobID: f.job, After: f.since}
	if f.since == sinceStart {
		o.After = firstEvent
	}
	for _, k := range f.kinds {
		if !slices.Contains(eventKinds, k) {
			return o, view.Usagef("--kind %q: unknown kind; use %s", k, strings.Join(eventKinds, ", "))
		}
	}
	return o, nil
}

func followEvents(ctx context.Context, g *view.Globals, f *eventFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	return g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		n := 0
		for e, err := range c.Events(ctx, options) {
			if err != nil {
				return unlessStopped(ctx, err)
			}
			if err := showEvent(g, e); err != nil {
				return err
			}
			if n++; n == f.limit {
				return nil
			}
		}
		return nil
	})
}

// unlessStopped returns nil if ctx has ended, because Ctrl-C is the normal way to stop
// following. Otherwise it returns err.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func showEvent(g *view.Globals, e v1.Event) error {
	if g.JSON {
		return g.WriteJSON(e)
	}
	if e.Kind == v1.EventGap {
		return g.Printf("%s: events were missed; this is the present state of the job\n", e.Kind)
	}
	at := time.UnixMilli(e.At).Local().Format("15:04:05.000")
	return g.Printf("%s\n", strings.TrimRight(fmt.Sprintf("%s  %-17s  %s", at, e.Kind, view.PlainLine(eventText(e))), " "))
}

// eventText describes the subject of an event.
func eventText(e v1.Event) string {
	var parts []string
	add := func(format, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, text))
		}
	}
	add("%s", e.Name)
	add("%s", e.JobID)
	add("%s", e.Type)
	add("%s", transition(e))
	if e.WorkerID != nil {
		add("on %s", *e.WorkerID)
	}
	if e.Attempts > 0 {
		add("attempt %s", fmt.Sprint(e.Attempts))
	}
	if e.Kind == v1.EventProgress {
		add("%s%%", fmt.Sprint(e.Percent))
	}
	add("%s", e.Message)
	add("%s", view.FirstLine(e.Error))
	add("by %s", e.Actor)
	return strings.Join(parts, "  ")
}

// transition describes the change of a job's status. It returns "" if there is none.
func transition(e v1.Event) string {
	if e.From == e.Status || e.Status == "" {
		return ""
	}
	if e.From == "" {
		return v1.StatusWord(e.Status)
	}
	return v1.StatusWord(e.From) + " → " + v1.StatusWord(e.Status)
}
