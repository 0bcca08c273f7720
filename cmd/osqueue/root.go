package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the root of a command tree, with the flags that all commands share.
func newRoot(g *globals, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "osqueue",
		Version:       g.version,
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
	root.AddCommand(commands...)
	return root
}

// execute runs one command line, prints its error and returns the exit status.
func execute(ctx context.Context, args []string, g *globals, root *cobra.Command) int {
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
