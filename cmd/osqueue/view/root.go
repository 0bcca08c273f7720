package view

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
)

// NewRoot returns the root of a command tree, with the flags that all commands share.
func NewRoot(g *Globals, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "osqueue",
		Version:       g.Version,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 1,
	}
	root.SetVersionTemplate("osqueue {{.Version}}\n")
	root.SetIn(g.In)
	root.SetOut(g.Out)
	root.SetErr(g.Err)
	g.Bind(root.PersistentFlags())
	root.SetFlagErrorFunc(usageFlags)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), listOfGlobals, noteOnGlobals, 1))
	root.AddCommand(commands...)
	wrapHelp(g, root)
	CompleteFlag(root, "output", formats...)
	CompleteFlag(root, "ack", v1.AckQuorum, v1.AckObject)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	complete(root)
	return root
}

// The help of a command names the flags that all commands share in one line: they would be longer than
// the page.
const (
	listOfGlobals = "Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}"
	noteOnGlobals = "Flags of all commands, such as --servers and --json: osqueue --help"
)

// Execute runs one command line, prints its error and returns the exit status.
func Execute(ctx context.Context, args []string, g *Globals, root *cobra.Command) int {
	err := unknownTopic(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
		if _, _, unknown := root.Find(args); unknown != nil {
			err = &UsageError{Err: unknown}
		}
	}
	g.PrintError(err)
	return ExitCode(err)
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
		return &UsageError{Err: err}
	case cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return Usagef("unknown command %q for %q", rest[0], cmd.CommandPath())
	}
	return nil
}

// wrapHelp breaks the texts and flags of help at words if stdout is a terminal: the terminal would
// break them within words, and put the rest below the names of flags.
func wrapHelp(g *Globals, root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if width, ok := g.screen(); ok {
			c.Long = ansi.Wordwrap(c.Long, width, "")
			root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", width)))
		}
		help(c, args)
	})
}

// IgnoreHangup lets the process go on at SIGHUP, with a note in its log: systemctl reload and a terminal
// that ends send it, and logrotate for the audit log. The programs that the process starts do not inherit
// that. The caller calls stop.
func IgnoreHangup(note func(text string, args ...any)) (stop func()) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range hangups {
			note("SIGHUP: no setting is read again; SIGTERM stops this process")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}
