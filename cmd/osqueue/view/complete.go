package view

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fileArguments are the words of usages whose arguments may be files.
var fileArguments = []string{"FILE", "COMMAND", "ARGUMENT"}

// fileFlags are the flags whose value is a file, and directoryFlags those whose value is a
// directory.
var (
	fileFlags = []string{
		"audit-log", "bootstrap-token", "ca", "cert", "config", "file", "hook-ca", "hook-key-file", "key", "keys", "roles-file",
		"sandbox-ro", "secret-file", "tls-ca", "tls-ca-key", "tls-cert", "tls-key", "token-file",
	}
	directoryFlags = []string{"copy-to", "data", "dir", "sandbox-dir"}
)

// Complete lets the shell complete arguments and flags of all commands below root. Only
// arguments and flags that are files offer files.
func Complete(root *cobra.Command) {
	completeFlags(root, root.LocalFlags())
	if root.ValidArgsFunction == nil {
		root.ValidArgsFunction = completeArguments(root)
	}
	for _, cmd := range root.Commands() {
		Complete(cmd)
	}
}

// completeFlags sets what the flags of a command offer. Flags with completions of their own keep
// them.
func completeFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		offer := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
		switch {
		case slices.Contains(fileFlags, f.Name):
			return // the default of shells
		case slices.Contains(directoryFlags, f.Name):
			offer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, offer) // it fails if the flag has completions
	})
}

// completeArguments returns the completions of the arguments of a command, by the words of its
// usage.
func completeArguments(cmd *cobra.Command) cobra.CompletionFunc {
	words := strings.Fields(cmd.Use)[1:]
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		word := argumentAt(words, len(args))
		switch {
		case slices.Contains(fileArguments, word):
			return nil, cobra.ShellCompDirectiveDefault
		case word == "DIR":
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// argumentAt returns the word of a usage for the argument at a position, without its brackets;
// "" if it has none. The last word counts for all further arguments if it may be repeated.
func argumentAt(words []string, at int) string {
	for _, word := range words {
		name := strings.Trim(word, "[]")
		switch {
		case name == "--":
			continue // the command of "run -- COMMAND" is an argument too
		case name == "" || !isLetter(name[0]):
			return "" // flags follow
		}
		repeated := strings.HasSuffix(word, "…") || strings.HasSuffix(name, "…") || strings.HasSuffix(name, "...")
		if at == 0 || repeated {
			return argumentWord.FindString(name)
		}
		at--
	}
	return ""
}

// argumentWord matches the first alternative of an argument in a usage.
var argumentWord = regexp.MustCompile(`^[A-Z-]+`)
