package view

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fileFlags are the flags whose value is a file, and directoryFlags those whose value is a
// directory.
var (
	fileFlags = []string{
		"audit-log", "bootstrap-token", "ca", "cert", "config", "file", "hook-ca", "hook-key-file", "key", "keys", "roles-file",
		"sandbox-ro", "secret-file", "tls-ca", "tls-ca-key", "tls-cert", "tls-key", "token-file",
	}
	directoryFlags = []string{"copy-to", "data", "dir", "sandbox-dir"}
)

// argumentOffers are what the shell offers for the arguments of commands that take files.
var argumentOffers = map[string]cobra.ShellCompDirective{
	"osqueue audit": cobra.ShellCompDirectiveDefault, "osqueue batch create": cobra.ShellCompDirectiveDefault,
	"osqueue cert show": cobra.ShellCompDirectiveDefault, "osqueue man": cobra.ShellCompDirectiveFilterDirs,
	"osqueue map": cobra.ShellCompDirectiveDefault, "osqueue run": cobra.ShellCompDirectiveDefault,
}

// Complete lets the shell offer files for the flags and commands of root that take them, and not for
// others. Flags with completions of their own keep them.
func Complete(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	complete(root)
}

func complete(cmd *cobra.Command) {
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
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}
