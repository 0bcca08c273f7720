package queue

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newCronCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("cron", "Manage schedules, which enqueue jobs at fixed times",
		`A schedule enqueues a job at its times. They are reckoned in the schedule's time
zone, and shown in yours.`)
	cmd.AddCommand(
		g.At(g.Watch(newCronListCommand(g))), g.At(g.Watch(newCronShowCommand(g))), newCronPutCommand(g),
		newCronNamesCommand(g, "pause", "paused", "Pause schedules", (*client.Client).PauseCron),
		newCronResumeCommand(g), newCronTriggerCommand(g),
		newCronNamesCommand(g, "rm", "removed", "Remove schedules; their jobs stay", (*client.Client).DeleteCron),
	)
	return cmd
}

func newCronListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the schedules",
		Long: `Lists the schedules. NEXT and LAST are in your time zone; SKIPPED counts the times at
which no job was enqueued, and osqueue cron show has the reason of the last one. With
--json each line is one schedule.

` + view.ExitHelp,
		Args: view.UsageArgs(cobra.NoArgs),
		RunE: view.List(g, view.CronColumns, (*client.Client).Crons, view.CronRow),
	}
}

func newCronShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule",
		Long:  "Shows a schedule and its job, and the reason if it enqueued no job the last time.\n\n" + view.ExitHelp,
		Args:  view.UsageArgs(cobra.ExactArgs(1)),
		RunE:  view.Show(g, (*client.Client).Cron, showCron),
	}
}

func showCron(g *view.Globals, c v1.Cron) error {
	if g.JSON {
		return g.WriteJSON(c)
	}
	rows := [][]string{
		{"name", c.Name},
		{"spec", c.Spec},
		{"zone", view.ZoneText(c.TimeZone)},
		{"next", view.NextText(c.Paused, c.NextAt)},
		{"overlap", view.TextOr(c.Overlap, v1.OverlapAllow)},
		{"missed", view.TextOr(c.Missed, v1.MissedSkip)},
		{"created", view.LocalTime(c.CreatedAt)},
		{"changed", view.LocalTime(c.UpdatedAt)},
		{"last", view.LocalTime(c.LastAt)},
		{"last job", view.OrDash(c.LastJobID)},
		{"fired", strconv.FormatUint(c.Fired, 10)},
		{"skipped", strconv.FormatUint(c.Skipped, 10)},
		{"missed times", strconv.FormatUint(c.MissedCount, 10)},
	}
	rows = append(rows, view.NonEmptyRows([]string{"last error", c.LastError})...)
	return g.Table(append(rows, newJobRows(c.Job)...))
}

// newJobRows returns table rows for a job that is not enqueued yet.
func newJobRows(j v1.NewJob) [][]string {
	most := ""
	if j.MaxAttempts != nil {
		most = strconv.Itoa(int(*j.MaxAttempts))
	}
	priority := ""
	if j.Priority != 0 {
		priority = strconv.Itoa(int(j.Priority))
	}
	rows := [][]string{{"type", view.OrDash(j.Type)}}
	return append(rows, view.NonEmptyRows(
		[]string{"payload", string(j.Payload)},
		[]string{"priority", priority},
		[]string{"max attempts", most},
		[]string{"lease", view.MsOrNone(j.LeaseMs)},
		[]string{"job timeout", view.MsOrNone(j.TimeoutMs)},
		[]string{"backoff", view.BackoffText(j.Backoff)},
		[]string{"group", j.Group},
		[]string{"tags", strings.Join(j.Tags, " ")},
		[]string{"unique", view.UniqueText(v1.Job{UniqueKey: j.UniqueKey, UniqueScope: j.UniqueScope, UniqueMs: j.UniqueMs})},
	)...)
}

func newCronNamesCommand(g *view.Globals, verb, done, short string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME…",
		Short: short,
		Long:  short + ".\n\n" + view.ExitHelp,
		Args:  view.UsageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachName(cmd.Context(), g, args, done, do)
		},
	}
}

func newCronResumeCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME…",
		Short: "Resume paused schedules",
		Long:  "Resumes paused schedules. Times that passed during the pause are skipped.\n\n" + view.ExitHelp,
		Args:  view.UsageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.Each(cmd.Context(), args, func(ctx context.Context, c *client.Client, name string) error {
				put, err := c.ResumeCron(ctx, name)
				if err != nil {
					return err
				}
				return showCronPut(g, name, "resumed", put, false)
			})
		},
	}
}

func newCronTriggerCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "trigger NAME",
		Short: "Enqueue the job of a schedule now",
		Long: `Enqueues the job of a schedule now, paused or not, and prints its id. The
schedule's next time stays as it is.

` + view.ExitHelp,
		Args: view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				got, err := c.TriggerCron(ctx, args[0])
				if err == nil {
					err = noteHolder(g, got)
				}
				if err != nil {
					return err
				}
				return showEnqueued(g, got)
			})
		},
	}
}
