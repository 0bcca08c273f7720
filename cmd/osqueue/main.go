// Command osqueue contains the server, the worker and the tools of the queue in one
// binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	// CA certificates for images without any.
	_ "golang.org/x/crypto/x509roots/fallback"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], newGlobals())
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, g *globals) int {
	root := newRootCommand(g)
	args, err := g.leading(root, args)
	if err == nil {
		err = unknownTopic(root, args)
	}
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
		if _, _, unknown := root.Find(args); unknown != nil {
			err = &usageError{err: unknown}
		}
	}
	g.printError(err)
	return exitCode(err)
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "osqueue",
		Short: "A job queue for people who have a bucket and three small machines",
		Long: `osqueue is a job queue that needs no database: three nodes agree on every job
through raft, and the state goes to a bucket (S3, GCS, a directory), from
which everything can be rebuilt.

Try it with "osqueue dev".

` + exitHelp,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 1,
	}
	root.SetVersionTemplate("osqueue {{.Version}}\n")
	root.SetIn(g.stdin)
	root.SetOut(g.stdout)
	root.SetErr(g.stderr)
	g.bind(root.PersistentFlags())
	root.SetFlagErrorFunc(usageFlags)
	root.AddCommand(commands(g)...)
	return root
}

// unknownTopic returns an error for help about a command that does not exist, and for an
// unknown shell of completion: cobra would print help and report no error.
func unknownTopic(root *cobra.Command, args []string) error {
	if len(args) < 2 || args[0] != "help" && args[0] != "completion" {
		return nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if args[0] == "help" {
		args = args[1:]
	}
	cmd, rest, err := root.Find(args)
	switch {
	case err != nil:
		return &usageError{err: err}
	case cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return usagef("unknown command %q for %q", rest[0], cmd.CommandPath())
	}
	return nil
}

func commands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newDevCommand(g),
		newServeCommand(g),
		newWorkerCommand(g),
		newSubmitCommand(g),
		newRunCommand(g),
		newMapCommand(g),
		newDropCommand(g),
		newJobCommand(g),
		newDeadCommand(g),
		newQueueCommand(g),
		newCronCommand(g),
		newBatchCommand(g),
		newEventsCommand(g),
		newStatsCommand(g),
		newStatusCommand(g),
		newClusterCommand(g),
		newInspectCommand(g),
		newRestoreCommand(g),
		newBranchCommand(g),
		newVerifyCommand(g),
		newVersionCommand(g),
	}
}

func newVersionCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if g.json {
				return g.writeJSON(map[string]string{"version": version})
			}
			return g.printf("osqueue %s\n", version)
		},
	}
	hideGlobals(cmd, "servers", "timeout")
	return cmd
}
