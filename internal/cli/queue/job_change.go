package queue

import (
	"github.com/spf13/cobra"

	"osqueue/internal/cli/view"
)

// filterHelp explains what commands that change jobs have in common.
const filterHelp = `Jobs are named by their ids, or chosen by a filter: those that match all that it
names. Before jobs are changed by a filter they are counted, and you are asked;
--yes answers that beforehand, and is needed when stdin is no terminal. With
--json there is a line for each id, or one with the count.`

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
		Short: "Take jobs back",
		Long: `Cancels jobs that have not ended. One that runs is cancelled as soon as its
worker has heard of it, with its next heartbeat at the latest, and has ended the
attempt; osqueue worker ends the command.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job cancel 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job cancel --type mail --tag newsletter
  osqueue job cancel --status scheduled --created-before 7d --yes`,
	})
}

func newJobRetryCommand(g *view.Globals) *cobra.Command {
	return newChangeCommand(g, retryJobs, &cobra.Command{
		Short: "Give dead or cancelled jobs all their attempts again",
		Long: `Gives dead or cancelled jobs all their attempts again, and lets scheduled ones
run at once. A filter without --status means those that are dead or cancelled.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job retry 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job retry --status cancelled --batch nightly
  osqueue job retry --status scheduled --type mail --yes`,
	})
}

func newJobDeleteCommand(g *view.Globals) *cobra.Command {
	cmd := newChangeCommand(g, deleteJobs, &cobra.Command{
		Short: "Remove jobs that do not run",
		Long: `Removes jobs, with their payloads and results. One that runs has to be cancelled
first. For jobs that wait for it, a job that is deleted before it has completed
counts as dead.

` + filterHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue job delete 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job delete --status completed --type wc --created-before 1h
  osqueue job delete --all --yes`,
	})
	cmd.Aliases = []string{"rm"}
	return cmd
}
