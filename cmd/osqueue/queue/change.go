package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// change is a way to change jobs: cancel, retry or delete.
type change struct {
	verb, done string
	// applies are the statuses of the jobs that it can be done to; chosen those
	// that a filter means when it names none.
	applies, chosen []string

	one   func(*client.Client, context.Context, string) (client.Change, error)
	many  func(*client.Client, context.Context, []string) ([]client.Change, error)
	where func(*client.Client, context.Context, client.Filter) (uint64, error)
}

var (
	statusesWaiting = []string{v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed}
	statusesAlive   = append(slices.Clone(statusesWaiting), v1.StatusInProgress)
	statusesEnded   = []string{v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled, v1.StatusExpired}
	statusesFailed  = []string{v1.StatusDead, v1.StatusCancelled, v1.StatusExpired}
)

var (
	cancelJobs = &change{
		verb: "cancel", done: "cancelled", applies: statusesAlive, chosen: statusesAlive,
		one: (*client.Client).Cancel, many: (*client.Client).CancelMany, where: (*client.Client).CancelWhere,
	}
	retryJobs = &change{
		verb: "retry", done: "retried", applies: append(slices.Clone(statusesFailed), v1.StatusScheduled), chosen: statusesFailed,
		one: (*client.Client).Retry, many: (*client.Client).RetryMany, where: (*client.Client).RetryWhere,
	}
	deleteJobs = &change{
		verb: "delete", done: "deleted",
		applies: append(slices.Clone(statusesWaiting), statusesEnded...), chosen: append(slices.Clone(statusesWaiting), statusesEnded...),
		one: (*client.Client).Delete, many: (*client.Client).DeleteMany, where: (*client.Client).DeleteWhere,
	}
)

// changeRun is one run of a command that changes jobs.
type changeRun struct {
	g       *view.Globals
	change  *change
	command string // as it was called, for messages
	filter  view.Filter
	only    string // the one status that is meant, also of jobs that are named; "": no matter
	yes     bool
	payload string // that the retried job gets; "": its own
	fresh   bool   // the retried jobs lose their steps and signals
}

func (r *changeRun) bind(cmd *cobra.Command) {
	r.filter.Bind(cmd, r.only == "")
	flags := cmd.Flags()
	flags.BoolVar(&r.filter.All, "all", false, "all jobs")
	flags.Var(view.From(&r.filter.Limit, 0), "limit", "maximum number of jobs to change (default: all that match the filter)")
	if r.change == retryJobs {
		flags.BoolVar(&r.fresh, "fresh", false, "the jobs that are named lose what their attempts have stored, and the signals that they were sent")
	}
	if r.only == v1.StatusDead && r.change == retryJobs {
		flags.StringVar(&r.payload, "payload", "", "new payload of the one job that is retried, as JSON")
	}
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation before a filter changes jobs")
}

// run changes the jobs with the given ids, or the jobs that match the filter.
func (r *changeRun) run(ctx context.Context, ids []string) error {
	if err := r.check(ids); err != nil {
		return err
	}
	return r.g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		if len(ids) > 0 {
			return r.byID(ctx, c, ids)
		}
		return r.byFilter(ctx, c)
	})
}

func (r *changeRun) check(ids []string) error {
	f := &r.filter
	filtered := f.Named() || f.All || len(f.Status) > 0
	switch {
	case len(ids) > 0 && (filtered || f.Limit != 0):
		return view.Usagef("give ids or a filter, not both")
	case len(ids) == 0 && !filtered:
		return view.Usagef("no jobs given: give ids, or a filter: --type, --tag, --all… (see --help)")
	case r.fresh && (len(ids) == 0 || r.payload != ""):
		return view.Usagef("--fresh is for jobs that are named, without --payload")
	case r.payload != "" && len(ids) != 1:
		return view.Usagef("--payload is for one job: give its id")
	case f.All && f.Named():
		return view.Usagef("--all and a filter exclude each other")
	}
	return nil
}

func (r *changeRun) byID(ctx context.Context, c *client.Client, ids []string) error {
	if err := r.checkOnly(ctx, c, ids); err != nil {
		return err
	}
	if len(ids) == 1 && !r.fresh {
		got, err := r.changeOne(ctx, c, ids[0])
		if err != nil {
			return err
		}
		return showChange(r.g, r.change, got)
	}
	many := r.change.many
	if r.fresh {
		many = (*client.Client).RetryFresh
	}
	changes, err := many(c, ctx, ids)
	refused := 0
	for _, one := range changes {
		if one.Tag != "" {
			refused++
		}
		if fault := showChange(r.g, r.change, one); fault != nil {
			return errors.Join(fault, err)
		}
	}
	if err == nil && refused > 0 {
		err = fmt.Errorf("%d of %d jobs could not be %s", refused, len(ids), r.change.done)
	}
	return err
}

func (r *changeRun) changeOne(ctx context.Context, c *client.Client, id string) (client.Change, error) {
	payload, err := payloadOf("payload", r.payload, false)
	switch {
	case err != nil:
		return client.Change{}, err
	case payload != nil:
		return c.Edit(ctx, id, client.Edit{Payload: payload, Retry: true})
	}
	return r.change.one(c, ctx, id)
}

// checkOnly returns an error if a job has another status than the command requires:
// "dead rm" must not delete a job that is available.
func (r *changeRun) checkOnly(ctx context.Context, c *client.Client, ids []string) error {
	if r.only == "" {
		return nil
	}
	for _, id := range ids {
		job, err := c.Job(ctx, id)
		if err != nil && !errors.As(err, new(*client.SealError)) { // the status is never encrypted
			return err
		}
		if job.Status != r.only {
			return fmt.Errorf("job %s is %s, not %s; nothing was changed (see osqueue job %s)", id, v1.StatusWord(job.Status), r.only, r.change.verb)
		}
	}
	return nil
}

func showChange(g *view.Globals, ch *change, c client.Change) error {
	out := struct {
		JobID     string `json:"jobId"`
		Changed   bool   `json:"changed"`
		Tag       string `json:"_tag,omitzero"`
		Duplicate bool   `json:"duplicate,omitzero"`
		Status    string `json:"status,omitzero"`
		Committed string `json:"committed,omitzero"`
	}{c.JobID, c.Tag == "" && !c.Duplicate, c.Tag, c.Duplicate, c.Status, string(c.Committed)}
	return g.Print(out, "%s  %s\n", c.JobID, changeText(ch, c))
}

func changeText(ch *change, c client.Change) string {
	switch {
	case c.Tag == v1.TagNotFound:
		return "the job does not exist"
	case c.Tag == v1.TagWrongStatus:
		return fmt.Sprintf("not %s: its status does not allow it", ch.done)
	case c.Tag == v1.TagUniqueTaken:
		return fmt.Sprintf("not %s: another job holds its unique key", ch.done)
	case c.Tag != "":
		return fmt.Sprintf("not %s: %s", ch.done, c.Tag)
	case ch == cancelJobs && c.Status == v1.StatusInProgress:
		return "cancellation requested; its worker ends it"
	case c.Duplicate:
		return ch.done + " before"
	}
	return ch.done
}

// byFilter counts the matching jobs, asks for confirmation, and changes them.
func (r *changeRun) byFilter(ctx context.Context, c *client.Client) error {
	if !r.yes && !r.g.Interactive() {
		return view.NoTerminalError(r.command)
	}
	statuses, err := r.statuses()
	if err == nil {
		err = checkNamed(ctx, &r.filter, c)
	}
	if err != nil {
		return err
	}
	if !r.yes {
		if some, err := r.ask(ctx, c, statuses); err != nil || !some {
			return err
		}
	}
	n, err := r.where(ctx, c, statuses)
	if err != nil && n > 0 {
		err = fmt.Errorf("%w\n%d jobs were %s before the error", err, n, r.change.done)
	}
	if err != nil {
		return err
	}
	return r.g.Print(view.Written(r.g, map[string]uint64{"count": n}), "%s %s\n", view.Plural(n, "job"), r.change.done)
}

// where changes the jobs that match the filter and returns their number. The cluster's
// filter takes one tag; with several tags, where lists the jobs and changes them by
// their ids.
func (r *changeRun) where(ctx context.Context, c *client.Client, statuses []string) (n uint64, err error) {
	if len(r.filter.Tags) < 2 {
		return r.change.where(c, ctx, r.filter.Change(statuses))
	}
	list := r.filter.List()
	list.Statuses, list.Limit, list.PageSize = statuses, r.filter.Limit, client.MaxBatchJobs
	var ids []string
	send := func() error {
		changes, err := r.change.many(c, ctx, ids)
		for _, one := range changes {
			if one.Tag == "" {
				n++
			}
		}
		ids = ids[:0]
		return err
	}
	for job, err := range c.Jobs(ctx, list) {
		if err != nil {
			return n, err
		}
		if ids = append(ids, job.ID); len(ids) == client.MaxBatchJobs {
			if err := send(); err != nil {
				return n, err
			}
		}
	}
	return n, send()
}

// statuses returns the statuses of the jobs to change.
func (r *changeRun) statuses() ([]string, error) {
	switch {
	case r.only != "":
		return []string{r.only}, nil
	case len(r.filter.Status) == 0:
		return r.change.chosen, nil
	case slices.Contains(r.filter.Status, v1.StatusAll):
		return r.change.applies, nil
	}
	for _, s := range r.filter.Status {
		if !slices.Contains(r.change.applies, s) {
			return nil, view.Usagef("--status %s: %s is for jobs that are %s", v1.StatusWord(s), r.change.verb, strings.Join(view.StatusWords(r.change.applies), ", "))
		}
	}
	return r.filter.Status, nil
}

// ask prints the number of jobs and asks for confirmation. It returns false if there are none.
func (r *changeRun) ask(ctx context.Context, c *client.Client, statuses []string) (bool, error) {
	list, total := r.filter.List(), uint64(0)
	var parts []string
	for _, status := range view.AllStatuses {
		if !slices.Contains(statuses, status) {
			continue
		}
		list.Statuses = []string{status}
		n, err := c.CountJobs(ctx, list)
		if err != nil {
			return false, err
		}
		if total += n; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v1.StatusWord(status)))
		}
	}
	if total == 0 {
		return false, r.g.Print(map[string]uint64{"count": 0}, "no job matches; nothing was changed\n")
	}
	what := fmt.Sprintf("%s (%s)", view.Plural(total, "job"), strings.Join(parts, ", "))
	if most := r.filter.Limit; most > 0 && total > uint64(most) {
		what = fmt.Sprintf("%d of %s", most, what)
	}
	return true, r.g.Confirm(ctx, fmt.Sprintf("%s %s?", capital(r.change.verb), what))
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// filterHelp explains what commands that change jobs have in common.
const filterHelp = `Give the ids of the jobs, or a filter, which selects the jobs that match all of its
flags. With a filter the command counts the jobs and asks for confirmation, unless
--yes is given, which is required if stdin is not a terminal. With --json there is a
line for each id, or one with the count.`

func newChangeCommand(r *changeRun, cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.command = cmd.CommandPath()
		return r.run(cmd.Context(), args)
	}
	r.bind(cmd)
	return cmd
}

func newJobCancelCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(&changeRun{g: g, change: cancelJobs}, &cobra.Command{
		Use:   "cancel [ID…]",
		Short: "Cancel jobs",
		Long: `Cancels jobs that have not ended. The worker of a running job learns of it with its
next heartbeat at the latest, and ends the attempt; then the job is cancelled. osqueue
worker ends the command.

` + filterHelp,
		Example: `  osqueue job cancel 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job cancel --type mail --tag newsletter
  osqueue job cancel --status scheduled --created-before 7d --yes`,
	})
}

func newJobRetryCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(&changeRun{g: g, change: retryJobs}, &cobra.Command{
		Use:   "retry [ID…]",
		Short: "Retry dead, cancelled or expired jobs, with all their attempts",
		Long: `Makes dead, cancelled or expired jobs available again, with all their attempts, and lets
scheduled jobs run at once. A filter without --status selects dead, cancelled and expired jobs.

` + filterHelp,
		Example: `  osqueue job retry 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job retry --status cancelled --batch nightly
  osqueue job retry --status scheduled --type mail --yes`,
	})
}

func newJobDeleteCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(&changeRun{g: g, change: deleteJobs}, &cobra.Command{
		Use:     "delete [ID…]",
		Aliases: []string{"rm"},
		Short:   "Delete jobs that are not running",
		Long: `Deletes jobs, with their payloads and results. Cancel a running job first. For jobs
that depend on it, a job that is deleted before it has completed counts as dead.

` + filterHelp,
		Example: `  osqueue job delete 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job delete --status completed --type wc --created-before 1h
  osqueue job delete --all --yes`,
	})
}
