package view

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NewGroup returns a command that only contains subcommands.
func NewGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
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

// complete adds to a command and those below it what all have in common: the check of the arguments that
// their line of usage names, the exit statuses at the end of the help, and the files that the shell offers.
func complete(cmd *cobra.Command) {
	if cmd.Args == nil && cmd.HasParent() { // cobra names the commands that the root lacks
		cmd.Args = checkArgs
	}
	if cmd.Long != "" && !strings.Contains(cmd.Long, "\nExit status: ") {
		cmd.Long += "\n\n" + ExitHelp
	}
	offerFiles(cmd)
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// checkArgs returns an error for other arguments than those that the line of usage names.
func checkArgs(cmd *cobra.Command, args []string) error {
	wanted, most := argsOf(cmd.Use)
	var err error
	switch {
	case len(args) < len(wanted):
		err = fmt.Errorf("%s is missing", wanted[len(args)])
	case len(args) > most && cmd.HasSubCommands():
		err = fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	case len(args) > most:
		err = fmt.Errorf("too many arguments: %s", strings.Join(args, " "))
	default:
		return nil
	}
	return &UsageError{Err: fmt.Errorf("%w\nUsage: %s", err, cmd.UseLine())}
}

// argsOf returns the required arguments of a line of usage, such as "put NAME [FILE]… --type TYPE", and the largest
// number of arguments. Flags in it have a value.
func argsOf(use string) (wanted []string, most int) {
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], "[]{}.…")
		switch {
		case word == "--" || word == "|":
			continue
		case strings.HasPrefix(word, "--"):
			i++
			continue
		case !strings.HasPrefix(words[i], "["):
			wanted = append(wanted, word)
		}
		if most++; strings.HasSuffix(words[i], "…") || strings.HasSuffix(words[i], "...]") || strings.HasSuffix(words[i], "…]") {
			most = math.MaxInt
			break
		}
	}
	return wanted, most
}

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

// fileFlags are the flags whose value is a file, and directoryFlags those whose value is a
// directory.
var (
	fileFlags = []string{
		"audit-log", "bootstrap-token", "ca", "cert", "config", "file", "header-file", "payload-file", "hook-ca", "hook-key-file", "key", "keys", "out", "roles-file",
		"sandbox-ro", "secret-file", "tls-ca", "tls-ca-key", "tls-cert", "tls-key", "token-file",
	}
	directoryFlags = []string{"copy-to", "data", "dir", "sandbox-dir", "secrets"}
)

// argumentOffers are what the shell offers for the arguments of commands that take files.
var argumentOffers = map[string]cobra.ShellCompDirective{
	"osqueue audit": cobra.ShellCompDirectiveDefault, "osqueue batch create": cobra.ShellCompDirectiveDefault,
	"osqueue cert show": cobra.ShellCompDirectiveDefault, "osqueue debug bundle": cobra.ShellCompDirectiveDefault, "osqueue man": cobra.ShellCompDirectiveFilterDirs,
	"osqueue map": cobra.ShellCompDirectiveDefault, "osqueue run": cobra.ShellCompDirectiveDefault,
}

// offerFiles lets the shell offer files for the flags and arguments of a command that take them. Flags with
// completions of their own keep them.
func offerFiles(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case slices.Contains(fileFlags, f.Name):
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // it fails if the flag has completions
		case slices.Contains(directoryFlags, f.Name):
			_ = cmd.MarkFlagDirname(f.Name) // the flag exists
		}
	})
	if offer, ok := argumentOffers[cmd.CommandPath()]; ok {
		cmd.ValidArgsFunction = cobra.FixedCompletions(nil, offer)
	}
}
