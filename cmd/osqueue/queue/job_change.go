package queue

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// filterHelp explains what commands that change jobs have in common.
const filterHelp = `Give the ids of the jobs, or a filter, which selects the jobs that match all of its
flags. With a filter the command counts the jobs and asks for confirmation, unless
--yes is given, which is required if stdin is not a terminal. With --json there is a
line for each id, or one with the count.`

func newChangeCommand(g *view.Globals, ch *change, cmd *cobra.Command) *cobra.Command {
	r := &changeRun{g: g, change: ch}
	cmd.Use = ch.verb + " [ID…]"
	cmd.Args = view.UsageArgs(cobra.ArbitraryArgs)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.command = cmd.CommandPath()
		return r.run(cmd.Context(), args)
	}
	r.bind(cmd)
	return cmd
}

func newJobCancelCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(g, cancelJobs, &cobra.Command{
		Short: "Cancel jobs",
		Long: `Cancels jobs that have not ended. The worker of a running job learns of it with its
next heartbeat at the latest, and ends the attempt; then the job is cancelled. osqueue
worker ends the command.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job cancel 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job cancel --type mail --tag newsletter
  osqueue job cancel --status scheduled --created-before 7d --yes`,
	})
}

func newJobRetryCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(g, retryJobs, &cobra.Command{
		Short: "Retry dead or cancelled jobs, with all their attempts",
		Long: `Makes dead or cancelled jobs available again, with all their attempts, and lets
scheduled jobs run at once. A filter without --status selects dead and cancelled jobs.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job retry 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job retry --status cancelled --batch nightly
  osqueue job retry --status scheduled --type mail --yes`,
	})
}

func newJobDeleteCommand(g *view.Globals) *cobra.Command {
	cmd := newChangeCommand(g, deleteJobs, &cobra.Command{
		Short: "Delete jobs that are not running",
		Long: `Deletes jobs, with their payloads and results. Cancel a running job first. For jobs
that depend on it, a job that is deleted before it has completed counts as dead.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job delete 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job delete --status completed --type wc --created-before 1h
  osqueue job delete --all --yes`,
	})
	cmd.Aliases = []string{"rm"}
	return cmd
}
