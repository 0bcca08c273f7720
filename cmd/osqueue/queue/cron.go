package queue

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newCronCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("cron", "Manage schedules, which enqueue jobs at fixed times",
		`A schedule enqueues a job at its times. They are computed in the schedule's time
zone, and shown in yours.`)
	cmd.AddCommand(
		g.Read(view.ListCommand(g, "List the schedules",
			`Lists the schedules. NEXT and LAST are in your time zone; SKIPPED counts the times at
which no job was enqueued, and osqueue cron show has the reason of the last one. With
--json each line is one schedule.`,
			view.CronColumns, (*client.Client).Crons, view.CronRow)),
		g.Read(view.ShowCommand(g, "NAME", "Show a schedule",
			"Shows a schedule, its next times and its job, and the reason if it enqueued no job the last time.",
			(*client.Client).Cron, cronRows)),
		g.Read(newCronRunsCommand(g)),
		newCronPutCommand(g),
		newCronNamesCommand(g, "pause", "paused", "Pause schedules", (*client.Client).PauseCron),
		newCronResumeCommand(g), newCronTriggerCommand(g),
		newCronNamesCommand(g, "rm", "removed", "Remove schedules; their jobs stay", (*client.Client).DeleteCron),
	)
	return cmd
}

func cronRows(c v1.Cron) [][]string {
	rows := [][]string{
		{"name", c.Name},
		{"spec", c.Spec},
		{"zone", cmp.Or(c.TimeZone, "UTC")},
		{"next", view.NextText(c.Paused, c.NextAt)},
	}
	if len(c.NextTimes) > 1 {
		var then []string
		for _, at := range c.NextTimes[1:] {
			then = append(then, view.LocalTime(at))
		}
		rows = append(rows, []string{"then", strings.Join(then, ", ")})
	}
	rows = append(rows, view.NonEmptyRows(
		[]string{"start", view.LocalTime(c.StartAt)},
		[]string{"end", view.LocalTime(c.EndAt)},
		[]string{"jitter", view.MsOrNone(c.JitterMs)},
		[]string{"max fires", view.CountOrNone(int64(c.MaxFires))},
	)...)
	rows = append(rows, [][]string{
		{"overlap", cmp.Or(c.Overlap, v1.OverlapAllow)},
		{"missed", cmp.Or(c.Missed, v1.MissedSkip)},
		{"created", view.LocalTime(c.CreatedAt)},
		{"changed", view.LocalTime(c.UpdatedAt)},
		{"last", view.LocalTime(c.LastAt)},
		{"last job", view.OrDash(c.LastJobID)},
		{"fired", strconv.FormatUint(c.Fired, 10)},
		{"skipped", strconv.FormatUint(c.Skipped, 10)},
		{"missed times", strconv.FormatUint(c.MissedCount, 10)},
	}...)
	rows = append(rows, view.NonEmptyRows([]string{"last error", c.LastError})...)
	return append(rows, newJobRows(c.Job)...)
}

func newCronRunsCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "runs NAME",
		Short: "List the last runs of a schedule",
		Long: `Lists the last 50 runs of a schedule, the youngest first: the time, the job, and how the
job ended or why the time was skipped. TIME is in your time zone; a run by hand has the
time of osqueue cron trigger. "-" is a job that has not ended. A retried job has not
ended, and one that is removed before its end counts as cancelled. duplicate: another
job has the unique key. With --json each line is one run.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			cron, err := c.Cron(ctx, args[0])
			if err != nil {
				return err
			}
			runs := func(yield func(v1.CronRun, error) bool) {
				for _, r := range cron.Runs {
					if !yield(r, nil) {
						return
					}
				}
			}
			return view.PrintAll(g, view.Columns("TIME", "JOB", "OUTCOME", "REASON"), runs, func(r v1.CronRun) []string {
				return []string{view.LocalTime(r.At), view.OrDash(r.JobID), view.OrDash(r.Outcome), r.Reason}
			})
		}),
	}
}

// newJobRows returns table rows for a job that is not enqueued yet.
func newJobRows(j v1.NewJob) [][]string {
	most := int64(0)
	if j.MaxAttempts != nil {
		most = int64(*j.MaxAttempts)
	}
	rows := [][]string{{"type", view.OrDash(j.Type)}}
	return append(rows, view.NonEmptyRows(
		[]string{"payload", string(j.Payload)},
		[]string{"priority", view.CountOrNone(int64(j.Priority))},
		[]string{"max attempts", view.CountOrNone(most)},
		[]string{"lease", view.MsOrNone(j.LeaseMs)},
		[]string{"job timeout", view.MsOrNone(j.TimeoutMs)},
		[]string{"retain", view.MsOrNone(j.RetainMs)},
		[]string{"backoff", view.BackoffText(j.Backoff)},
		[]string{"on error", view.OnErrorText(j.OnError)},
		[]string{"group", j.Group},
		[]string{"tags", strings.Join(j.Tags, " ")},
		[]string{"sequence", j.Sequence},
		[]string{"limits", strings.Join(j.Limits, " ")},
		[]string{"unique", view.UniqueText(v1.Job{UniqueKey: j.UniqueKey, UniqueScope: j.UniqueScope, UniqueMs: j.UniqueMs})},
	)...)
}

func newCronNamesCommand(g *view.Globals, verb, done, short string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME…",
		Short: short,
		Long:  short + ".",
		RunE:  eachName(g, done, do),
	}
}

func newCronResumeCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME…",
		Short: "Resume paused schedules",
		Long:  "Resumes paused schedules. Times that passed during the pause are skipped.",
		RunE: g.Each(func(ctx context.Context, c *client.Client, name string) error {
			put, err := c.ResumeCron(ctx, name)
			if err != nil {
				return err
			}
			return showCronPut(g, name, "resumed", put, false)
		}),
	}
}

func newCronTriggerCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "trigger NAME",
		Short: "Enqueue the job of a schedule now",
		Long: `Enqueues the job of a schedule now, paused or not, and prints its id. The
schedule's next time stays as it is.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			got, err := c.TriggerCron(ctx, args[0])
			if err != nil {
				return err
			}
			return errors.Join(noteHolder(g, got), showEnqueued(g, got))
		}),
	}
}

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
	start   view.Time
	end     view.Time
	jitter  time.Duration
	max     uint64
}

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
Of the times that passed while there was no leader only the last one fires. --missed
applies if that time is more than a minute ago: skip it, or one (fire). The other times
count as missed, also times that a change of the clocks left out. With --missed all
each time that passed without a leader fires, the oldest first.

The times begin with --start, and are before --end. With --jitter each job runs later
by a part of that time, which depends on the name and the time, so that schedules of the
same time spread. Each job has the time in its header osqueue-scheduled-at, in ms since
1970. After --max jobs, with those of cron trigger, the schedule fires no more; to begin
again, remove it and put it again.

` + view.UniqueHelp + "\n\n" + view.BackoffHelp,
		Example: `  osqueue cron put cleanup '0 3 * * *' --tz Europe/Berlin --type cleanup --overlap skip --missed one
  osqueue cron put poll '@every 30s' --type poll --payload '{"url":"http://127.0.0.1/"}' --job-timeout 20s
  osqueue cron put sale '0 * * * *' --type prices --start 2026-12-01 --end 2027-01-01 --jitter 5m --missed all`,
		RunE: func(cmd *cobra.Command, args []string) error { return putCron(cmd.Context(), g, f, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "type", "", "type of the jobs")
	flags.StringVar(&f.payload, "payload", "", "payload of the jobs, JSON")
	flags.BoolVar(&f.text, "text", false, "the payload is text, not JSON")
	flags.StringVar(&f.zone, "tz", "", "time zone of the fields, as in Europe/Berlin (default UTC)")
	view.ChoiceVar(cmd, &f.overlap, "overlap", "allow or skip (default allow)", v1.OverlapAllow, v1.OverlapSkip)
	view.ChoiceVar(cmd, &f.missed, "missed", "skip, one or all (default skip)", v1.MissedSkip, v1.MissedOne, v1.MissedAll)
	view.TimeVar(flags, &f.start, false, "start", "no times before it: a time as for submit --run-at")
	view.TimeVar(flags, &f.end, false, "end", "no times at it or after it")
	view.SpanVar(flags, &f.jitter, "jitter", 0, "each job runs later by a part of it")
	flags.Uint64Var(&f.max, "max", 0, "maximum number of jobs; 0 is no limit")
	flags.BoolVar(&f.paused, "paused", false, "create it paused")
	f.bind(flags)
	return cmd
}

func (f *cronFlags) check() error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	if !f.flags.Changed("type") {
		return view.Usagef("--type is missing: give the type of the jobs, or '' for jobs without type\nUsage: osqueue cron put NAME SPEC --type TYPE [flags]")
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
			Start: f.start.At, End: f.end.At, Jitter: f.jitter, MaxFires: f.max,
		})
		if err != nil {
			return err
		}
		return showCronPut(g, name, done, put, f.paused)
	})
}

func showCronPut(g *view.Globals, name, done string, put v1.CronPut, paused bool) error {
	return g.Print(view.Written(g, put), "%s  %s; next: %s\n", name, done, view.NextText(paused, put.NextAt))
}
