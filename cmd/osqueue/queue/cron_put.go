package queue

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// cronFlags are the flags of "osqueue cron put".
type cronFlags struct {
	jobFlags
	kind    string
	payload string
	text    bool
	zone    string
	overlap string
	missed  string
	paused  bool
}

var (
	overlaps = []string{v1.OverlapAllow, v1.OverlapSkip}
	misses   = []string{v1.MissedSkip, v1.MissedOne}
)

func newCronPutCommand(g *view.Globals) *cobra.Command {
	f := &cronFlags{}
	cmd := &cobra.Command{
		Use:   "put NAME SPEC --type TYPE",
		Short: "Create or replace a schedule",
		Long: `Creates a schedule, or replaces the one of that name, and prints its next time.
SPEC is five fields (minute, hour, day of the month, month, day of the week) as in
cron(5), six with seconds in front, or @hourly, @daily, @weekly, @monthly, @yearly, or
@every 5m. When the clocks of the time zone change, the rules of cron apply: a fixed time
in the skipped hour fires right after it, one in the repeated hour fires once. With a *
in minute or hour the schedule follows the clocks.

--overlap applies while the last job has not ended: allow (enqueue another) or skip.
Of the times that passed while there was no leader only the last one fires: give a
schedule whose times must all fire a period longer than a failover. --missed applies if
that time is more than a minute ago: skip it, or one (fire). The other times, and those
that a change of the clocks left out, count as missed.

` + view.UniqueHelp + "\n\n" + view.BackoffHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue cron put cleanup '0 3 * * *' --tz Europe/Berlin --type cleanup --overlap skip --missed one
  osqueue cron put poll '@every 30s' --type poll --payload '{"url":"http://127.0.0.1/"}' --job-timeout 20s`,
		Args: view.UsageArgs(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return putCron(cmd.Context(), g, f, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "type", "", "type of the jobs")
	flags.StringVar(&f.payload, "payload", "", "payload of the jobs, JSON")
	flags.BoolVar(&f.text, "text", false, "the payload is text, not JSON")
	flags.StringVar(&f.zone, "tz", "", "time zone of the fields, as in Europe/Berlin (default UTC)")
	flags.StringVar(&f.overlap, "overlap", "", "allow or skip (default allow)")
	flags.StringVar(&f.missed, "missed", "", "skip or one (default skip)")
	flags.BoolVar(&f.paused, "paused", false, "create it paused")
	f.bind(flags)
	view.CompleteFlag(cmd, "overlap", overlaps...)
	view.CompleteFlag(cmd, "missed", misses...)
	return cmd
}

func (f *cronFlags) check() error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	if !f.flags.Changed("type") {
		return view.Usagef("--type is missing: give the type of the jobs, or '' for jobs without type\nUsage: osqueue cron put NAME SPEC --type TYPE [flags]")
	}
	if f.overlap != "" && !slices.Contains(overlaps, f.overlap) {
		return view.Usagef("--overlap %q: use %s", f.overlap, strings.Join(overlaps, " or "))
	}
	if f.missed != "" && !slices.Contains(misses, f.missed) {
		return view.Usagef("--missed %q: use %s", f.missed, strings.Join(misses, " or "))
	}
	return nil
}

func putCron(ctx context.Context, g *view.Globals, f *cronFlags, name, spec string) error {
	if err := f.check(); err != nil {
		return err
	}
	payload, err := payloadOf("payload", f.payload, f.text)
	if err != nil {
		return err
	}
	job := f.job()
	job.Type, job.Payload = f.kind, payload
	return g.WithClient(ctx, func(ctx context.Context, c *client.Client) error {
		done := "replaced"
		if _, err := c.Cron(ctx, name); client.IsNotFound(err) {
			done = "created"
		} else if err != nil {
			return err
		}
		put, err := c.PutCron(ctx, name, client.NewCron{
			Spec: spec, TimeZone: f.zone, Job: job, Overlap: f.overlap, Missed: f.missed, Paused: f.paused,
		})
		if err != nil {
			return err
		}
		return showCronPut(g, name, done, put, f.paused)
	})
}

func showCronPut(g *view.Globals, name, done string, put v1.CronPut, paused bool) error {
	if g.JSON {
		return view.WriteWritten(g, put)
	}
	return g.Printf("%s  %s; next: %s\n", name, done, view.NextText(paused, put.NextAt))
}
