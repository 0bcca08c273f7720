package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

func newCronCommand(g *globals) *cobra.Command {
	cmd := newGroupCommand("cron", "Enqueue jobs again and again, by schedules",
		`A schedule enqueues a job at its times. They are reckoned in the schedule's time
zone, and shown in yours.`)
	cmd.AddCommand(
		newCronListCommand(g), newCronShowCommand(g), newCronPutCommand(g),
		newCronNamesCommand(g, "pause", "paused", "Let schedules fire no more", (*client.Client).PauseCron),
		newCronResumeCommand(g), newCronTriggerCommand(g),
		newCronNamesCommand(g, "rm", "removed", "Remove schedules; their jobs stay", (*client.Client).DeleteCron),
	)
	return cmd
}

func newCronListCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the schedules",
		Long: `Lists the schedules. NEXT and LAST are in your time zone; SKIPPED counts the
times at which nothing was enqueued, and osqueue cron show says why the last time.
With --json each line is one schedule.

` + exitHelp,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.client()
			if err != nil {
				return err
			}
			defer c.Close()
			t := &longTable{g: g, rows: [][]string{cronColumns}}
			for cron, err := range c.Crons(cmd.Context()) {
				if err != nil {
					return err
				}
				if err := t.add(cron, func() []string { return cronRow(cron) }); err != nil {
					return err
				}
			}
			return t.end()
		},
	}
}

func newCronShowCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule",
		Long:  "Shows a schedule, its job, and why it enqueued nothing the last time, if so.\n\n" + exitHelp,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				cron, err := c.Cron(ctx, args[0])
				if err != nil {
					return err
				}
				return showCron(g, cron)
			})
		},
	}
}

func showCron(g *globals, c v1.Cron) error {
	if g.json {
		return g.writeJSON(c)
	}
	rows := [][]string{
		{"name", c.Name},
		{"spec", c.Spec},
		{"zone", zoneText(c.TimeZone)},
		{"next", nextText(c.Paused, c.NextAt)},
		{"overlap", textOr(c.Overlap, v1.OverlapAllow)},
		{"missed", textOr(c.Missed, v1.MissedSkip)},
		{"created", units.LocalTime(c.CreatedAt)},
		{"changed", units.LocalTime(c.UpdatedAt)},
		{"last", units.LocalTime(c.LastAt)},
		{"last job", orDash(c.LastJobID)},
		{"fired", strconv.FormatUint(c.Fired, 10)},
		{"skipped", strconv.FormatUint(c.Skipped, 10)},
		{"missed times", strconv.FormatUint(c.MissedCount, 10)},
	}
	rows = append(rows, set([]string{"last error", c.LastError})...)
	return g.table(append(rows, newJobRows(c.Job)...))
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
	rows := [][]string{{"type", orDash(j.Type)}}
	return append(rows, set(
		[]string{"payload", string(j.Payload)},
		[]string{"priority", priority},
		[]string{"max attempts", most},
		[]string{"lease", msOrNone(j.LeaseMs)},
		[]string{"job timeout", msOrNone(j.TimeoutMs)},
		[]string{"backoff", units.BackoffText(j.Backoff)},
		[]string{"group", j.Group},
		[]string{"tags", strings.Join(j.Tags, " ")},
		[]string{"unique", units.UniqueText(v1.Job{UniqueKey: j.UniqueKey, UniqueScope: j.UniqueScope, UniqueMs: j.UniqueMs})},
	)...)
}

func newCronNamesCommand(g *globals, verb, done, short string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME…",
		Short: short,
		Long:  short + ".\n\n" + exitHelp,
		Args:  usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachName(cmd.Context(), g, args, done, do)
		},
	}
}

func newCronResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME…",
		Short: "End the pause of schedules",
		Long:  "Ends the pause of schedules. Times that passed meanwhile are not made up for.\n\n" + exitHelp,
		Args:  usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				for _, name := range args {
					put, err := c.ResumeCron(ctx, name)
					if err == nil {
						err = showCronPut(g, name, "resumed", put, false)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func showCronPut(g *globals, name, done string, put v1.CronPut, paused bool) error {
	if g.json {
		return writeWritten(g, put)
	}
	return g.printf("%s  %s; next: %s\n", name, done, nextText(paused, put.NextAt))
}

func newCronTriggerCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "trigger NAME",
		Short: "Enqueue the job of a schedule now",
		Long: `Enqueues the job of a schedule now, paused or not, and prints its id. The
schedule's next time stays as it is.

` + exitHelp,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.withClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
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

// showEnqueued prints the id of a job that was enqueued.
func showEnqueued(g *globals, e client.Enqueued) error {
	if g.json {
		return writeWritten(g, v1.Enqueued{JobID: e.JobID, LSN: e.LSN, Duplicate: e.Duplicate})
	}
	return g.printf("%s\n", e.JobID)
}
