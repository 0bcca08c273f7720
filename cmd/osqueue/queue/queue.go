package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newQueueCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("queue", "Show and pause the types of jobs, and change their settings",
		`Every type of jobs is a queue, with figures and settings of its own. The jobs
without type are one, too; its name is ''.`)
	cmd.AddCommand(
		g.Read(newQueueListCommand(g)), g.Read(newQueueShowCommand(g)), newQueuePauseCommand(g), newQueueResumeCommand(g),
		newQueueSetCommand(g), newQueueResetCommand(g), newQueuePurgeCommand(g),
	)
	return cmd
}

// queueSorts are the values of --sort and those of the API.
var queueSorts = map[string]string{"name": v1.SortType, "oldest": v1.SortOldestAt, "available": v1.SortMostUnclaimed}

func newQueueListCommand(g *view.Globals) *cobra.Command {
	sort := "name"
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the types that have jobs or settings",
		Long: `Lists the types that have jobs or settings. OLDEST is the age of the oldest available
job; LIMITS shows what limits claims: settings, or that no worker takes the type. With
--json each line is one type.`,
		Example: `  osqueue queue ls --sort oldest`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			columns := view.Columns("TYPE", "AVAILABLE", "RUNNING", "SCHEDULED", "+BLOCKED", "+COMPLETED", "DEAD", "+CANCELLED", "+EXPIRED", "OLDEST", "+BYTES", "LIMITS")
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				idle := &workerless{c: c}
				return view.PrintAll(g, columns, c.Queues(ctx, queueSorts[sort]), func(q v1.Queue) []string {
					return queueRow(q, idle.waits(ctx, q), g.Now())
				})
			})
		},
	}
	view.ChoiceVar(cmd, &sort, "sort", "order: by name, the type with the oldest available job first (oldest), or with most available jobs first (available)", "name", "oldest", "available")
	return cmd
}

func queueRow(q v1.Queue, noWorker bool, now time.Time) []string {
	return []string{
		view.OrDash(q.Type), strconv.Itoa(q.Unclaimed), strconv.Itoa(q.InProgress), strconv.Itoa(q.Scheduled), strconv.Itoa(q.Blocked),
		strconv.Itoa(q.Completed), strconv.Itoa(q.Dead), strconv.Itoa(q.Cancelled), strconv.Itoa(q.Expired),
		view.AgoText(q.OldestAt, now), view.SizeText(q.Bytes), limitsText(q, noWorker, now),
	}
}

// limitsText summarises the settings that delay claims of a type.
func limitsText(q v1.Queue, noWorker bool, now time.Time) string {
	var parts []string
	s := q.Settings
	if noWorker {
		parts = append(parts, "no worker")
	}
	if s.Paused {
		parts = append(parts, view.PauseCell(q.Pause, now))
	}
	if s.MaxRunning > 0 {
		parts = append(parts, fmt.Sprintf("%d running", s.MaxRunning))
	}
	if s.MaxRunningPerGroup > 0 {
		parts = append(parts, fmt.Sprintf("%d of a group", s.MaxRunningPerGroup))
	}
	if s.RatePerSecond > 0 {
		parts = append(parts, view.RateText(s.RatePerSecond))
	}
	return view.OrDash(strings.Join(parts, ", "))
}

func newQueueShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show TYPE",
		Short: "Show statistics and settings of a type",
		Long:  "Shows statistics of a type, and its settings other than the defaults.",
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			if err := checkType(ctx, c, args[0]); err != nil {
				return err
			}
			q, err := c.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			return g.Details(q, queueRows(q, (&workerless{c: c}).waits(ctx, q), g.Now()))
		}),
	}
}

func queueRows(q v1.Queue, noWorker bool, now time.Time) [][]string {
	rows := [][]string{
		{"type", view.OrDash(q.Type)},
		{"available", strconv.Itoa(q.Unclaimed)},
		{"running", strconv.Itoa(q.InProgress)},
		{"scheduled", strconv.Itoa(q.Scheduled)},
		{"blocked", strconv.Itoa(q.Blocked)},
		{"completed", strconv.Itoa(q.Completed)},
		{"dead", strconv.Itoa(q.Dead)},
		{"cancelled", strconv.Itoa(q.Cancelled)},
		{"expired", strconv.Itoa(q.Expired)},
		{"oldest", view.AgoText(q.OldestAt, now)},
		{"bytes", view.SizeText(q.Bytes)},
	}
	if noWorker {
		rows = append(rows, []string{"workers", "no worker takes this type"})
	}
	rows = append(rows, view.SettingRows(q.Settings)...)
	return append(rows, view.PauseRows(q.Pause)...)
}

func newQueuePauseCommand(g *view.Globals) *cobra.Command {
	var (
		ahead  bool
		reason string
		length time.Duration
		until  view.Time
	)
	cmd := newQueueSwitch(g, "pause", "Pause types: workers get none of their jobs",
		`Pauses the types: their jobs are not claimed any more, and running jobs continue. A
type without jobs, settings and workers is paused only with --new.

With --for or --until the pause ends by itself. A type that is paused already gets the
reason and the end of this command, or none.`,
		func(c *client.Client, ctx context.Context, name string) (v1.Queue, error) {
			if !ahead {
				if err := checkType(ctx, c, name); err != nil {
					return v1.Queue{}, err
				}
			}
			return c.PauseQueue(ctx, name, client.Pause{Reason: reason, For: length, Until: until.At})
		})
	cmd.Example = `  osqueue queue pause mail --reason "the provider is down" --for 2h`
	flags := cmd.Flags()
	flags.BoolVar(&ahead, "new", false, "also pause types that do not exist yet")
	flags.StringVar(&reason, "reason", "", "reason, which is shown with the type; at most 512 bytes")
	view.PositiveVar(flags, &length, "for", 0, "resume by itself after this time")
	view.TimeVar(flags, &until, false, "until", "resume by itself at this time: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m from now")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case length > 0 && until.Text != "":
			return view.Usagef("--for and --until exclude each other")
		case until.Text != "" && !until.At.After(time.Now()):
			return view.Usagef("--until %s is in the past (%s)", until.Text, view.LocalTime(until.At.UnixMilli()))
		}
		return nil
	}
	return cmd
}

func newQueueResumeCommand(g *view.Globals) *cobra.Command {
	return newQueueSwitch(g, "resume", "Resume paused types", "Resumes paused types.",
		func(c *client.Client, ctx context.Context, name string) (v1.Queue, error) {
			if err := checkType(ctx, c, name); err != nil {
				return v1.Queue{}, err
			}
			return c.ResumeQueue(ctx, name)
		})
}

func newQueueSwitch(g *view.Globals, verb, short, long string,
	do func(*client.Client, context.Context, string) (v1.Queue, error),
) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " TYPE…",
		Short: short,
		Long:  long,
		RunE: g.Each(func(ctx context.Context, c *client.Client, kind string) error {
			q, err := do(c, ctx, kind)
			if err != nil {
				return err
			}
			return queueLine(g, q)
		}),
	}
}

// queueLine prints the state of a type after a change.
func queueLine(g *view.Globals, q v1.Queue) error {
	state := "not paused"
	if q.Settings.Paused {
		state = view.PauseText(q.Pause)
	}
	return g.Print(view.Written(g, q), "%s  %s; %d available, %d running\n", view.OrDash(q.Type), state, q.Unclaimed, q.InProgress)
}

func newQueueResetCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "reset TYPE…",
		Short: "Set all settings of types back to their defaults, also the pause",
		Long:  "Sets all settings of the types back to their defaults, also the pause. Their jobs\nstay.",
		RunE: eachName(g, "reset", func(c *client.Client, ctx context.Context, name string) error {
			if err := checkType(ctx, c, name); err != nil {
				return err
			}
			return c.RemoveQueue(ctx, name)
		}),
	}
}

// eachName returns the run function of a command that changes each thing that its arguments name.
func eachName(g *view.Globals, done string, do func(*client.Client, context.Context, string) error) func(*cobra.Command, []string) error {
	return g.Each(func(ctx context.Context, c *client.Client, name string) error {
		if err := do(c, ctx, name); err != nil {
			return err
		}
		return g.Print(view.Written(g, map[string]string{"name": name, "done": done}), "%s  %s\n", view.OrDash(name), done)
	})
}

func newQueuePurgeCommand(g *view.Globals) *cobra.Command {
	ch := *deleteJobs
	ch.chosen = statusesWaiting
	r := &changeRun{g: g, change: &ch}
	cmd := &cobra.Command{
		Use:   "purge TYPE",
		Short: "Delete the waiting jobs of a type",
		Long: `Deletes the jobs of a type that are blocked, scheduled or available. --status selects
others; all means all that are not running. The command counts the jobs and asks for
confirmation, unless --yes is given, which is required if stdin is not a terminal.`,
		Example: `  osqueue queue purge mail
  osqueue queue purge mail --status all --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return view.Usagef("a filter cannot name the jobs without type; see osqueue job delete")
			}
			r.command, r.filter.Type = cmd.CommandPath(), args[0]
			return r.run(cmd.Context(), nil)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	view.BindStatuses(cmd, &r.filter.Status, ch.applies)
	return cmd
}

func newStatsCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Show statistics of the queue, by type",
		Long:  "Shows statistics of the whole queue, and of each type.",
		RunE: g.Call(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.StatsByType(ctx)
			if err != nil {
				return err
			}
			return view.ShowStats(g, s)
		}),
	}
}

// theDefault is the flag value that resets a setting.
const theDefault = "default"

// bindSetting adds a flag for one setting of a type.
func bindSetting[T any](flags *pflag.FlagSet, to *client.Setting[T], parse func(string) (T, error), kind, name, help string) {
	flags.Var(view.Value(to, kind, func(text string) (client.Setting[T], error) {
		if text == theDefault {
			return client.Default[T](), nil
		}
		v, err := parse(text)
		if err != nil {
			err = fmt.Errorf("%w (or %s)", err, theDefault)
		}
		return client.SetTo(v), err
	}, nil), name, help)
}

// positive reads a number of at least 1, and notNegative one of at least 0.
func positive(text string) (int64, error)    { return atLeast(1, text) }
func notNegative(text string) (int64, error) { return atLeast(0, text) }

func atLeast(least int64, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%q: write a number of at least %d", text, least)
	}
	return n, nil
}

func positiveSize(text string) (int64, error) {
	n, err := view.ParseSize(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%q: must be at least 1", text)
	}
	return n, err
}

func positiveSpan(text string) (time.Duration, error) {
	d, err := view.ParseSpan(text)
	if err == nil && d < time.Millisecond {
		err = fmt.Errorf("%q: must be at least 1ms", text)
	}
	return d, err
}

func bindPatch(flags *pflag.FlagSet, p *client.QueuePatch) {
	bindSetting(flags, &p.Aging, positiveSpan, "duration", "aging", "each time after which a waiting job gains one priority in its type")
	bindSetting(flags, &p.Lease, positiveSpan, "duration", "lease", "lease of a claim without heartbeats, unless the job or its worker sets one")
	bindSetting(flags, &p.Timeout, positiveSpan, "duration", "job-timeout", "maximum run time of one attempt, unless the job sets one")
	bindSetting(flags, &p.MaxAttempts, positive, "number", "max-attempts", "maximum number of attempts, unless the job sets one")
	bindSetting(flags, &p.Backoff, view.ParseBackoff, "backoff", "backoff", "wait after a failed attempt, unless the job sets one, as in exponential:1s:1h:20%")
	bindSetting(flags, &p.RetainFor, view.ParseSpan, "duration", "retain", "retention of completed, cancelled and expired jobs")
	bindSetting(flags, &p.RetainCount, notNegative, "number", "retain-count", "maximum number of completed, cancelled and expired jobs to keep")
	bindSetting(flags, &p.RetainDeadFor, view.ParseSpan, "duration", "retain-dead", "retention of dead jobs (90 days, unless it is set)")
	bindSetting(flags, &p.RetainDeadCount, notNegative, "number", "retain-dead-count", "maximum number of dead jobs to keep")
	bindSetting(flags, &p.MaxJobs, positive, "number", "max-jobs", "maximum number of jobs that have not ended")
	bindSetting(flags, &p.MaxBytes, positiveSize, "size", "max-bytes", "maximum size of its jobs (payloads, results, logs, names, tags and headers), as in 64MiB")
	bindSetting(flags, &p.MaxPayload, positiveSize, "size", "max-payload", "maximum size of one payload, as in 64KiB")
}

func newQueueSetCommand(g *view.Globals) *cobra.Command {
	var patch client.QueuePatch
	cmd := &cobra.Command{
		Use:   "set TYPE --SETTING VALUE…",
		Short: "Change settings of a type",
		Long: `Changes the given settings of a type, and no others; the value default resets one. They
apply from the next claim on, and quotas from the next enqueue; running jobs keep theirs.

` + view.BackoffHelp,
		Example: `  osqueue queue set mail --job-timeout 2m --max-attempts 10 --backoff exponential:1s:1h:20%
  osqueue queue set mail --retain 7d --retain-count 100000 --backoff default`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "*" {
				return view.Usagef("%q is a pattern: settings belong to one type; give its name", args[0])
			}
			if patch == (client.QueuePatch{}) {
				return view.Usagef("no setting given: give at least one, as in --max-attempts 5 (see --help; osqueue limit set limits claims)")
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				q, err := c.SetQueue(ctx, args[0], patch)
				if err != nil {
					return err
				}
				return g.Details(view.Written(g, q), append([][]string{{"type", view.OrDash(q.Type)}}, view.SettingRows(q.Settings)...))
			})
		},
	}
	bindPatch(cmd.Flags(), &patch)
	return cmd
}

// checkType returns an error if nothing is known of a type: it has no job and no
// setting, and no worker names it. A misspelt name is not taken for a type then.
func checkType(ctx context.Context, c *client.Client, name string) error {
	q, err := c.Queue(ctx, name)
	if err != nil || q.TypeStats != (v1.TypeStats{}) || q.Settings != (v1.QueueSettings{}) {
		return err
	}
	workers, err := c.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w v1.Worker) bool { return slices.Contains(w.Types, name) }) {
		return err
	}
	return fmt.Errorf("type %q does not exist: it has no jobs, settings or workers (osqueue queue ls lists the types)", name)
}

// checkNamed returns an error if the type or the batch that a filter names does not
// exist.
func checkNamed(ctx context.Context, f *view.Filter, c *client.Client) error {
	if f.Type != "" {
		if err := checkType(ctx, c, f.Type); err != nil {
			return err
		}
	}
	if f.Batch != "" {
		if _, err := c.Batch(ctx, f.Batch); err != nil {
			return err
		}
	}
	return nil
}

// workerless returns the types that no worker takes. It asks for the workers once, when
// the first type with available jobs is met.
type workerless struct {
	c       *client.Client
	asked   bool
	workers []v1.Worker
	fault   error
}

// waits reports whether a type has available jobs that no registered worker takes.
func (w *workerless) waits(ctx context.Context, q v1.Queue) bool {
	if q.Unclaimed == 0 || q.InProgress > 0 {
		return false
	}
	if !w.asked {
		w.asked = true
		w.workers, w.fault = w.c.Workers(ctx)
	}
	return w.fault == nil && q.LacksWorker(w.workers)
}
