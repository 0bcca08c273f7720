package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

func newHookCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("hook", "Send events and alerts to URLs (webhooks)",
		`A hook sends events, such as job.dead, and alerts, such as queue.stuck, to a URL. The
leader delivers each at least once, signed, and with the same id in every repetition.`)
	cmd.AddCommand(
		g.InBucket(g.Watch(view.ListCommand(g, "List the hooks",
			`Lists the hooks, without their secrets. PENDING events are not delivered yet; FAILED
events were not delivered within --retry-for; DROPPED events did not fit into the outbox.
With --json each line is one hook.`,
			view.HookColumns, view.Whole((*client.Client).Hooks), view.HookRow))),
		g.InBucket(g.Watch(view.ShowCommand(g, "NAME", "Show a hook, its limits, and the alerts that fire",
			"Shows a hook, its limits, the state of its deliveries, and the alerts that fire.",
			(*client.Client).Hook, hookRows))),
		newHookPutCommand(g),
		newHookTestCommand(g), g.Watch(newHookDeliveriesCommand(g)),
		newCronNamesCommand(g, "rm", "removed", "Delete hooks, with the events that were not delivered", (*client.Client).DeleteHook),
	)
	return cmd
}

// hookFlags are the flags of "osqueue hook put".
type hookFlags struct {
	in         v1.NewHook
	secretFile string
	oldestAge  time.Duration
	lag        time.Duration
	retryFor   time.Duration
}

func newHookPutCommand(g *view.Globals) *cobra.Command {
	f := &hookFlags{}
	cmd := &cobra.Command{
		Use:   "put NAME --url URL --on EVENT,…",
		Short: "Create or replace a hook",
		Long: `Creates a hook, or replaces the one of that name, and prints the secret of a new one: the
key with which receivers verify deliveries. No command shows it again. A replaced hook
keeps its secret, its counters and its undelivered events; all other settings are those
of this command.

EVENT is a name, or a glob such as queue.*:
  job.dead, job.completed, job.failed (it will be tried again), job.cancelled, job.expired,
  job.removed (a dead job after its retention time),
  batch.done, schedule.missed, worker.gone, cluster.leader, cluster.diverged,
and alerts, which are sent when they begin (firing) and when they end (resolved):
  queue.stuck      the oldest available job is older than --oldest-age
  queue.failing    of the attempts of 5 minutes, --failure-percent failed
  queue.dead       --dead-grew jobs became dead in 10 minutes
  bucket.lag       the bucket is behind by --bucket-lag
  bucket.away, bucket.damaged, writes.refused`,
		Example: `  osqueue hook put ops --url https://example.com/osqueue --on job.dead,'queue.*'
  osqueue hook put mail --url https://example.com/mail --on queue.stuck --type 'mail.*' --oldest-age 2m
  osqueue hook put ops --url https://example.com/osqueue --on job.dead --rotate-secret`,
		RunE: func(cmd *cobra.Command, args []string) error { return putHook(cmd.Context(), g, f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.in.URL, "url", "", "URL that receives the events by POST")
	flags.StringSliceVar(&f.in.On, "on", nil, "events, or globs of them; may be given several times")
	flags.StringSliceVar(&f.in.Types, "type", nil, "glob of the types of jobs, such as mail.*; may be given several times (default: all)")
	flags.BoolVar(&f.in.HTTP, "http", false, "allow a URL without TLS")
	flags.BoolVar(&f.in.Paused, "paused", false, "keep events, but send none")
	flags.BoolVar(&f.in.RotateSecret, "rotate-secret", false, "make a new secret, and print it; the old one signs as well for a day")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret, whsec_ and Base64; - is stdin (default: the leader makes one)")
	view.SpanVar(flags, &f.oldestAge, "oldest-age", 0, "for queue.stuck (default 10m)")
	flags.Int64Var(&f.in.FailurePercent, "failure-percent", 0, "for queue.failing (default 50)")
	flags.Int64Var(&f.in.DeadGrew, "dead-grew", 0, "for queue.dead (default 10)")
	view.SpanVar(flags, &f.lag, "bucket-lag", 0, "for bucket.lag (default 1m)")
	view.SpanVar(flags, &f.retryFor, "retry-for", 0, "age at which an event is given up (default 24h)")
	flags.Var(view.Size(&f.in.BufferBytes), "buffer", "size of the outbox, as in 1MiB, up to 8MiB; the oldest events are dropped when it is full (default 2MiB)")
	view.CompleteFlag(cmd, "on", hookEvents...)
	return cmd
}

// hookEvents are offered by the completion.
var hookEvents = []string{
	"job.dead", "job.completed", "job.failed", "job.cancelled", "job.expired", "job.removed", "batch.done", "schedule.missed", "worker.gone", "cluster.leader", "cluster.diverged",
	"bucket.away", "bucket.damaged", "writes.refused", "queue.stuck", "queue.failing", "queue.dead", "bucket.lag",
}

// secretFileMax bounds a file with a secret, in bytes.
const secretFileMax = 4096

func (f *hookFlags) complete(ctx context.Context, g *view.Globals) error {
	switch {
	case f.in.URL == "":
		return view.Usagef("osqueue hook put: give --url, the URL that receives the events")
	case len(f.in.On) == 0:
		return view.Usagef("osqueue hook put: give --on, the events to send: %s", strings.Join(hookEvents, ", "))
	}
	f.in.OldestAgeMs, f.in.LagMs, f.in.RetryForMs = f.oldestAge.Milliseconds(), f.lag.Milliseconds(), f.retryFor.Milliseconds()
	if f.secretFile == "" {
		return nil
	}
	in, err := g.OpenInput(ctx, f.secretFile)
	if err != nil {
		return fmt.Errorf("--secret-file: %w", err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, secretFileMax))
	if err != nil {
		return fmt.Errorf("--secret-file: %w", err)
	}
	f.in.Secret = strings.TrimSpace(string(data))
	if f.in.Secret == "" {
		return errors.New("--secret-file: the file is empty")
	}
	return nil
}

func putHook(ctx context.Context, g *view.Globals, f *hookFlags, name string) error {
	if err := f.complete(ctx, g); err != nil {
		return err
	}
	return g.WithClient(ctx, func(ctx context.Context, c *client.Client) error {
		put, err := c.PutHook(ctx, name, f.in)
		if err != nil {
			return err
		}
		if put.Warning != "" && !g.JSON {
			_ = view.WritePlain(g.Err, "warning: "+put.Warning+"\n")
		}
		if put.Secret == "" {
			return g.Print(put, "%s  stored; its secret is unchanged, or the one that you gave\n", name)
		}
		return g.Print(put, "%s  stored; secret (shown only now): %s\n", name, put.Secret)
	})
}

func hookRows(h v1.Hook) [][]string {
	sealed := "in clear in the state"
	if h.SealedWith != "" {
		sealed = "sealed with key " + h.SealedWith
	}
	rows := [][]string{
		{"name", h.Name},
		{"url", h.URL},
		{"on", strings.Join(h.On, " ")},
		{"types", cmp.Or(strings.Join(h.Types, " "), "all")},
		{"state", view.HookState(h)},
		{"secret", sealed},
		{"pending", fmt.Sprintf("%d events, %d bytes of %d", h.Pending, h.PendingBytes, h.BufferBytes)},
		{"oldest", view.LocalTime(h.OldestAt)},
		{"delivered", strconv.FormatUint(h.Delivered, 10)},
		{"last", view.LocalTime(h.DeliveredAt)},
		{"failed", strconv.FormatUint(h.Failed, 10)},
		{"dropped", strconv.FormatUint(h.Dropped, 10)},
		{"oldest age", view.MsOrNone(h.OldestAgeMs)},
		{"failure percent", strconv.FormatInt(h.FailurePercent, 10)},
		{"dead grew", strconv.FormatInt(h.DeadGrew, 10)},
		{"bucket lag", view.MsOrNone(h.LagMs)},
		{"retry for", view.MsOrNone(h.RetryForMs)},
		{"made by", view.OrDash(h.MadeBy)},
		{"created", view.LocalTime(h.CreatedAt)},
		{"changed", view.LocalTime(h.UpdatedAt)},
	}
	if h.FailingSince != 0 {
		rows = append(rows, []string{"failing since", view.LocalTime(h.FailingSince)}, []string{"last error", h.LastError})
	}
	for _, a := range h.Alerts {
		rows = append(rows, []string{"alert", strings.TrimSpace(a.Rule+" "+a.Subject) + " since " + view.LocalTime(a.Since)})
	}
	return rows
}

func newHookTestCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Send an event of the kind hook.test",
		Long: `Sends an event of the kind hook.test to a hook, waits up to --timeout until it is
delivered, and prints the receiver's answer. The event is sent at once, also if the hook
pauses after failures. If the hook was put with --paused, the event stays in the outbox.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error { return testHook(ctx, g, c, args[0]) }),
	}
}

// testPoll is the time between two looks at the deliveries.
const testPoll = 100 * time.Millisecond

func testHook(ctx context.Context, g *view.Globals, c *client.Client, name string) error {
	sent, err := c.TestHook(ctx, name)
	if err != nil {
		return err
	}
	if h, err := c.Hook(ctx, name); err == nil && h.Paused {
		return notSent(sent.ID, h)
	}
	for {
		d, err := c.HookDeliveries(ctx, name)
		if err != nil && ctx.Err() == nil {
			return unknownTest(sent.ID, err)
		}
		for _, a := range d.Attempts {
			if a.ID == sent.ID {
				return showTested(g, name, a)
			}
		}
		if !sleep.For(ctx, testPoll) {
			return lateTest(ctx, c, sent.ID, name)
		}
	}
}

// showTimeout bounds the read of a hook after the end of --timeout.
const showTimeout = 2 * time.Second

func unknownTest(id string, err error) error {
	return fmt.Errorf("event %s is in the outbox; it is not known whether it was delivered: %w", id, err)
}

// lateTest says why a test event was not answered within --timeout.
func lateTest(ctx context.Context, c *client.Client, id, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showTimeout)
	defer cancel()
	h, err := c.Hook(ctx, name)
	if err != nil {
		return unknownTest(id, err)
	}
	return notSent(id, h)
}

// notSent says why a test event was not sent, or not answered, as far as the hook shows it.
func notSent(id string, h v1.Hook) error {
	switch {
	case h.Paused:
		return fmt.Errorf("hook %s is paused: event %s stays in the outbox until osqueue hook put without --paused", h.Name, id)
	case h.FailingSince != 0:
		return fmt.Errorf("event %s is in the outbox and was not answered yet; hook %s has failed since %s: %s",
			id, h.Name, view.LocalTime(h.FailingSince), h.LastError)
	}
	return fmt.Errorf("event %s is in the outbox and was not answered yet: see osqueue hook show %s", id, h.Name)
}

func showTested(g *view.Globals, name string, a v1.HookAttempt) error {
	if a.Error == "" {
		return g.Print(a, "%s  delivered %s: status %d in %d ms\n", name, a.ID, a.Status, a.TookMs)
	}
	if g.JSON {
		if err := g.WriteJSON(a); err != nil {
			return err
		}
	}
	return fmt.Errorf("hook %s: %s (event %s will be sent again)", name, a.Error, a.ID)
}

func newHookDeliveriesCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "deliveries NAME",
		Short: "Show the last attempts, and the oldest events that are not delivered",
		Long: `Shows the last 50 attempts of the leader, newest first, and the oldest 50 events that are not
delivered yet. A new leader begins with no attempts.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.HookDeliveries(ctx, args[0])
			if err != nil {
				return err
			}
			return showDeliveries(g, d)
		}),
	}
}

func showDeliveries(g *view.Globals, d v1.HookDeliveries) error {
	if g.JSON {
		return g.WriteJSON(d)
	}
	columns := view.Columns("TIME", "EVENT", "ID", "RESULT", "+SUBJECT")
	var rows [][]string
	tried := make(map[string]bool)
	for _, a := range d.Attempts {
		result := fmt.Sprintf("delivered, %d ms", a.TookMs)
		if a.Error != "" {
			result = fmt.Sprintf("attempt %d: %s", a.Attempt, a.Error)
		}
		tried[a.ID] = true
		rows = append(rows, []string{view.LocalTime(a.At), a.Type, a.ID, result, ""})
	}
	for _, e := range d.Pending {
		if !tried[e.ID] {
			rows = append(rows, []string{e.Timestamp, e.Type, e.ID, "pending", e.Data.Subject})
		}
	}
	return g.TableOf(columns, rows)
}
