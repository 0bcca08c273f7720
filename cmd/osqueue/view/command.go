package view

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// NewGroup returns a command that only contains subcommands.
func NewGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long + "\n\n" + ExitHelp,
		Args:  groupArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// groupArgs refuses a subcommand that does not exist, and names those that do.
func groupArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Usagef("unknown command %q for %q (commands: %s)", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}

// CompleteFlag adds completions for the value of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, words ...string) {
	// The call fails only if the flag does not exist, or has completions already.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// UsageArgs turns the errors of an argument check into usage errors.
func UsageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{Err: fmt.Errorf("%w\nUsage: %s", argsError(cmd, args, err), cmd.UseLine())}
		}
		return nil
	}
}

// argsError names the argument that is missing or superfluous; cobra only counts them.
func argsError(cmd *cobra.Command, args []string, err error) error {
	var wanted []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.TrimSuffix(word, "…"); word != strings.ToUpper(word) || !isLetter(word[0]) {
			break
		}
		wanted = append(wanted, word)
	}
	switch {
	case len(args) < len(wanted):
		return fmt.Errorf("%s is missing", wanted[len(args)])
	case strings.HasPrefix(err.Error(), "accepts"), !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command"):
		return fmt.Errorf("too many arguments: %s", strings.Join(args, " "))
	}
	return err
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' }

// numberFault matches the errors of strconv.
var numberFault = regexp.MustCompile(`strconv\.\w+: parsing .*: (invalid syntax|value out of range)`)

// usageFlags turns flag errors into usage errors, for cobra's SetFlagErrorFunc.
func usageFlags(cmd *cobra.Command, err error) error {
	text := numberFault.ReplaceAllStringFunc(err.Error(), func(fault string) string {
		switch {
		case strings.Contains(fault, "ParseBool"):
			return "write true or false"
		case strings.Contains(fault, "ParseFloat"):
			return "write a number"
		case strings.Contains(fault, "out of range"):
			return "the number is too large"
		}
		return "write a whole number"
	})
	return &UsageError{Err: fmt.Errorf("%s\nUsage: %s", text, cmd.UseLine())}
}
